"""Records a history of clients while brokers are killed, frozen and partitioned; checks it.

Producers and consumers, each a process, record what they send, receive and get as answers; a proxy
in front of each broker records consumer offsets. Between faults the cluster must make progress:
more messages are acknowledged. docs/histories.md defines the anomalies.

examples:
  python scripts/record_history.py --faults 40           two brokers of PocketMQ
  python scripts/record_history.py --faults 20 --real    RocketMQ's own broker (needs Java)
  python scripts/record_history.py --seed 7 --keep DIR   repeat a run and keep its files
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from pocketmq.runtime import logs
from support.history_run import FAULTS, HistoryRun, our_cluster, real_cluster


async def _run(options: argparse.Namespace, folder: Path) -> bool:
    chance = Random(options.seed)
    possible = [name for name in FAULTS if not (options.real and name.startswith("clock"))]
    faults = [chance.choice(possible) for _ in range(options.faults)]
    made = real_cluster(folder) if options.real else our_cluster(folder, brokers=options.brokers)
    async with made as system:
        run = HistoryRun(system, folder / "history", options.seed)
        await run.run(faults)
    judgement = run.judgement()
    print(", ".join(f"{name} {number}" for name, number in sorted(Counter(faults).items())))
    print(judgement)
    return judgement.is_clean


def main() -> int:
    """Record and check; 1 for an anomaly."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--faults", type=int, default=20, help="number of faults")
    parser.add_argument("--seed", type=int, default=1, help="decides the faults")
    parser.add_argument("--brokers", type=int, default=2, help="number of PocketMQ's brokers")
    parser.add_argument("--real", action="store_true", help="use one broker of RocketMQ instead")
    parser.add_argument("--keep", type=Path, help="folder in which the files are kept")
    options = parser.parse_args()
    logs.configure("error")
    folder = options.keep or Path(tempfile.mkdtemp(prefix="history-"))
    folder.mkdir(parents=True, exist_ok=True)
    clean = uvloop.run(_run(options, folder))
    if clean and options.keep is None:
        shutil.rmtree(folder)
    else:
        print(f"the history is in {folder / 'history'}")
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
