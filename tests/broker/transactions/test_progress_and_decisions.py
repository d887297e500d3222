"""What a broker knows of transactions in memory: no more than what its log holds safely."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.transactions.test_halves_and_masters import asked, producer, send_half
from pocketmq.broker.replication.role_changes import MasterAddresses
from pocketmq.broker.role_names import BrokerRole
from pocketmq.broker.server import Broker
from pocketmq.broker.store import GetStatus, PutResult, PutStatus, StoredMessage
from pocketmq.broker.transactions.check_round import PAUSE_AFTER, CheckLimits
from pocketmq.broker.transactions.check_service import GROUP, HALVES_AT_ONCE, TransactionCheck
from pocketmq.broker.transactions.decisions import Decisions
from pocketmq.broker.transactions.half_messages import op_record
from pocketmq.broker.transactions.op_history import OpHistory
from pocketmq.broker.transactions.questions import Questions
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.headers.transactions import EndTransactionRequestHeader
from pocketmq.protocol.messages.properties import encode_properties
from pocketmq.protocol.messages.validation import HALF_TOPIC
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.broker_rig import PATIENCE_S, send_header
from support.eventually import eventually
from support.messages import pulled_message
from support.replicas import ReplicaRig
from support.tiny_store import HOST

COMMIT, ROLLBACK = 8, 12
ROUND_S = 36.0


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ReplicaRig]:
    async with ReplicaRig(tmp_path) as made:
        yield made


def end_of(place: tuple[int, int], outcome: int) -> EndTransactionRequestHeader:
    return EndTransactionRequestHeader(
        producer_group="writers",
        tran_state_table_offset=place[0],
        commit_log_offset=place[1],
        commit_or_rollback=outcome,
        msg_id="k",
    )


async def lose_from(broker: Broker, offset: int, epoch: int = 1) -> None:
    """Another broker led in an epoch in which this log was cut; now this one leads again."""
    roles = broker.subjects.replication.roles
    await roles.become_slave(1, MasterAddresses(None, None), epoch=epoch)
    await broker.store.replica.truncate(offset)
    await roles.become_master(epoch=epoch + 1)


@pytest.mark.parametrize("first", [COMMIT, ROLLBACK])
async def test_a_decision_that_was_cut_from_the_log_is_none_any_more(
    rig: ReplicaRig, first: int
) -> None:
    # Else a commit is acknowledged, as if it were there, and its message is lost.
    broker = await rig.start("a")
    voice = await producer(rig, broker)
    place = await send_half(voice, "k", rig.clock.time_ms())
    end = broker.store.commit_log.max_offset
    assert (await voice.ask(end_of(place, first))).code == ResponseCode.SUCCESS
    await lose_from(broker, end)
    assert broker.store.reads.max_offset("orders", 0) == 0
    assert (await voice.ask(end_of(place, COMMIT))).code == ResponseCode.SUCCESS
    assert broker.store.reads.max_offset("orders", 0) == 1


async def test_op_records_that_wait_are_not_written_by_the_next_master(rig: ReplicaRig) -> None:
    # They say that a half message is done whose commit was cut: nobody would be asked for it.
    broker = await rig.start("a")
    voice = await producer(rig, broker)
    place = await send_half(voice, "k", rig.clock.time_ms())
    end = broker.store.commit_log.max_offset
    assert (await voice.ask(end_of(place, COMMIT))).code == ResponseCode.SUCCESS
    await lose_from(broker, end)
    await rig.advance(ROUND_S)
    assert [key for _, key in asked(voice)] == ["k"]


async def test_progress_is_noted_once_a_slave_has_what_it_stands_on(rig: ReplicaRig) -> None:
    broker = await rig.start("a", broker_role=BrokerRole.SYNC_MASTER, in_sync_replicas=2)
    voice = await producer(rig, broker)
    await send_alone(rig, voice)
    await rig.advance(ROUND_S)
    assert broker.store.reads.max_offset(HALF_TOPIC, 0) == 2, "stored again"
    assert not broker.offsets.query(GROUP, HALF_TOPIC, 0)
    await rig.start("b", broker_role=BrokerRole.SLAVE, broker_id=1)
    await rig.same_logs()
    await rig.advance(ROUND_S)
    assert (broker.offsets.query(GROUP, HALF_TOPIC, 0) or 0) > 0


async def test_progress_that_was_not_noted_is_none_for_who_leads_again(rig: ReplicaRig) -> None:
    broker = await rig.start("a", broker_role=BrokerRole.SYNC_MASTER, in_sync_replicas=2)
    voice = await producer(rig, broker)
    end = await send_alone(rig, voice)
    await rig.advance(ROUND_S)
    assert broker.store.reads.max_offset(HALF_TOPIC, 0) == 2, "stored again, and nobody else has it"
    asked(voice)
    await lose_from(broker, end)
    assert broker.store.reads.max_offset(HALF_TOPIC, 0) == 1
    await rig.advance(ROUND_S)
    assert broker.store.reads.max_offset(HALF_TOPIC, 0) == 2, "stored again, to be asked for"


async def send_alone(rig: ReplicaRig, voice: Any) -> int:
    """A half message that no slave takes; where the log ends behind it."""
    [broker] = rig.brokers.values()
    header = send_header(
        properties={"TRAN_MSG": "true", "PGROUP": "writers", "UNIQ_KEY": "k"},
        sys_flag=4,
        born_timestamp=rig.clock.time_ms(),
    )
    sent = voice.channel.request(header, b"k", timeout_s=PATIENCE_S)
    await eventually(lambda: broker.store.reads.max_offset(HALF_TOPIC, 0) == 1, "it is stored")
    await rig.advance(6)
    assert (await sent).code == ResponseCode.FLUSH_SLAVE_TIMEOUT
    return broker.store.commit_log.max_offset


async def test_a_half_message_that_could_not_be_stored_again_is_asked_for_later(
    rig: ReplicaRig,
) -> None:
    broker = await rig.start("a")
    voice = await producer(rig, broker)
    await send_half(voice, "k", rig.clock.time_ms())
    broker.subjects.replication.roles.fence()
    await rig.advance(ROUND_S)
    assert asked(voice) == []
    broker.subjects.replication.roles.unfence()
    await rig.advance(ROUND_S)
    assert [key for _, key in asked(voice)] == ["k"]


async def test_what_another_master_rolled_back_is_not_committed_here(rig: ReplicaRig) -> None:
    broker = await rig.start("a")
    voice = await producer(rig, broker)
    places = [await send_half(voice, key, rig.clock.time_ms()) for key in ("k", "other")]
    log_end = broker.store.commit_log.max_offset
    await lose_from(broker, log_end)  # what it knows of its producer's halves is gone
    assert (await voice.ask(end_of(places[0], COMMIT))).code == ResponseCode.SUCCESS
    rolled_back = op_record(f"{places[1][0]},", 0, rig.clock.time_ms(), HOST)
    [put] = broker.store.put_messages([rolled_back])  # as it comes with the master's log
    assert put.status is PutStatus.PUT_OK
    await lose_from(broker, broker.store.commit_log.max_offset, epoch=3)
    refused = await voice.ask(end_of(places[1], COMMIT))
    assert refused.code == ResponseCode.ILLEGAL_OPERATION
    assert broker.store.reads.max_offset("orders", 0) == 1


async def test_a_commit_that_could_not_be_stored_leaves_the_half_message_open(
    rig: ReplicaRig,
) -> None:
    broker = await rig.start("a")
    voice = await producer(rig, broker)
    place = await send_half(voice, "k", rig.clock.time_ms())
    broker.subjects.replication.roles.fence()
    assert (await voice.ask(end_of(place, COMMIT))).code != ResponseCode.SUCCESS
    broker.subjects.replication.roles.unfence()
    assert broker.store.reads.max_offset("orders", 0) == 0
    assert (await voice.ask(end_of(place, COMMIT))).code == ResponseCode.SUCCESS
    assert broker.store.reads.max_offset("orders", 0) == 1


async def test_the_next_member_is_asked_where_one_has_just_gone() -> None:
    class Member:
        def __init__(self, *, is_open: bool) -> None:
            self.is_open = is_open
            self.heard = 0

        def oneway(self, *_: object) -> None:
            self.heard += 1

    gone, here = Member(is_open=False), Member(is_open=True)
    members = [SimpleNamespace(channel=each) for each in (gone, here)]
    text = encode_properties({"PGROUP": "writers", "REAL_TOPIC": "orders"})
    made: Any = Questions
    questions = made(SimpleNamespace(members=lambda _: members), "broker-a")
    for _ in range(4):
        questions.ask(pulled_message(properties=text))
    assert (gone.heard, here.heard) == (0, 4)


def test_op_records_that_cannot_be_read_end_the_look_back() -> None:
    class Unreadable:
        reads = 0
        consume_queues = SimpleNamespace(get=lambda *_: None)

        def max_offset(self, topic: str, queue_id: int) -> int:
            return 5

        def min_offset(self, topic: str, queue_id: int) -> int:
            return 0

        def physical_offset(self, topic: str, queue_id: int, offset: int) -> None:
            return None

        def get_message(self, topic: str, queue_id: int, offset: int, most: int) -> object:
            self.reads += 1
            assert self.reads < 100, "it never ends"
            return SimpleNamespace(
                status=GetStatus.OFFSET_FOUND_NULL, records=[], next_begin_offset=offset
            )

    store = Unreadable()
    made: Any = OpHistory
    assert not made(store).names(pulled_message())
    assert store.reads


async def test_a_slave_ends_nothing(rig: ReplicaRig) -> None:  # B-101, H-15
    leading = await rig.start("a")
    following = await rig.start("b", broker_role=BrokerRole.SLAVE, broker_id=1)
    place = await send_half(await rig.voice(leading), "k", rig.clock.time_ms())
    await rig.same_logs()
    voice = await rig.voice(following)
    for outcome in (COMMIT, ROLLBACK):
        reply = await voice.ask(end_of(place, outcome))
        assert reply.code == ResponseCode.SLAVE_NOT_AVAILABLE
    assert (await (await rig.voice(leading)).ask(end_of(place, COMMIT))).code == 0


async def test_an_end_that_does_not_know_gets_no_answer(rig: ReplicaRig) -> None:
    broker = await rig.start("a")
    voice = await producer(rig, broker)
    place = await send_half(voice, "k", rig.clock.time_ms())
    unknown = voice.channel.request(end_of(place, 0))
    reply = await voice.ask(end_of(place, COMMIT))
    assert reply.code == ResponseCode.SUCCESS
    assert not unknown.done()
    unknown.cancel()


async def test_a_round_over_many_lets_others_have_their_turns(
    rig: ReplicaRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await rig.start("a")
    voice = await producer(rig, broker)
    count, turns, stored, most_stored = 450, 0, 0, 0
    for number in range(count):
        await send_half(voice, f"k{number}", rig.clock.time_ms())
    sleep, put = rig.clock.sleep, broker.store.put_messages

    async def counted_sleep(seconds: float) -> None:
        nonlocal turns, stored
        turns, stored = turns + 1, 0
        await sleep(seconds)

    def counted_put(messages: Sequence[StoredMessage]) -> list[PutResult]:
        nonlocal stored, most_stored
        stored += len(messages)
        most_stored = max(stored, most_stored)
        return put(messages)

    monkeypatch.setattr(rig.clock, "sleep", counted_sleep)
    monkeypatch.setattr(broker.store, "put_messages", counted_put)
    await rig.advance(ROUND_S)
    assert len(asked(voice)) == count
    assert most_stored <= PAUSE_AFTER, "halves stored again in one turn"
    assert turns >= count // HALVES_AT_ONCE, "halves read at once"


async def test_a_delayed_message_is_no_half_message(rig: ReplicaRig) -> None:
    broker = await rig.start("a")
    voice = await rig.voice(broker)
    await voice.send("orders", b"later", properties={"DELAY": "1"})
    assert broker.store.reads.max_offset(HALF_TOPIC, 0) == 0
    await rig.advance(2)
    assert broker.store.reads.max_offset("orders", 0) == 1


async def test_a_round_ends_where_a_queue_cannot_be_read() -> None:
    """A store that finds nothing and does not say where more is, as behind damage."""

    class Unreadable:
        reads = 0

        def queues(self) -> list[tuple[str, int]]:
            return [(HALF_TOPIC, 0)]

        def min_offset(self, topic: str, queue_id: int) -> int:
            return 0

        def max_offset(self, topic: str, queue_id: int) -> int:
            return 5

        def get_message(self, topic: str, queue_id: int, offset: int, most: int) -> object:
            self.reads += 1
            assert self.reads < 100, "it never ends"
            return SimpleNamespace(
                status=GetStatus.OFFSET_FOUND_NULL, records=[], next_begin_offset=offset
            )

    store, unused = Unreadable(), SimpleNamespace()
    made: Any = TransactionCheck
    check = made(
        store,
        unused,
        SimpleNamespace(query=lambda *_: None),
        unused,
        Decisions(),
        lambda: CheckLimits(6_000, 15, 72 * 3_600_000, False),
        ManualClock(0),
        lambda _: None,
    )
    await check.run()
    assert store.reads
