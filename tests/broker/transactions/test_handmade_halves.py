"""Records in the topics of half messages that no broker wrote hold no transaction up.

Sends and replies to both topics are refused (E-70). Records may be there all the same: of another
broker that wrote the store, or of a release that let them in by way of the timers.
"""

from __future__ import annotations

from typing import Any

import pytest

from broker.transactions.test_transactions import CHECK_S, COMMIT, ROUND_S, end, send_half
from pocketmq.broker.store import PutStatus, StoredMessage
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.headers.transactions import EndTransactionRequestHeader
from pocketmq.protocol.messages.properties import MAX_PROPERTIES_BYTES, encode_properties
from pocketmq.protocol.messages.subscription import tags_code
from pocketmq.protocol.messages.validation import (
    HALF_TOPIC,
    OP_HALF_TOPIC,
    SCHEDULE_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
)
from pocketmq.protocol.stored.record import decode_record
from support.broker_rig import START_MS, BrokerRig, Voice
from support.eventually import eventually
from support.tiny_store import HOST

HANDMADE = {"REAL_TOPIC": "by-hand", "REAL_QID": "0", "PGROUP": "writers", "UNIQ_KEY": "by hand"}
LONGEST = "9" * 4300
"""As many digits as Python reads."""


def put(
    rig: BrokerRig,
    properties: dict[str, str],
    *,
    topic: str = HALF_TOPIC,
    body: bytes = b"by hand",
    queue_id: int = 0,
    born_ms: int = START_MS,
    **more: Any,
) -> tuple[int, int]:
    """A record in one of the topics; its offsets in the queue and in the log."""
    message = StoredMessage(
        topic, queue_id, body, encode_properties(properties).encode(), 0, 0, born_ms, HOST, HOST,
        tags_code=tags_code(properties.get("TAGS")), **more,
    )  # fmt: skip
    [result] = rig.broker.store.put_messages([message])
    assert result.status is PutStatus.PUT_OK
    return result.queue_offset, result.physical_offset


async def asked_for(rig: BrokerRig, voice: Voice) -> set[str]:
    """The keys of all half messages that this producer is asked about in the next round."""
    before = len(voice.told(RequestCode.CHECK_TRANSACTION_STATE))
    await rig.advance(CHECK_S)
    told = voice.told(RequestCode.CHECK_TRANSACTION_STATE)[before:]
    return {decode_record(each.body_view).properties.get("UNIQ_KEY", "") for each in told}


@pytest.mark.parametrize(
    "changes",
    [
        *({"REAL_QID": text} for text in ("", "-1", str(2**31), str(2**63), LONGEST, "9" * 5000)),
        *({"REAL_TOPIC": text} for text in ("", "../x", "x" * 10_000, SCHEDULE_TOPIC, HALF_TOPIC)),
        *({"PGROUP": text} for text in ("", "x" * 10_000)),
        *({"TRANSACTION_CHECK_TIMES": text} for text in ("x", "-1", str(2**63), LONGEST)),
        *({"CHECK_IMMUNITY_TIME_IN_SECONDS": text} for text in ("-2", str(2**62), LONGEST)),
        *({"TRAN_PREPARED_QUEUE_OFFSET": text} for text in ("-1", LONGEST)),
        {"UNIQ_KEY": ""},
        {"x": "x" * (MAX_PROPERTIES_BYTES - 100)},  # no room for a number of checks
    ],
    ids=lambda changes: f"{str(changes)[:50]}-{len(str(changes))}",
)
async def test_half_messages_behind_it_are_asked_for(
    rig: BrokerRig, voice: Voice, changes: dict[str, str]
) -> None:
    await voice.heartbeat(producers=["writers"])
    await send_half(rig, voice, "before")
    put(rig, HANDMADE | changes)
    await send_half(rig, voice, "behind")
    await rig.advance(CHECK_S)
    await rig.advance(CHECK_S)
    told = voice.told(RequestCode.CHECK_TRANSACTION_STATE)
    keys = [decode_record(each.body_view).properties.get("UNIQ_KEY") for each in told]
    assert keys.count("before") == keys.count("behind") == 2
    assert rig.broker.store.reads.max_offset(HALF_TOPIC, 0) <= 3 + 3 * 2


