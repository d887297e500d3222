"""What clients put into the wheel topic by hand holds no other timer up (T-101, T-122, T-127).

As RocketMQ's, the topic takes messages from anyone, with any properties.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.timers.timer_rig import START_MS, timers_at
from pocketmq.broker.timers.rules import TimerRules
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.validation import TIMER_TOPIC

HANDMADE = {"REAL_TOPIC": "T", "REAL_QID": "0", "TIMER_OUT_MS": str(START_MS + 2000)}
LONGEST = "9" * 4300
"""As many digits as Python reads."""


@pytest.mark.parametrize(
    "changes",
    [
        *({"REAL_QID": text} for text in ("-1", str(2**31), LONGEST)),
        *({"REAL_TOPIC": text} for text in ("../T", "T" * 256)),
        *({"TIMER_OUT_MS": text} for text in ("-1", str(2**63), LONGEST)),
    ],
    ids=lambda changes: str(changes)[:30],
)
async def test_what_cannot_be_delivered_holds_nothing_up(
    tmp_path: Path, changes: dict[str, str]
) -> None:
    async with timers_at(tmp_path) as rig:
        rig.send(b"before", TIMER_DELAY_MS="2500")
        rig.send(b"by hand", topic=TIMER_TOPIC, **HANDMADE | changes)
        rig.send(b"behind", TIMER_DELAY_MS="2500")
        await rig.advance(4)
        assert [body for body in rig.bodies() if body != b"by hand"] == [b"before", b"behind"]
        assert rig.timers.is_caught_up


async def test_a_time_within_a_slot_waits_in_it_and_takes_no_other_message_with_it(
    tmp_path: Path,
) -> None:
    # Of a client, or of a broker that had slots of another width when it was sent.
    async with timers_at(tmp_path) as rig:
        rig.send(b"before", TIMER_DELAY_MS="2500")
        rig.send(b"by hand", topic=TIMER_TOPIC, **HANDMADE | {"TIMER_OUT_MS": str(START_MS + 2300)})
        rig.send(b"behind", TIMER_DELAY_MS="2500")
        await rig.advance(2.9)
        assert rig.bodies() == []
        await rig.advance(0.2)
        assert rig.bodies() == [b"before", b"by hand", b"behind"]


@pytest.mark.parametrize("times", ["²", "٣", "-1", str(2**31), LONGEST, "9" * 5000])
async def test_a_number_of_rolls_that_is_none_is_counted_from_1(tmp_path: Path, times: str) -> None:
    async with timers_at(tmp_path, rules=TimerRules(roll_window_slots=10)) as rig:
        rig.send(b"far", TIMER_DELAY_SEC="11", TIMER_ROLL_TIMES=times)
        rig.send(b"near", TIMER_DELAY_SEC="11")
        await rig.advance(13)
        far, near = rig.queue()
        assert far.properties[names.TIMER_ROLL_TIMES] == "1"
        assert (far.body, near.body) == (b"far", b"near")


async def test_messages_that_end_alike_wait_each_for_its_own_topic(tmp_path: Path) -> None:
    # A time behind the topic is all that their properties end with.
    out_ms = str(START_MS + 2000)
    async with timers_at(tmp_path) as rig:
        for topic in ("A", "B"):
            by_hand = {"REAL_TOPIC": topic, "REAL_QID": "0", "TIMER_OUT_MS": out_ms}
            rig.send(topic.encode(), topic=TIMER_TOPIC, **by_hand)
        for topic in ("C", "D", "D"):
            rig.send(topic.encode(), topic=topic, TIMER_DELAY_MS="2500")
        await rig.advance(0.1)
        assert {topic: rig.counts.of(topic) for topic in "ABCD"} == {"A": 1, "B": 1, "C": 1, "D": 2}
        await rig.advance(4)
        assert [rig.bodies(topic) for topic in "ABCD"] == [[b"A"], [b"B"], [b"C"], [b"D", b"D"]]
