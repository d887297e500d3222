"""Priority messages: a message's priority is its queue, and pops read the highest first (V-1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.broker.pop.priorities import Priorities
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import IllegalMessageError
from pocketmq.protocol.headers.groups import UpdateSubscriptionGroupRequestHeader
from pocketmq.protocol.headers.send import SendMessageResponseHeader
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import Message
from pocketmq.runtime.profile import PROFILE_5_3, PROFILES, Profile
from support.broker_rig import BrokerRig, Voice, running_broker
from support.pop_voice import GROUP, ack, ack_all, pop, pop_later, read_pop

PRIORITIES = {"attributes": "+message.type=PRIORITY"}


async def send(voice: Voice, body: bytes, priority: str | int, **others: str) -> int:
    """Send with a priority; the queue that the broker answers."""
    properties = {names.PRIORITY: str(priority)} | others
    sent = await voice.try_send("orders", body, queue_id=1, properties=properties)
    assert sent.code == 0, sent.remark
    return sent.header(SendMessageResponseHeader).queue_id


async def group(voice: Voice, **attributes: str) -> int:
    """Change the group's attributes; the code of the answer."""
    config = SubscriptionGroupConfig(group_name=GROUP, attributes=attributes)
    return (await voice.ask(UpdateSubscriptionGroupRequestHeader(), config)).code


# -- sending ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("priority", "queue_id"),
    [
        (0, 0),
        (1, 1),
        (3, 3),
        (4, 3),
        (2**31 - 1, 3),
        ("+2", 2),
        (-1, 1),
        ("high", 1),
        ("", 1),
        (2**31, 1),
        ("9" * 5000, 1),
        ("2.0", 1),
        ("٣", 1),
    ],
)
async def test_a_priority_is_the_number_of_a_queue(
    rig: BrokerRig, voice: Voice, priority: str | int, queue_id: int
) -> None:  # V-2: what Java reads as no number, or below 0, leaves the queue to the sender
    await voice.create_topic()
    assert await send(voice, b"m", priority) == queue_id
    [stored] = await rig.queue("orders", queue_id)
    assert stored.queue_id == queue_id


