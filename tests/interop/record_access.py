"""Recipe of `tests/golden/access/answers_5_3_3.txt`: RocketMQ's decisions about generated cases.

python tests/interop/record_access.py

`answers_5_5_0.txt` was made by the same program with the jars of 5.5.0.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.access_cases import COUNT, SEED, drawn
from support.golden import GOLDEN
from support.java import run_java


def main() -> None:
    """Ask RocketMQ's own code anew."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(drawn(SEED, COUNT), file)
        file.flush()
        done = run_java("JudgeRules", file.name, server=True)
    (GOLDEN / "access" / "answers_5_3_3.txt").write_text(done.stdout)


if __name__ == "__main__":
    main()
