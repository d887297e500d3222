"""`python -m pocketmq`: the `pocketmq` command, where its script is not on the PATH."""

from __future__ import annotations

import sys

from pocketmq.cluster.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
