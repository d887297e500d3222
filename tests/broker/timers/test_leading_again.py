"""A broker that led before, and followed another master since, delivers what that one has not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from broker.timers.timer_rig import START_MS, TimerRig, timers_at
from pocketmq.broker.store import PutStatus
from pocketmq.broker.timers.layout import NORMAL, ROLL, Checkpoint
from pocketmq.protocol.messages.validation import TIMER_TOPIC


def follow(rig: TimerRig) -> None:
    """Note that another master has taken in all there is, and delivered all that is due."""
    read_ms = rig.rules.floor(rig.clock.time_ms())
    taken_in = rig.store.reads.max_offset(TIMER_TOPIC, 0)
    rig.timers.follow(Checkpoint(read_ms, 0, taken_in, taken_in, rig.files.checkpoint.version))


async def lead(rig: TimerRig) -> None:
    rig.timers.recovered()
    await rig.timers.start()


async def test_what_the_other_master_has_delivered_is_not_delivered_again(tmp_path: Path) -> None:
    async with timers_at(tmp_path) as rig:
        rig.send(b"of our time", TIMER_DELAY_SEC="30")
        rig.send(b"still waits", TIMER_DELAY_SEC="90")
        await rig.advance(5)
        await rig.timers.stop()
        rig.send(b"of the other's", TIMER_DELAY_SEC="30")
        rig.send(b"waits as well", TIMER_DELAY_SEC="90")
        await rig.advance(60)
        follow(rig)
        await lead(rig)
        assert len(rig.wheel) == 1
        await rig.advance(60)
        assert rig.bodies() == [b"still waits", b"waits as well"]


async def test_a_message_in_the_place_of_one_that_was_cut_off_comes_at_its_own_time(
    tmp_path: Path,
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    async with timers_at(ours) as rig:
        rig.send(b"both have it", TIMER_DELAY_SEC="90")
        rig.send(b"cut", TIMER_DELAY_SEC="30")
        await rig.advance(5)
    async with timers_at(theirs) as rig:
        await rig.timers.stop()
        rig.send(b"both have it", TIMER_DELAY_SEC="90")
        rig.send(b"new", TIMER_DELAY_SEC="60")
        follow(rig)
    for name in ("timerlog", "timerwheel"):  # ours, beside the log that was cut and goes on
        shutil.rmtree(theirs / name, ignore_errors=True)
        copy = shutil.copytree if (ours / name).is_dir() else shutil.copy
        copy(ours / name, theirs / name)
    async with timers_at(theirs, now_ms=START_MS + 10_000) as rig:
        await rig.advance(49)
        assert rig.bodies() == []
        await rig.advance(3)
        assert rig.bodies() == [b"new"]
        await rig.advance(100)
        assert rig.bodies() == [b"new", b"both have it"]


async def test_what_was_delivered_and_perhaps_cut_off_is_not_noted_later(tmp_path: Path) -> None:
    is_kept = False

    def when_kept(_: int, done: Callable[[PutStatus], None]) -> None:
        if is_kept:
            done(PutStatus.PUT_OK)

    running, left = tmp_path / "running", tmp_path / "left"
    async with timers_at(running, when_kept=when_kept) as rig:
        rig.send(b"a", TIMER_DELAY_SEC="30")
        await rig.advance(40)
        assert rig.bodies() == [b"a"]
        await rig.timers.stop()
        rig.timers.follow(Checkpoint(START_MS, 0, 1, 1, rig.files.checkpoint.version))
        is_kept = True
        rig.store.readiness.block("the disk is full")
        await lead(rig)
        await rig.advance(5)
        shutil.copytree(running, left)  # killed
        rig.store.readiness.unblock("the disk is full")
    (left / "lock").unlink()
    async with timers_at(left, now_ms=START_MS + 60_000) as rig:
        await rig.advance(5)
        assert rig.bodies() == [b"a", b"a"], "the other master's log may not have the first"


async def test_a_log_record_is_of_the_message_with_its_topic_size_and_time(tmp_path: Path) -> None:
    async with timers_at(tmp_path) as rig:
        rig.send(b"a", TIMER_DELAY_SEC="30")
        await rig.advance(1)
        [message] = rig.queue(TIMER_TOPIC)
        entry = rig.log.last_record()
        assert entry is not None
        assert rig.rules.is_of(message, entry)
        for other in (
            entry._replace(topic_hash=entry.topic_hash + 1),
            entry._replace(size=entry.size + 1),
            entry._replace(delay_ms=entry.delay_ms + 1000),
        ):
            assert not rig.rules.is_of(message, other)
        rolls = entry._replace(delay_ms=10_000, magic=NORMAL | ROLL)
        assert rig.rules.is_of(message, rolls), "its slot is not yet the message's"
