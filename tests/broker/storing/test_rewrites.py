"""Which rewrite gets a message, and which messages are asked about."""

from __future__ import annotations

import pytest

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.store import StoredMessage
from pocketmq.broker.storing.rewrites import Rewrites
from pocketmq.protocol.stored.record import decode_record
from support.broker_rig import BrokerRig, Voice


def message() -> StoredMessage:
    return StoredMessage("orders", 3, b"hello", b"", 0, 0, 0, b"\0" * 8, b"\0" * 8)


def to(topic: str) -> Rewrites:
    rewrites = Rewrites()

    def rewrite(message: StoredMessage, properties: dict[str, str], _now_ms: int) -> bool:
        if topic not in properties:
            return False
        message.topic = topic
        return True

    rewrites.add(rewrite)
    return rewrites


def test_the_first_that_takes_a_message_has_it() -> None:
    asked: list[str] = []
    rewrites = Rewrites()

    def named(name: str, takes: bool) -> None:
        def rewrite(message: StoredMessage, _properties: dict[str, str], _now_ms: int) -> bool:
            asked.append(name)
            return takes

        rewrites.add(rewrite)

    named("timers", False)
    named("delays", True)
    named("others", True)
    assert rewrites.apply(message(), {}, 0)
    assert asked == ["timers", "delays"]


def test_a_message_that_nobody_wants_stays_as_it_is() -> None:
    one = message()
    assert not to("parking").apply(one, {}, 0)
    assert one == message()


async def test_what_producers_send_is_rewritten_and_found_under_its_new_topic(
    rig: BrokerRig, voice: Voice
) -> None:
    def park(message: StoredMessage, properties: dict[str, str], _now_ms: int) -> bool:
        if properties.get("TRAN_MSG") != "park":
            return False
        message.topic, message.queue_id = "PARKED", 0
        return True

    rig.broker.subjects.storing.of_sends.add(park)
    await voice.send(body=b"plain")
    answer = await voice.send(body=b"parked", properties={"TRAN_MSG": "park"})
    assert [each.body for each in await rig.queue("orders")] == [b"plain"]
    assert [each.body for each in await rig.queue("PARKED")] == [b"parked"]
    stored = rig.broker.store.lookup(int(answer.msg_id[16:], 16))
    assert stored is not None
    assert decode_record(stored).topic == "PARKED"


async def test_a_rewrite_may_refuse(rig: BrokerRig, voice: Voice) -> None:
    def refuse(_message: StoredMessage, _properties: dict[str, str], _now_ms: int) -> bool:
        raise RequestRefusedError(13, "not today")

    rig.broker.subjects.storing.of_sends.add(refuse)
    await voice.send(body=b"plain")
    reply = await voice.try_send(properties={"DELAY": "1"})
    assert (reply.code, reply.remark) == (13, "not today")


def test_what_a_rewrite_raises_ends_the_put() -> None:
    rewrites = Rewrites()

    def refuse(_message: StoredMessage, _properties: dict[str, str], _now_ms: int) -> bool:
        raise RequestRefusedError(13, "not today")

    rewrites.add(refuse)
    with pytest.raises(RequestRefusedError):
        rewrites.apply(message(), {}, 0)
