"""Signals on the event loop: each is heard once, whatever comes beside it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from types import FrameType

import pytest

from pocketmq.runtime.heard_signals import call_on_signal
from pocketmq.runtime.process import loop_factory


async def _one_that_comes_while_another_is_handled() -> None:
    """Print the SIGTERMs: one comes while SIGUSR1 is handled, one when that has been read."""
    heard: asyncio.Queue[str] = asyncio.Queue()
    read = asyncio.Event()

    def another(_number: int, _frame: FrameType | None) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    loop = asyncio.get_running_loop()
    call_on_signal(loop, signal.SIGTERM, heard.put_nowait, "SIGTERM")
    call_on_signal(loop, signal.SIGUSR2, read.set)
    signal.signal(signal.SIGUSR1, another)
    for number, condition in [
        (signal.SIGUSR1, heard.get),
        (signal.SIGUSR2, read.wait),
        (signal.SIGTERM, heard.get),
    ]:
        # From outside, while the loop waits for input.
        kill = f"sleep 0.1; kill -{int(number)} {os.getpid()}"
        await asyncio.create_subprocess_shell(kill)
        print(await condition(), heard.qsize())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_signal_that_comes_while_another_is_handled_is_heard_once(loop: str) -> None:
    done = subprocess.run(
        [sys.executable, __file__],
        env=os.environ | {"POCKETMQ_LOOP": loop},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.stdout.splitlines() == ["SIGTERM 0", "True 0", "SIGTERM 0"], done.stderr


def test_nobody_hears_a_signal_when_the_loop_is_closed() -> None:
    heard: list[str] = []
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        call_on_signal(runner.get_loop(), signal.SIGUSR2, heard.append, "SIGUSR2")
    before = signal.signal(signal.SIGUSR2, signal.SIG_DFL)
    assert callable(before) or before is signal.SIG_DFL
    if callable(before):
        before(signal.SIGUSR2, None)
    assert heard == []


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as main:
        main.run(_one_that_comes_while_another_is_handled())
