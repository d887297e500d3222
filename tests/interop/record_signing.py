"""Recipe of `tests/golden/signing/signed.tsv`: requests that RocketMQ's own hook has signed.

python tests/interop/record_signing.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.golden import GOLDEN
from support.java import run_java


def main() -> None:
    """Have the Java hook sign anew."""
    done = run_java("SignedRequests", properties={"stdout.encoding": "UTF-8"})
    (GOLDEN / "signing" / "signed.tsv").write_text(done.stdout, encoding="utf-8")


if __name__ == "__main__":
    main()
