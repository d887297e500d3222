"""Recipe of `tests/golden/pop_and_timers.txt`: what RocketMQ's classes write of pop and timers.

    python tests/interop/record_pop_and_timers.py [FILE]

Runs `java/golden/PopAndTimers.java` as a single source file on the server's class path.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.golden import GOLDEN
from support.java import PROJECT, build

SOURCE = PROJECT / "golden" / "PopAndTimers.java"


def record() -> str:
    """What the program prints: lines `name TAB text`."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["java", f"-Duser.home={folder}", f"@{build(server=True)}", str(SOURCE), folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{SOURCE.name}: exit status {done.returncode}\n{done.stderr[-3000:]}")
    return "".join(line for line in done.stdout.splitlines(keepends=True) if "\t" in line)


def main() -> None:
    """Write the file of the command line, or the golden one."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDEN / "pop_and_timers.txt"
    text = record()
    target.write_text(text)
    print(f"{target}: {len(text.splitlines())} lines")


if __name__ == "__main__":
    main()
