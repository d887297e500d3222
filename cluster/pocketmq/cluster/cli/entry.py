"""Where the installed `pocketmq` command begins: quiet about Ctrl-C while the rest is imported."""

from __future__ import annotations

from pocketmq.runtime.interrupts import end_quietly, interrupt_again

end_quietly()  # here and not in main(): the installed script imports this module first

from pocketmq.cluster.cli import main as command  # noqa: E402


def main() -> int:
    """Run the command that the command line names; its exit status."""
    interrupt_again()
    return command.main()