@pytest.mark.parametrize(
    "other",
    [
        {names.SHARDING_KEY: "k"},
        {names.TRANSACTION_PREPARED: "true"},
        {names.DELAY: "1"},
        {names.TIMER_DELAY_SEC: "1"},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_a_message_of_another_type_has_no_priority(
    rig: BrokerRig, voice: Voice, other: dict[str, str]
) -> None:  # V-2
    await voice.create_topic()
    assert await send(voice, b"m", 3, PGROUP="p", UNIQ_KEY="K", **other) == 1
    topics = [*rig.broker.topics.table]
    stored = [m for topic in topics for q in range(18) for m in await rig.queue(topic, q)]
    assert stored
    assert all(names.PRIORITY not in message.properties for message in stored)


@pytest.mark.parametrize("profile", PROFILES[:2], ids=lambda profile: profile.name)
async def test_brokers_before_5_4_keep_the_property_and_the_queue(
    tmp_path: Path, profile: Profile
) -> None:  # V-31
    async with running_broker(tmp_path, profile) as rig:
        voice = await rig.voice()
        await voice.create_topic()
        assert await send(voice, b"m", 3) == 1
        [stored] = await rig.queue("orders", 1)
        assert stored.properties[names.PRIORITY] == "3"


async def test_brokers_of_5_3_know_no_topics_of_priorities(tmp_path: Path) -> None:  # V-31
    async with running_broker(tmp_path, PROFILES[1]) as rig:
        voice = await rig.voice()
        with pytest.raises(AssertionError, match="but is PRIORITY"):
            await voice.create_topic("urgent", **PRIORITIES)


def test_a_client_says_a_priority_from_0_up() -> None:  # V-1, V-5
    message = Message("orders", b"m", priority=7)
    assert (message.properties[names.PRIORITY], message.priority) == ("7", 7)
    assert Message("orders", b"m").priority == -1
    with pytest.raises(IllegalMessageError, match="must be 0 or more"):
        Message("orders", b"m", priority=-1)
    with pytest.raises(IllegalMessageError, match="reserved for RocketMQ"):
        message.put_user_property(names.PRIORITY, "8")


# -- taking -------------------------------------------------------------------------------------


async def test_pops_take_the_highest_priority_first(rig: BrokerRig, voice: Voice) -> None:
    # V-3, V-4
    await voice.create_topic(**PRIORITIES)
    for n in range(12):
        await send(voice, b"%d-%02d" % (n % 4, n), n % 4)
    taken: list[bytes] = []
    for _ in range(6):
        answer = await pop(voice, max_msg_nums=2)
        taken += answer.bodies
        await ack_all(voice, answer)
    assert [body[:1] for body in taken] == [b"3"] * 3 + [b"2"] * 3 + [b"1"] * 3 + [b"0"] * 3


async def test_low_priorities_wait_while_higher_ones_come(rig: BrokerRig, voice: Voice) -> None:
    # V-4
    await voice.create_topic(**PRIORITIES)
    await send(voice, b"low", 0)
    for _ in range(20):
        await send(voice, b"high", 2)
        assert (await pop(voice, max_msg_nums=1)).bodies == [b"high"]
    assert (await pop(voice, max_msg_nums=1)).bodies == [b"low"]


async def test_the_order_can_be_turned_round(tmp_path: Path) -> None:  # V-3
    async with running_broker(tmp_path, priority_order_asc=False) as rig:
        voice = await rig.voice()
        await voice.create_topic(**PRIORITIES)
        for n in (3, 0, 2, 1):
            await send(voice, b"%d" % n, n)
        assert (await pop(voice)).bodies == [b"0", b"1", b"2", b"3"]


async def test_a_group_may_leave_a_share_of_its_pops_to_the_ring(
    rig: BrokerRig, voice: Voice
) -> None:  # V-3, V-4
    await voice.create_topic(**PRIORITIES)
    firsts = {}
    for factor in ("100", "0", "50"):
        assert await group(voice, **{"+priority.factor": factor}) == 0
        firsts[factor] = set()
        for _ in range(60):
            for n in range(4):
                await send(voice, b"%d" % n, n)
            answer = await pop(voice, max_msg_nums=1)
            firsts[factor] |= set(answer.bodies)
            while answer.bodies:
                await ack_all(voice, answer)
                answer = await pop(voice)
    assert firsts["100"] == {b"3"}
    assert firsts["0"] == firsts["50"] == {b"0", b"1", b"2", b"3"}


async def test_the_share_is_of_a_hundred_lots(rig: BrokerRig, voice: Voice) -> None:  # V-3
    await voice.create_topic(**PRIORITIES)
    topics, groups = rig.broker.topics, rig.broker.groups
    priorities = Priorities(topics, groups, enabled=True)
    assert priorities.hold(GROUP, "orders", 99)
    assert await group(voice, **{"+priority.factor": "30"}) == 0
    assert priorities.hold(GROUP, "orders", 29)
    assert not priorities.hold(GROUP, "orders", 30)
    assert not Priorities(topics, groups, enabled=False).hold(GROUP, "orders", 0)


async def test_a_topic_without_the_type_is_read_as_a_ring(rig: BrokerRig, voice: Voice) -> None:
    # V-3: the topic's type decides; messages go by their priority all the same
    await voice.create_topic()
    firsts = set()
    for _ in range(60):
        for n in range(4):
            await send(voice, b"%d" % n, n)
        answer = await pop(voice, max_msg_nums=1)
        firsts |= set(answer.bodies)
        while answer.bodies:
            await ack_all(voice, answer)
            answer = await pop(voice)
    assert firsts == {b"0", b"1", b"2", b"3"}


async def test_a_pop_that_waits_gets_whatever_comes(rig: BrokerRig, voice: Voice) -> None:
    await voice.create_topic(**PRIORITIES)
    waiting = pop_later(voice, poll_time=10_000)
    await rig.settle()
    await send(voice, b"low", 0)
    await rig.advance(1)
    assert read_pop(await waiting).bodies == [b"low"]


@pytest.mark.parametrize("separate", [False, True])
async def test_a_retry_keeps_its_priority_where_retries_have_queues(
    tmp_path: Path, *, separate: bool
) -> None:  # V-3, V-5
    async with running_broker(tmp_path, use_separate_retry_queue=separate) as rig:
        voice = await rig.voice()
        await voice.create_topic(**PRIORITIES)
        for n in (0, 3, 1, 2):
            await send(voice, b"%d" % n, n)
        assert (await pop(voice)).bodies == [b"3", b"2", b"1", b"0"]
        await rig.advance(14)
        await send(voice, b"new", 0)
        again = await pop(voice)
        assert again.bodies[0] == b"new"  # by priority, retries come last
        assert sorted(again.bodies[1:]) == [b"0", b"1", b"2", b"3"]
        assert (again.bodies[1:] == [b"3", b"2", b"1", b"0"]) or not separate
        assert rig.broker.topics.table["%RETRY%poppers_orders"].read_queue_nums == (
            4 if separate else 1
        )
        for popped in again.messages:
            assert (await ack(voice, popped)).code == 0
        await rig.advance(60)
        assert (await pop(voice)).bodies == []


# -- attributes of groups -----------------------------------------------------------------------


async def test_attributes_of_groups_are_set_and_removed(rig: BrokerRig, voice: Voice) -> None:
    # V-3
    assert await group(voice, **{"+priority.factor": "30"}) == 0
    assert rig.broker.groups.table[GROUP].attributes == {"priority.factor": "30"}
    assert await group(voice) == 0
    assert rig.broker.groups.table[GROUP].attributes == {"priority.factor": "30"}
    assert await group(voice, **{"-priority.factor": ""}) == 0
    assert rig.broker.groups.table[GROUP].attributes == {}


@pytest.mark.parametrize(
    "attributes",
    [
        {"+priority.factor": "101"},
        {"+priority.factor": "-1"},
        {"+priority.factor": "9" * 9999},
        {"priority.factor": "1"},
        {"+no.such": "1"},
        {"": ""},
    ],
    ids=lambda attributes: str(attributes)[:24],
)
async def test_what_is_no_attribute_of_a_group_is_refused(
    rig: BrokerRig, voice: Voice, attributes: dict[str, str]
) -> None:
    assert await group(voice, **attributes) == ResponseCode.SYSTEM_ERROR
    assert GROUP not in rig.broker.groups.table


async def test_5_3_has_no_attributes_of_groups(tmp_path: Path) -> None:
    async with running_broker(tmp_path, PROFILE_5_3) as rig:
        assert await group(await rig.voice(), **{"+priority.factor": "1"}) == 1
