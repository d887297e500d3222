#!/usr/bin/env bash
# What is too long for every change: the whole suite beside four busy loops, then the long runs.
#
#   scripts/nightly.sh                 all of it: 4 to 8 hours on 2 cores
#   scripts/nightly.sh busy fuzz       some parts; the rest of the line goes to pytest after --
#   scripts/nightly.sh busy -- tests/protocol -k frames
#
# Parts: busy (the suite beside four busy loops), newest (the suite with the newest release of all
# that is locked), histories, real (needs Java), fuzz, crash, seeds, mutate. Each part's output is in
# nightly/<part>.log; the exit status is the number of parts that failed.
set -uo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
[ -x "$python" ] || { echo "make setup first" >&2; exit 2; }

parts=()
while [ $# -gt 0 ] && [ "$1" != "--" ]; do parts+=("$1"); shift; done
[ "${1:-}" = "--" ] && shift
[ ${#parts[@]} -gt 0 ] || parts=(busy newest histories real fuzz crash seeds mutate)

loops=()
stop_loops() {
    for pid in ${loops[@]+"${loops[@]}"}; do kill "$pid" 2>/dev/null; done
    loops=()
}
trap stop_loops EXIT

busy() {
    for _ in 1 2 3 4; do
        "$python" -c 'while True: pass' &
        loops+=($!)
    done
    CI=true "$python" -m pytest -q "$@"
    local status=$?
    stop_loops
    return $status
}
newest() { make nightly; }
histories() { "$python" scripts/record_history.py --faults 200 --seed "$RANDOM"; }
real() { "$python" scripts/record_history.py --faults 60 --seed "$RANDOM" --real; }
fuzz() { "$python" scripts/fuzz.py --runs 2000000 --seed "$RANDOM"; }
crash() { "$python" scripts/crash_loop.py --rounds 1000 --seed "$RANDOM"; }
seeds() { "$python" scripts/simulate.py --seeds 20000; }
mutate() {
    local status=0
    nice "$python" scripts/mutate.py || status=1
    nice "$python" scripts/mutate.py --edges || status=1
    nice "$python" tests/mutants/planted.py || status=1
    return $status
}

mkdir -p nightly
failed=0
for part in "${parts[@]}"; do
    case "$part" in
        busy | newest | histories | real | fuzz | crash | seeds | mutate) ;;
        *) echo "no part $part; there are busy newest histories real fuzz crash seeds mutate" >&2; exit 2 ;;
    esac
    began=$SECONDS
    if [ "$part" = busy ]; then busy "$@"; else "$part"; fi >"nightly/$part.log" 2>&1
    status=$?
    [ $status = 0 ] || failed=$((failed + 1))
    echo "$part: $([ $status = 0 ] && echo ok || echo "FAILED ($status)") after $((SECONDS - began)) s: $(tail -n 1 "nightly/$part.log")"
done
exit $failed
