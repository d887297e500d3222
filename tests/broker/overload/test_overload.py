"""When the broker refuses what has waited too long."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.overload.overload import Overload, Work, groups_far_behind
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer
from support.broker_rig import BrokerRig, Voice, consumer, running_broker
from support.pop_voice import pop

LIMITS = {Work.SEND: 0.2, Work.PULL: 5.0, Work.HEARTBEAT: 31.0, Work.ADMIN: 5.0}


class Turn:
    """One turn of an event loop, with a clock that the test moves."""

    def __init__(self, **options: object) -> None:
        self.now = 0.0
        self.later: list[object] = []
        self.overload = Overload(
            lambda: self.now,
            self.later.append,
            LIMITS.get,
            **options,  # type: ignore[arg-type]
        )

    def end(self) -> None:
        for callback in self.later:
            callback()  # type: ignore[operator]
        self.later.clear()

    def refusal(self, work: Work) -> str | None:
        try:
            self.overload.check(work)
        except RequestRefusedError as exc:
            return f"{exc.code} {exc.remark}"
        return None


@pytest.mark.parametrize("work", list(Work))
def test_what_waited_longer_than_its_limit_is_refused(work: Work) -> None:  # B-161
    turn = Turn()
    assert turn.refusal(work) is None
    turn.now = LIMITS[work]
    assert turn.refusal(work) is None
    turn.now += 0.001
    remark = turn.refusal(work)
    assert remark is not None
    assert remark.startswith("2 [TIMEOUT_CLEAN_QUEUE]")


def test_the_next_turn_begins_anew() -> None:  # B-161
    turn = Turn()
    turn.overload.check(Work.SEND)
    turn.now = 10.0
    turn.end()
    assert turn.refusal(Work.SEND) is None


def test_sends_behind_a_slow_append_are_refused_and_nothing_else() -> None:  # B-160
    turn = Turn(busy_append_s=lambda: 0.1)
    turn.overload.check(Work.SEND)
    turn.overload.note_append(0.1)
    assert turn.refusal(Work.SEND) is None
    turn.overload.note_append(0.101)
    remark = turn.refusal(Work.SEND)
    assert remark is not None
    assert remark.startswith("2 [PCBUSY_CLEAN_QUEUE]")
    assert turn.refusal(Work.PULL) is None
    turn.end()
    assert turn.refusal(Work.SEND) is None


def test_a_pool_that_is_used_up_refuses_sends() -> None:  # B-162
    turn = Turn(pool_bytes=100)
    turn.overload.check_pool(99)
    with pytest.raises(RequestRefusedError, match="TRANSIENT_STORE_POOL"):
        turn.overload.check_pool(100)
    Turn().overload.check_pool(10**12)


def test_a_group_is_as_far_behind_as_its_worst_queue() -> None:  # B-168
    positions = {0: 900, 1: 500, 2: None, 3: 100}
    pulls = [("t", "slow", q, 0) for q in (0, 1, 2)] + [("t", "slower", 3, 0)]
    behind = groups_far_behind(pulls, 1000, lambda _t, queue_id, _o: positions[queue_id], 400)
    assert behind == {"slow": 500, "slower": 900}
    assert groups_far_behind(pulls, 1000, lambda _t, q, _o: positions[q], 900) == {}
    assert groups_far_behind([("t", "g", 0, 0)], 1000, lambda *_: 999, 0) == {"g": 1}


def test_a_guarded_processor_is_not_asked_when_its_work_has_waited_too_long() -> None:  # B-161
    turn, peer, request = Turn(), cast("Peer", object()), Command(10)
    asked: list[str] = []

    def answer(_peer: Peer, _request: Command) -> None:
        asked.append("one")

    def answer_all(_peers: Sequence[Peer], requests: Sequence[Command]) -> list[None]:
        asked.append("many")
        return [None] * len(requests)

    one = turn.overload.guarded(Work.SEND, answer)
    many = turn.overload.guarded_batch(Work.SEND, answer_all)
    one(peer, request)
    many([peer], [request])
    assert asked == ["one", "many"]
    turn.now = 0.201
    with pytest.raises(RequestRefusedError):
        one(peer, request)
    with pytest.raises(RequestRefusedError):
        many([peer], [request])
    assert asked == ["one", "many"]


async def test_requests_behind_an_append_of_a_second_are_refused(  # B-160, B-161
    rig: BrokerRig, voice: Voice
) -> None:
    import asyncio

    await voice.send()
    other = await rig.voice()
    await rig.settle()
    skipped_s = 0.0
    rig.broker.overload.now = lambda: skipped_s
    put = rig.broker.store.put_messages

    def slow(messages):  # type: ignore[no-untyped-def]
        nonlocal skipped_s
        skipped_s += 0.3
        return put(messages)

    rig.broker.store.put_messages = slow  # type: ignore[method-assign]
    first, second, pulled = await asyncio.gather(
        voice.try_send(), other.try_send(v2=False), other.pull()
    )
    assert (first.code, second.code, pulled.code) == (0, 2, 0)
    assert "period in queue: 300ms" in (second.remark or "")
    assert (await other.try_send()).code == 0


async def test_pops_wait_in_the_queue_of_pulls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # B-161, K-4
    seen: list[Work] = []
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        await voice.create_topic("orders")
        monkeypatch.setattr(Overload, "check", lambda _self, work: seen.append(work))
        await pop(voice)
        assert seen == [Work.PULL]


async def test_fast_failure_can_be_switched_off(tmp_path: Path) -> None:  # B-161
    async with running_broker(tmp_path, broker_fast_failure_enable=False) as rig:
        assert not any(map(rig.broker.overload.longest_wait_s, Work))


async def test_an_exhausted_pool_is_2(tmp_path: Path) -> None:  # B-162
    async with running_broker(
        tmp_path, transient_store_pool_enable=True, transient_store_pool_size=1
    ) as rig:
        voice = await rig.voice()
        await voice.send(body=b"x" * 200_000)
        await voice.send(body=b"x" * 100_000)
        assert (await voice.try_send()).code == 2
        rig.broker.store._log_flusher.flush()
        from support.eventually import eventually

        await eventually(lambda: rig.broker.store.unflushed_bytes == 0, "the log is flushed")
        await voice.send()


async def test_a_group_far_behind_is_stopped_where_that_is_configured(tmp_path: Path) -> None:
    # B-168
    for enabled, stopped in ((False, False), (True, True)):
        async with running_broker(
            tmp_path / str(enabled),
            disable_consume_if_consumer_read_slowly=enabled,
            consumer_fallbehind_threshold=50_000,
        ) as rig:
            writer, reader = await rig.voice(), await rig.voice()
            await reader.heartbeat(consumers=[consumer()])
            await writer.send()
            await reader.pull()
            for _ in range(10):
                await writer.send(body=b"x" * 10_000)
            await rig.advance(100)
            await reader.heartbeat(consumers=[consumer()])
            config = rig.broker.groups.get("readers")
            assert config is not None
            assert config.consume_enable
            await rig.advance(80)
            config = rig.broker.groups.get("readers")
            assert config is not None
            assert config.consume_enable is not stopped
            if stopped:
                from support.broker_rig import pull_header

                assert (await reader.ask(pull_header())).code == 16


def test_the_remark_tells_how_long_the_request_has_waited() -> None:  # B-161
    turn = Turn()
    assert turn.overload.waited_ms == 0
    turn.now = 100.0
    turn.overload.check(Work.SEND)
    assert turn.overload.waited_ms == 0
    turn.now = 101.5
    assert turn.overload.waited_ms == 1500
    remark = turn.refusal(Work.SEND)
    assert remark is not None
    assert remark.endswith("period in queue: 1500ms")


def test_a_slow_append_is_forgotten_with_its_turn() -> None:  # B-160
    turn = Turn()
    turn.overload.check(Work.SEND)
    turn.overload.note_append(1.0)
    assert turn.refusal(Work.SEND) is None, "only more than a second is slow"
    turn.overload.note_append(1.001)
    assert turn.refusal(Work.PULL) is None
    assert turn.refusal(Work.SEND) is not None
    turn.end()
    assert turn.refusal(Work.SEND) is None
    assert turn.refusal(Work.SEND) is None


def test_a_queue_at_its_end_is_not_behind_and_order_does_not_matter() -> None:  # B-168
    places = {0: 90, 1: 20, 2: 60, 3: None}
    pulls = [("t", "g", queue_id, 5) for queue_id in places]

    def position(_topic: str, queue_id: int, _offset: int) -> int | None:
        return places[queue_id]

    assert groups_far_behind(pulls, 100, position, 30) == {"g": 80}
    assert groups_far_behind(pulls, 100, position, 80) == {}
    assert groups_far_behind([("t", "g", 3, 5)], 100, position, -1) == {}
