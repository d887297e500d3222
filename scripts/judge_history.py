"""Checks a recorded history, given as the files of all its processes (docs/histories.md).

Exit status 1 when there is an anomaly (a lost, duplicated or reordered message, ...), 2 when a file
is not part of a history.

examples:
  python scripts/judge_history.py history/*.jsonl
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pocketmq.simulation.histories.files import judge_files
from pocketmq.simulation.histories.judge import HistoryError


def main() -> int:
    """Check the files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path, help="one for each process")
    options = parser.parse_args()
    try:
        judgement = judge_files(options.files)
    except (HistoryError, OSError) as exc:
        print(exc, file=sys.stderr)
        return 2
    print(judgement)
    return 0 if judgement.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
