"""A value with 0x01, which RocketMQ takes, goes every way that a message goes (S-6)."""

from __future__ import annotations

import pytest

from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.validation import HALF_TOPIC
from support.broker_rig import BrokerRig, Voice

ODD = "a\x01b\x01c\x02"


@pytest.mark.parametrize(
    ("more", "after_s"),
    [
        ("", 0.0),
        ("POP_CK\x01x\x02", 0.0),  # read in full
        ("DELAY\x011\x02", 3.0),
        ("TIMER_DELAY_SEC\x011\x02", 3.0),
    ],
)
async def test_a_separator_in_a_value_arrives_as_it_was_sent(
    rig: BrokerRig, voice: Voice, more: str, after_s: float
) -> None:
    await voice.send(properties=ODD + more, queue_id=0)
    await rig.advance(after_s)
    [message] = await rig.queue("orders", 0)
    assert message.properties["a"] == "b\x01c"


@pytest.mark.parametrize("more", ["", "REAL_QID\x017\x02"])
async def test_a_half_message_waits_with_it(rig: BrokerRig, voice: Voice, more: str) -> None:
    half = "TRAN_MSG\x01true\x02PGROUP\x01writers\x02"
    await voice.send(properties=ODD + half + more, sys_flag=4, queue_id=0)
    [message] = await rig.queue(HALF_TOPIC, 0)
    assert message.properties["a"] == "b\x01c"
    assert message.properties[names.REAL_QUEUE_ID] == "0"


async def test_what_is_sent_back_waits_and_comes_again_with_it(
    rig: BrokerRig, voice: Voice
) -> None:
    await voice.send(properties=ODD, queue_id=0)
    [message] = await rig.queue("orders", 0)
    assert (await voice.send_back(message, delay_level=1)).code == 0
    await rig.advance(3)
    [again] = await rig.queue("%RETRY%readers", 0)
    assert again.properties["a"] == "b\x01c"
