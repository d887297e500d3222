"""Streams into Parquet and Delta while drivers, executors, brokers and name servers are killed.

Retention removes messages too: those that are read, and once some that are not. That stops both
queries, which then go on with failOnDataLoss=false and count them. In the end each table has every
other message exactly once, or the script says what is missing or twice.

examples:
  python scripts/spark_crashes.py                     the drivers 6 times, and everything else:
                                                      five minutes or more
  python scripts/spark_crashes.py --messages 336776   as many as there are flights
  python scripts/spark_crashes.py --events driver --events overtaken --seed 7
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from pocketmq.runtime import logs
from support.forgetful import forgetful
from support.spark_cluster import spark_cluster
from support.spark_crashes import EVENTS, Crashes

ALL = (
    *("driver", "executor", "retention", "driver", "broker", "driver"),
    *("grow", "driver", "overtaken", "nameservers", "driver", "broker"),
)
FILE_BYTES = 64 * 1024
"""Of a broker's log: retention removes whole files."""


def main(arguments: list[str] | None = None) -> int:
    """One run; 1 when a table is not as it should be."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--events", action="append", choices=EVENTS, help="instead of all")
    parser.add_argument("--master", default="local-cluster[2,1,1024]")
    parser.add_argument("--away", type=float, default=60.0, help="seconds without name servers")
    parser.add_argument("--seed", type=int, default=1, help="chooses the moments")
    options = parser.parse_args(arguments)
    logs.configure("error")  # that a broker is gone is no news here
    began = time.perf_counter()

    def tell(line: str) -> None:
        print(f"{time.perf_counter() - began:7.1f} s  {line}", flush=True)

    with (
        tempfile.TemporaryDirectory(prefix="spark-crashes-") as folder,
        spark_cluster(Path(folder) / "cluster", broker_arguments=forgetful(FILE_BYTES)) as cluster,
    ):
        crashes = Crashes(
            cluster,
            Path(folder),
            options.messages,
            options.events or ALL,
            options.master,
            options.away,
            seed=options.seed,
            tell=tell,
        )
        try:
            crashes.run()
        except AssertionError as exc:
            tell(f"BROKEN {exc}")
            return 1
    tell(f"{options.messages} messages, each once in both tables but for the lost ones")
    return 0


if __name__ == "__main__":
    sys.exit(main())
