"""What clients put into SCHEDULE_TOPIC_XXXX by hand holds no delayed message up (B-91 to B-93).

Sends and replies are refused (E-70). Records may be there all the same: of another broker that
wrote the store, or of a release that let them in by way of the timers.
"""

from __future__ import annotations

import pytest

from pocketmq.broker.store import PutStatus, StoredMessage
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.headers.replies import SendReplyMessageRequestHeaderV2
from pocketmq.protocol.messages.properties import encode_properties
from pocketmq.protocol.messages.validation import (
    HALF_TOPIC,
    NOT_ALLOWED_SEND,
    OP_HALF_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
)
from support.broker_rig import START_MS, BrokerRig, Voice
from support.tiny_store import HOST

HANDMADE = {"REAL_TOPIC": "by-hand", "REAL_QID": "0"}
LONGEST = "9" * 4300
"""As many digits as Python reads."""


def put(
    rig: BrokerRig, properties: dict[str, str], *, queue_id: int = 0, tags_code: int = 0
) -> None:
    """A record in the topic as no delayed message is one."""
    message = StoredMessage(
        SCHEDULE_TOPIC, queue_id, b"by hand", encode_properties(properties).encode(), 0, 0,
        START_MS, HOST, HOST, tags_code=tags_code,
    )  # fmt: skip
    [result] = rig.broker.store.put_messages([message])
    assert result.status is PutStatus.PUT_OK


async def others_arrive(rig: BrokerRig, voice: Voice) -> None:
    """What was sent with a delay of 1 s is there 2 s later, and so is all that comes after it."""
    await voice.send(body=b"behind", properties={"DELAY": "1"})
    await rig.advance(2)
    assert [m.body for m in await rig.queue("orders")] == [b"before", b"behind"]
    await voice.send(body=b"later", properties={"DELAY": "2"})
    await rig.advance(6)
    assert [m.body for m in await rig.queue("orders")][2:] == [b"later"]
    assert rig.broker.store.reads.max_offset(SCHEDULE_TOPIC, 0) <= 3, "it was put there once more"


@pytest.mark.parametrize(
    "changes",
    [
        *({"REAL_QID": text} for text in ("", "-1", str(2**31), str(2**63), LONGEST, "9" * 5000)),
        *({"REAL_TOPIC": text} for text in ("", "../x", "x" * 10_000, SCHEDULE_TOPIC, HALF_TOPIC)),
        *({"REAL_TOPIC": text} for text in (OP_HALF_TOPIC, TIMER_TOPIC)),
        *({"DELAY": text} for text in ("0", "-1", "x", LONGEST)),
    ],
    ids=lambda changes: f"{str(changes)[:50]}-{len(str(changes))}",
)
async def test_properties_that_no_broker_wrote(
    rig: BrokerRig, voice: Voice, changes: dict[str, str]
) -> None:
    await voice.send(body=b"before", properties={"DELAY": "1"})
    put(rig, HANDMADE | changes)
    await others_arrive(rig, voice)


@pytest.mark.parametrize("tags_code", [0, -1, 1, 2**31 - 1, START_MS + 500, 2**62, -(2**63)])
async def test_an_entry_that_holds_no_time(rig: BrokerRig, voice: Voice, tags_code: int) -> None:
    put(rig, HANDMADE, tags_code=tags_code)
    await voice.send(body=b"before", properties={"DELAY": "1"})
    await others_arrive(rig, voice)
    assert [m.body for m in await rig.queue("by-hand")] == [b"by hand"]


@pytest.mark.parametrize("tags_code", [0, 2**62])
@pytest.mark.parametrize("queue_id", [18, 10_000, 2**31 - 1])
async def test_a_queue_that_is_no_level(
    rig: BrokerRig, voice: Voice, queue_id: int, tags_code: int
) -> None:
    await voice.send(body=b"before", properties={"DELAY": "1"})
    put(rig, HANDMADE, queue_id=queue_id, tags_code=tags_code)
    await others_arrive(rig, voice)


@pytest.mark.parametrize("topic", sorted(NOT_ALLOWED_SEND))
async def test_no_reply_goes_to_a_topic_of_the_brokers_own(
    rig: BrokerRig, voice: Voice, topic: str
) -> None:  # E-70
    header = SendReplyMessageRequestHeaderV2(
        producer_group="writers", topic=topic, default_topic="TBW102", default_topic_queue_nums=4,
        queue_id=0, sys_flag=0, born_timestamp=START_MS, flag=0, properties="",
    )  # fmt: skip
    assert (await voice.ask(header, b"by hand")).code == ResponseCode.NO_PERMISSION
    assert await rig.queue(topic) == []


@pytest.mark.parametrize("topic", [*sorted(NOT_ALLOWED_SEND), TIMER_TOPIC])
async def test_no_timer_delivers_to_a_topic_of_the_brokers_own(
    rig: BrokerRig, voice: Voice, topic: str
) -> None:  # E-70, T-127
    real = {"REAL_TOPIC": topic, "REAL_QID": "0", "TIMER_OUT_MS": str(START_MS + 2000)}
    await voice.send(TIMER_TOPIC, b"by hand", properties=real)
    await voice.send(body=b"behind", properties={"TIMER_DELAY_SEC": "3"})
    await rig.advance(5)
    assert len(await rig.queue(topic)) == (2 if topic == TIMER_TOPIC else 0)
    assert [m.body for m in await rig.queue("orders")] == [b"behind"]
