"""A recording for each of the thirty questions of docs/questions.md.

    python scripts/questions.py                     which recording shows which answer
    python scripts/questions.py 7                   makes it, and opens it where it shows the answer
    python scripts/questions.py 7 --record q7.jsonl
    python scripts/questions.py 7 --export q7.html  one file that needs no server

Most are seeds of the simulation: the same seed is the same recording on every machine, so none of
them is stored. Two are of a small cluster in this process. tests/teaching/test_questions.py makes
all of them, and looks for what they shall show.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pocketmq.client import Message
from pocketmq.cluster.recordings import findings
from pocketmq.cluster.recordings.reader import open_recording
from pocketmq.cluster.recordings.writer import RecordingWriter
from pocketmq.cluster.steering.shape import ClockKind
from pocketmq.cluster.watch_page.present import present
from pocketmq.cluster.watching.export import export_recording
from pocketmq.cluster.watching.recording_server import serve_recording
from pocketmq.operation.events.event import Event
from pocketmq.protocol.allocation.consistent_hash import AllocateMessageQueueConsistentHash
from pocketmq.runtime import logs
from pocketmq.simulation.recording import record_replicas, record_seed
from pocketmq.testing import Cluster, start_cluster


class Written:
    """Writes what a cluster tells; a `Watcher`."""

    def __init__(self, writer: RecordingWriter) -> None:
        self._writer = writer

    def tell(self, event: Event) -> None:
        """Write an event."""
        self._writer.write(event)


@contextmanager
def recorded(path: Path, clock: ClockKind) -> Iterator[Cluster]:
    """A nameserver and two brokers in this process, with a recording."""
    with ExitStack() as stack:
        cluster = stack.enter_context(start_cluster(brokers=2, clock=clock))
        control = cluster.control
        began_ms, names = control.time_ms(), control.roles.names
        writer = stack.enter_context(RecordingWriter(path, "question", began_ms, names))
        telling = control.events.telling(Written(writer))

        async def begin() -> None:
            for event in await present(control):
                writer.write(event)
            await telling.__aenter__()

        async def end() -> None:
            await control.events.caught_up()
            await telling.__aexit__(None, None, None)

        cluster.thread.result(begin())
        yield cluster
        cluster.thread.result(end())


def hashing(path: Path) -> None:
    """Three members share eight queues out by consistent hash."""
    with recorded(path, "real") as cluster, ExitStack() as stack:
        sync = cluster.sync
        topic = sync.create_topic("orders", queues=4)
        producer = stack.enter_context(sync.producer())
        for number in range(1, 4):
            strategy = AllocateMessageQueueConsistentHash()
            name = f"consumer-{number}"
            stack.enter_context(
                sync.consumer("billing", topic, strategy=strategy, instance_name=name)
            )
            sync.group("billing").assigned(members=number)
            for order in range(4):
                producer.send(Message(topic, b"%d" % order))


def expiry(path: Path) -> None:
    """A broker freezes, and its nameserver forgets it."""
    with recorded(path, "manual") as cluster, cluster.sync.producer() as producer:
        topic = cluster.sync.create_topic("orders", queues=4)
        for order in range(8):
            producer.send(Message(topic, b"%d" % order))
        cluster.sync.freeze("broker-b")
        cluster.thread.result(cluster.control.advance(126))
        cluster.sync.thaw("broker-b")
        cluster.thread.result(cluster.control.advance(31))


Made = Callable[[Path], object]


def seeds(*numbers: int) -> list[Made]:
    """Seeds of clients: joins, deaths, faults of the network."""
    return [partial(record_seed, each) for each in numbers]


def replicas(*numbers: int) -> list[Made]:
    """Seeds of three replicas and their controllers."""
    return [partial(record_replicas, each) for each in numbers]


class Shown(NamedTuple):
    """What shows the answer to a question."""

    made_by: Sequence[Made]
    """The first of them that shows it: a change of the code may change what happens in a seed."""
    finding: Callable[[findings.Events], findings.Finding]
    view: str = "cluster"


QUESTIONS = {
    1: Shown(seeds(0, 1), findings.answered_before_flushed, "files"),
    2: Shown(seeds(0, 1), findings.flushed_late, "files"),
    3: Shown(seeds(23, 33, 32, 14), findings.consumed_twice),
    4: Shown(seeds(23, 34, 33, 37), findings.twice_after_a_death),
    5: Shown(seeds(0, 14, 15), findings.each_computes, "queues"),
    6: Shown(seeds(23, 16, 20), findings.storm, "queues"),
    7: Shown(seeds(21, 16, 20, 14), findings.owners_differ, "queues"),
    8: Shown(seeds(20, 23, 16), findings.nothing_to_own, "queues"),
    9: Shown([hashing], findings.consistent_hash, "queues"),
    10: Shown(seeds(0, 16, 14), findings.told_of_a_death),
    11: Shown([expiry], findings.expired),
    12: Shown(seeds(18, 35, 19, 30), findings.nameserver_new),
    13: Shown(seeds(18, 35, 19, 30), findings.without_nameserver),
    14: Shown(seeds(0, 23, 28), findings.locked, "queues"),
    15: Shown(seeds(23, 0, 20), findings.refused_lock, "time"),
    16: Shown(seeds(23, 30), findings.suspended, "offsets"),
    17: Shown(seeds(16, 18, 14), findings.sent_back, "time"),
    18: Shown(seeds(16, 18, 14), findings.waits_for_its_retry, "time"),
    19: Shown(seeds(22, 29, 2, 14), findings.dead_letter, "time"),
    20: Shown(seeds(16, 14, 19), findings.offsets_stay, "offsets"),
    21: Shown(seeds(21, 22, 29), findings.consumed_and_kept, "offsets"),
    22: Shown(seeds(0, 1), findings.one_log, "files"),
    23: Shown(seeds(16, 21, 15), findings.filtered, "time"),
    24: Shown(seeds(0, 1), findings.held, "time"),
    25: Shown(seeds(0, 1), findings.where_it_begins, "offsets"),
    26: Shown(seeds(31, *range(40, 60)), findings.half, "time"),
    27: Shown(seeds(31, *range(40, 60)), findings.decided_late, "time"),
    28: Shown(replicas(7, 2, 4, 5), findings.elected),
    29: Shown(replicas(41, 59, 57, 39), findings.two_masters),
    30: Shown(seeds(14, 1), findings.held_back, "offsets"),
}


def words(shown: Shown) -> str:
    """What is to be seen, in a sentence."""
    return (shown.finding.__doc__ or "").strip().rstrip(".")


def make(shown: Shown, path: Path) -> str:
    """Make the recording.

    Returns:
        The part of its page's address after `#` that leads to where it shows the answer.

    Raises:
        LookupError: No recording shows it any more.
    """
    for made_by in shown.made_by:
        made_by(path)
        events = open_recording(path).events
        event = next(shown.finding(events), None)
        if event is not None:
            return f"#view={shown.view}&t={(event.real_us - events[0].real_us) / 1e6:.2f}"
    raise LookupError(f"in no recording it is seen: {words(shown)}")


def main() -> int:
    """Make, open or list recordings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("question", type=int, nargs="?", choices=list(QUESTIONS), metavar="1..30")
    parser.add_argument("--record", type=Path, help="write the recording to this file")
    parser.add_argument("--export", type=Path, help="write one HTML file")
    options = parser.parse_args()
    if options.question is None:
        for number, shown in QUESTIONS.items():
            print(f"{number:2}  {words(shown)}")
        return 0
    logs.configure("error")
    shown = QUESTIONS[options.question]
    with tempfile.TemporaryDirectory() as folder:
        path = options.record or Path(folder) / f"question-{options.question}.jsonl"
        link = make(shown, path)
        if options.export is not None:
            print(f"{export_recording(path, options.export)}; {link}")
        elif options.record is not None:
            print(f"pocketmq watch --from {path}, then {link}: {words(shown)}")
        else:

            def show(url: str) -> None:
                print(f"{url}{link}\n{words(shown)}", flush=True)
                webbrowser.open(f"{url}{link}")

            return serve_recording(path, show)
    return 0


if __name__ == "__main__":
    sys.exit(main())
