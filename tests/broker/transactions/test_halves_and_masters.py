"""Open half messages while masters change: a new one knows old progress, and finds old copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pocketmq.broker.replication.role_changes import MasterAddresses
from pocketmq.broker.role_names import BrokerRole
from pocketmq.broker.server import Broker
from pocketmq.broker.transactions.check_service import GROUP
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Dispatcher, Peer
from pocketmq.protocol.headers.transactions import (
    CheckTransactionStateRequestHeader,
    EndTransactionRequestHeader,
)
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.validation import HALF_TOPIC
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.stored.record import decode_record, decode_records
from support.broker_rig import Voice
from support.replicas import ReplicaRig

HALVES, CHANGES = 12, 5
CHECK_S, TIMEOUT_S = 30.0, 6.0


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ReplicaRig]:
    async with ReplicaRig(tmp_path) as made:
        yield made


async def change_places(old: Broker, new: Broker, epoch: int) -> None:
    await old.subjects.replication.roles.become_slave(
        epoch + 1, MasterAddresses(None, None), epoch=epoch
    )
    await new.subjects.replication.roles.become_master(epoch=epoch)
    old.subjects.replication.roles.master_told(new.address, str(new.subjects.replication.port))


async def send_half(voice: Voice, key: str, now_ms: int, **more: str) -> tuple[int, int]:
    """Its place in the half queue and in the log."""
    properties = {
        names.TRANSACTION_PREPARED: "true",
        names.PRODUCER_GROUP: "writers",
    }
    if key:
        properties[names.UNIQ_KEY] = key
    sent = await voice.send(
        "orders",
        key.encode() or b"no key",
        properties=properties | more,
        sys_flag=MessageSysFlag.TRANSACTION_PREPARED,
        born_timestamp=now_ms,
    )
    return sent.queue_offset, parse_offset_msg_id(sent.msg_id)[2]


async def producer(rig: ReplicaRig, broker: Broker) -> Voice:
    """A connection that hears questions."""
    heard: list[Command] = []
    dispatcher = Dispatcher()

    def listen(_peer: Peer, request: Command) -> None:
        heard.append(request)

    dispatcher.register(RequestCode.CHECK_TRANSACTION_STATE, listen)
    voice = Voice(await rig.network.connect(broker.address, dispatcher), heard)
    await voice.heartbeat("127.0.0.1@1", producers=["writers"])
    return voice


def halves_of(broker: Broker) -> list[MessageExt]:
    store = broker.store
    found = []
    for offset in range(store.reads.max_offset(HALF_TOPIC, 0)):
        found += decode_records(b"".join(store.reads.get_message(HALF_TOPIC, 0, offset, 1).records))
    return found


def asked(voice: Voice) -> list[tuple[CheckTransactionStateRequestHeader, str]]:
    """Questions since the last call; and the keys they are about."""
    told = [
        (
            command.header(CheckTransactionStateRequestHeader),
            decode_record(bytes(command.body_view)).body.decode(),
        )
        for command in voice.told(RequestCode.CHECK_TRANSACTION_STATE)
    ]
    voice.heard.clear()
    return told


@pytest.mark.parametrize("immunity_s", [None, 10_000])
async def test_an_open_half_message_is_stored_again_once_a_round_whoever_leads(
    rig: ReplicaRig, immunity_s: int | None
) -> None:
    # Slaves hear of progress each minute; each of these masters leads for less.
    leading = await rig.start("a")
    following = await rig.start("b", broker_role=BrokerRole.SLAVE, broker_id=1)
    more = {} if immunity_s is None else {names.CHECK_IMMUNITY_TIME_IN_SECONDS: f"{immunity_s}"}
    voice = await rig.voice(leading)
    for n in range(HALVES):
        await send_half(voice, f"key-{n}", rig.clock.time_ms(), **more)
    await rig.same_logs()
    rounds = 0
    for epoch in range(1, CHANGES + 1):
        voice = await producer(rig, leading)
        before = leading.store.reads.max_offset(HALF_TOPIC, 0)
        await rig.advance(CHECK_S + TIMEOUT_S)
        rounds += 1
        assert leading.store.reads.max_offset(HALF_TOPIC, 0) - before == HALVES
        questions = Counter(key for _, key in asked(voice))
        if immunity_s is None:
            assert questions == {f"key-{n}": 1 for n in range(HALVES)}, "asked for as ever"
        voice.channel.close()
        await rig.same_logs()
        await change_places(leading, following, epoch)
        leading, following = following, leading
    halves = halves_of(leading)
    assert len(halves) == HALVES * (rounds + 1)
    times = Counter(half.properties.get(names.TRANSACTION_CHECK_TIMES) for half in halves)
    if immunity_s is None:
        assert times[f"{rounds}"] == HALVES
    assert sorted(half.body for half in halves[-HALVES:]) == sorted(
        f"key-{n}".encode() for n in range(HALVES)
    )


async def test_progress_that_went_back_brings_no_copies(rig: ReplicaRig) -> None:
    # An operator's reset, or a consumerOffset.json of before a kill
    broker = await rig.start("a")
    voice = await producer(rig, broker)
    for n in range(HALVES):
        await send_half(voice, f"key-{n}", rig.clock.time_ms())
    for rounds in range(1, 5):
        await rig.advance(CHECK_S + TIMEOUT_S * (rounds == 1))
        await voice.heartbeat("127.0.0.1@1", producers=["writers"])
        assert len(asked(voice)) == HALVES
        assert broker.store.reads.max_offset(HALF_TOPIC, 0) == HALVES * (rounds + 1)
        broker.offsets.commit(GROUP, HALF_TOPIC, 0, 0, rig.clock.time_ms())


async def test_half_messages_without_a_key_are_all_asked_for(rig: ReplicaRig) -> None:
    # Equal in everything, they may still be two
    broker = await rig.start("a")
    voice = await producer(rig, broker)
    for _ in range(2):
        await send_half(voice, "", rig.clock.time_ms())
    await rig.advance(CHECK_S + TIMEOUT_S)
    assert len(asked(voice)) == 2


async def test_a_transaction_that_was_asked_for_by_one_master_is_ended_at_another(
    rig: ReplicaRig,
) -> None:
    leading = await rig.start("a")
    following = await rig.start("b", broker_role=BrokerRole.SLAVE, broker_id=1)
    voice = await rig.voice(leading)
    for n in range(HALVES):
        await send_half(voice, f"key-{n}", rig.clock.time_ms())
    wanted = {f"key-{n}": (8, 12)[n % 2] for n in range(HALVES)}
    ended: set[str] = set()
    for epoch in range(1, CHANGES + 1):
        voice = await producer(rig, leading)
        await rig.advance(CHECK_S + TIMEOUT_S)
        questions = asked(voice)
        assert {key for _, key in questions} >= wanted.keys() - ended
        for header, key in questions[: 1 + len(ended)]:  # the others are not known yet
            ended.add(key)
            end = EndTransactionRequestHeader(
                producer_group="writers",
                tran_state_table_offset=header.tran_state_table_offset,
                commit_log_offset=header.commit_log_offset,
                commit_or_rollback=wanted[key],
                msg_id=header.msg_id or "",
                from_transaction_check=True,
            )
            assert (await voice.ask(end)).code == 0
        await rig.advance(4)
        voice.channel.close()
        await rig.same_logs()
        await change_places(leading, following, epoch)
        leading, following = following, leading
    assert ended == wanted.keys()
    store = leading.store
    delivered = [
        record.body.decode()
        for offset in range(store.reads.max_offset("orders", 0))
        for record in decode_records(
            b"".join(store.reads.get_message("orders", 0, offset, 1).records)
        )
    ]
    assert sorted(delivered) == sorted(key for key, outcome in wanted.items() if outcome == 8)
    before = store.reads.max_offset(HALF_TOPIC, 0)
    for _ in range(4):
        voice = await producer(rig, leading)
        await rig.advance(CHECK_S)
        for header, key in asked(voice):
            end = EndTransactionRequestHeader(
                producer_group="writers",
                tran_state_table_offset=header.tran_state_table_offset,
                commit_log_offset=header.commit_log_offset,
                commit_or_rollback=wanted[key],
                msg_id=header.msg_id or "",
                from_transaction_check=True,
            )
            assert (await voice.ask(end)).code == 0
        voice.channel.close()
    assert store.reads.max_offset(HALF_TOPIC, 0) - before <= HALVES, "asked for once more at most"
    assert store.reads.max_offset("orders", 0) == len(delivered)
