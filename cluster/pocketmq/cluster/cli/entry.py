"""Entry point of the installed command: Ctrl-C shows no traceback while the rest is imported."""

from __future__ import annotations

from pocketmq.runtime.interrupts import end_quietly

end_quietly()  # here and not in main(): the installed script imports this module first

from pocketmq.cluster.cli.main import main as run  # noqa: E402


def main() -> int:
    """Run the command. A Ctrl-C after it, while Python itself ends, shows no traceback either."""
    try:
        return run()
    finally:
        end_quietly()