@pytest.mark.parametrize("born_ms", [-(2**63), 0, START_MS + 10**10, 2**63 - 1])
@pytest.mark.parametrize("queue_id", [0, 7, 2**31 - 1])
async def test_odd_times_and_queues(
    rig: BrokerRig, voice: Voice, born_ms: int, queue_id: int
) -> None:
    await voice.heartbeat(producers=["writers"])
    put(rig, HANDMADE, born_ms=born_ms, queue_id=queue_id)
    await send_half(rig, voice, "behind")

    async def is_asked_for() -> bool:
        await voice.heartbeat(producers=["writers"])
        return "behind" in await asked_for(rig, voice)

    # A round waits until the topic of what is given up is saved, by a thread and so in real time.
    await eventually(is_asked_for, "the half message behind it is asked for")


@pytest.mark.parametrize(
    "body",
    [b"", b"x", b"-1", b"\xff,,,", LONGEST.encode(), b"9" * 5000, "²,٣".encode(), b"1," * 50_000],
    ids=lambda body: f"{body[:10]!r}-{len(body)}",
)
async def test_op_records_that_name_nothing(rig: BrokerRig, voice: Voice, body: bytes) -> None:
    await voice.heartbeat(producers=["writers"])
    await send_half(rig, voice, "open")
    put(rig, {"TAGS": "d"}, topic=OP_HALF_TOPIC, body=body or b" ")
    put(rig, {"TAGS": "x"}, topic=OP_HALF_TOPIC, body=b"0,")
    sent = await send_half(rig, voice, "done", KEYS="k") if body != b"1," * 50_000 else None
    if sent is not None:
        assert (await end(voice, sent, COMMIT)).code == ResponseCode.SUCCESS
    assert await asked_for(rig, voice) == {"open"}


@pytest.mark.parametrize(
    "changes",
    [
        *({"REAL_QID": text} for text in (str(2**31), LONGEST)),
        *({"REAL_TOPIC": text} for text in ("", "../x", "x" * 10_000, SCHEDULE_TOPIC, HALF_TOPIC)),
    ],
    ids=lambda changes: f"{str(changes)[:50]}-{len(str(changes))}",
)
async def test_to_end_it_takes_no_other_commit_of_that_turn_along(
    rig: BrokerRig, voice: Voice, changes: dict[str, str]
) -> None:
    offset, place = put(rig, HANDMADE | changes)
    sent = await send_half(rig, voice, "behind")
    odd = EndTransactionRequestHeader(
        producer_group="writers", tran_state_table_offset=offset, commit_log_offset=place,
        commit_or_rollback=COMMIT, msg_id="",
    )  # fmt: skip
    first = voice.channel.request(odd, timeout_s=60.0)
    assert (await end(voice, sent, COMMIT)).code == ResponseCode.SUCCESS
    await first
    assert [m.body for m in await rig.queue("orders", 1)] == [b"behind"]
    assert rig.broker.store.reads.max_offset(SCHEDULE_TOPIC, 0) == 0


async def test_a_half_message_without_room_for_its_checks_is_given_up(
    rig: BrokerRig, voice: Voice
) -> None:
    # Any producer can send one: the number of checks is added when it is asked for.
    await voice.heartbeat(producers=["writers"])
    length = MAX_PROPERTIES_BYTES
    while not rig.broker.store.reads.max_offset(HALF_TOPIC, 0):
        length -= 10
        await try_half(rig, voice, "x" * length)
    await send_half(rig, voice, "behind")
    await rig.advance(ROUND_S)
    await rig.advance(CHECK_S)
    given_up = await rig.queue(TRANS_CHECK_MAX_TIME_TOPIC)
    told = voice.told(RequestCode.CHECK_TRANSACTION_STATE)
    keys = [decode_record(each.body_view).properties.get("UNIQ_KEY") for each in told]
    assert "behind" in keys
    assert [m.properties["UNIQ_KEY"] for m in given_up] == ["long"]


async def try_half(rig: BrokerRig, voice: Voice, text: str) -> None:
    properties = {"TRAN_MSG": "true", "PGROUP": "writers", "UNIQ_KEY": "long", "x": text}
    await voice.try_send(properties=properties, sys_flag=4, born_timestamp=rig.clock.time_ms())
