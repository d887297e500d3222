"""Messages that are over when they are taken in, and what waits until their copies are safe."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.timers.timer_rig import START_MS, timers_at
from pocketmq.broker.store import PutStatus

Told = Callable[[PutStatus], None]


async def stored_before(root: Path) -> None:
    """A message that is over by now and one that is not, and no timer has seen them."""
    async with timers_at(root) as rig:
        rig.send(b"over", TIMER_DELAY_SEC="5")
        rig.send(b"waits", TIMER_DELAY_SEC="600")
        await rig.advance(1)
    shutil.rmtree(root / "timerlog")
    (root / "timerwheel").unlink()
    (root / "config" / "timercheck").unlink()


@pytest.mark.parametrize("fails_first", [False, True])
async def test_a_late_message_holds_up_those_behind_it(tmp_path: Path, fails_first: bool) -> None:
    await stored_before(tmp_path)
    told: list[Told] = []
    async with timers_at(
        tmp_path, now_ms=START_MS + 60_000, when_kept=lambda _end, tell: told.append(tell)
    ) as rig:
        await rig.advance(0)
        assert rig.bodies() == [b"over"]
        assert (rig.log.end, rig.files.checkpoint.queue_offset) == (0, 0)
        if fails_first:
            told.pop()(PutStatus.FLUSH_DISK_TIMEOUT)
            await rig.advance(3)
            assert rig.log.end == 0, "a flush is asked for again"
        for tell in told:
            tell(PutStatus.PUT_OK)
        await rig.advance(3)
        assert (rig.log.end, rig.files.checkpoint.queue_offset) == (52, 2)
        assert rig.bodies() == [b"over"], "once"
        await rig.advance(600)
        assert rig.bodies() == [b"over", b"waits"]
