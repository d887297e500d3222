"""Deliveries that the store refuses for a while are made once, and counted once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from broker.timers.timer_rig import TimerRig, timers_at
from pocketmq.broker.store import PutResult, PutStatus, StoredMessage
from pocketmq.broker.timers.rules import TimerRules
from pocketmq.protocol.messages.validation import TIMER_TOPIC


def refuse_once(rig: TimerRig, monkeypatch: pytest.MonkeyPatch, *bodies: bytes) -> set[bytes]:
    """Have the store refuse messages with these bodies, each once; those it has not yet."""
    left, put = set(bodies), rig.store.put_messages

    def put_others(messages: Sequence[StoredMessage]) -> list[PutResult]:
        refused = [bytes(message.body) in left for message in messages]
        left.difference_update(bytes(message.body) for message in messages)
        stored = iter(put([m for m, no in zip(messages, refused, strict=True) if not no]))
        return [
            PutResult(PutStatus.SERVICE_NOT_AVAILABLE) if no else next(stored) for no in refused
        ]

    monkeypatch.setattr(rig.store, "put_messages", put_others)
    return left


async def test_counts_change_once_however_often_the_store_refuses(tmp_path: Path) -> None:
    async with timers_at(tmp_path) as rig:
        for n in range(10):
            rig.send(b"%d" % n, TIMER_DELAY_SEC="30")
        await rig.advance(25)
        rig.store.readiness.block("the disk is full")
        await rig.advance(20)
        assert rig.counts.of("T") == 10, "they still wait"
        rig.store.readiness.unblock("the disk is full")
        await rig.advance(5)
        assert len(rig.bodies()) == 10
        assert rig.counts.of("T") == 0


async def test_of_a_slot_only_what_was_refused_is_stored_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = TimerRules(roll_window_slots=60, max_delay=lambda: 3_600_000)
    async with timers_at(tmp_path, rules=rules) as rig:
        for n in range(4):
            rig.send(b"rolls %d" % n, TIMER_DELAY_SEC="110")  # at 60 s
        await rig.advance(10)
        for n in range(4):
            rig.send(b"%d" % n, TIMER_DELAY_SEC="51")
        await rig.advance(45)
        slots = len(rig.wheel)
        refused = refuse_once(rig, monkeypatch, b"1", b"rolls 2")
        await rig.advance(10)
        assert not refused
        assert slots == 1
        assert sorted(rig.bodies()) == [b"0", b"1", b"2", b"3"]
        assert rig.counts.of("T") == 4
        assert len(rig.queue(TIMER_TOPIC)) == 12
        await rig.advance(60)
        assert len(rig.bodies()) == 8
        assert rig.counts.of("T") == 0


async def test_of_late_messages_only_what_was_refused_is_stored_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with timers_at(tmp_path) as rig:
        await rig.timers.stop()
        for n in range(4):
            rig.send(b"%d" % n, TIMER_DELAY_SEC="30")
        await rig.advance(60)
        refused = refuse_once(rig, monkeypatch, b"1")
        await rig.timers.start()
        await rig.advance(10)
        assert not refused
        assert sorted(rig.bodies()) == [b"0", b"1", b"2", b"3"]
        assert rig.timers.offset_behind == 0
