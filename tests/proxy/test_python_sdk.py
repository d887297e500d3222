"""RocketMQ's official Python SDK consumes through the proxy, as it is published."""

from __future__ import annotations

import pytest

from pocketmq.client import Message, Producer
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from support.sdk_world import (
    ASKING_SOON,
    CHOSEN,
    PRODUCED,
    PRODUCED_TOLD,
    RETRIED_SOON,
    SIMPLE,
    SIMPLE_TOLD,
    printed,
    sdk_world,
)

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(900),  # the first run on a machine installs the SDK
]


async def test_a_simple_consumer_receives_hides_and_acknowledges() -> None:
    async with sdk_world() as (where, admin):
        await admin.create_topic("orders")
        assert await printed(where, SIMPLE) == SIMPLE_TOLD


async def test_a_simple_consumer_chooses_by_tag_and_by_sql() -> None:
    async with sdk_world() as (where, admin):
        await admin.create_topic("orders")
        assert await printed(where, CHOSEN) == ["one", "two"]


async def test_a_push_consumer_gets_everything_once() -> None:
    async with sdk_world() as (where, admin):
        await admin.create_topic("orders")
        assert await printed(
            where,
            """
bodies = [str(number) for number in range(100)]
listener = Listener(100)
consumer = push("billing", "orders", listener)
send("orders", *bodies)
assert listener.done.wait(60)
consumer.shutdown()
print(sorted(listener.seen) == sorted(bodies))
""",
        )


async def test_an_ordered_push_consumer_gets_a_groups_messages_in_order() -> None:
    async with sdk_world() as (where, admin):
        await admin.create_topic("orders", message_type="FIFO")
        await admin.create_group(
            SubscriptionGroupConfig(group_name="billing", consume_message_orderly=True)
        )
        assert await printed(
            where,
            """
bodies = [str(number) for number in range(20)]
listener = Listener(20)
send("orders", *bodies, group="customer-17")
consumer = push("billing", "orders", listener)
assert listener.done.wait(60)
consumer.shutdown()
print(listener.seen == bodies)
""",
        )


@pytest.mark.parametrize("fifo", [False, True], ids=["any-order", "fifo"])
async def test_a_message_that_always_fails_becomes_a_dead_letter(fifo: bool) -> None:
    async with sdk_world() as (where, admin):
        await admin.create_topic("orders", message_type="FIFO" if fifo else "NORMAL")
        await admin.create_group(
            SubscriptionGroupConfig(
                group_name="billing",
                consume_message_orderly=fifo,
                retry_max_times=1,
                group_retry_policy=RETRIED_SOON,
            )
        )
        assert await printed(
            where,
            f"""
times = []
def succeeds(message, attempt):
    if message.body == b"good":
        return True
    times.append(time.monotonic())
    return False
listener = Listener(3, succeeds)
send("orders", "bad", "good", group={"customer-17" if fifo else None!r})
consumer = push("billing", "orders", listener)
assert listener.done.wait(60)
undertaker, dead = simple("undertaker", "%DLQ%billing"), None
while not dead:
    try:
        dead = undertaker.receive(1, 30)
    except Exception:
        time.sleep(0.2)  # until the dead letters have a topic
[dead] = dead
undertaker.ack(dead)
undertaker.shutdown()
consumer.shutdown()
print([sorted(listener.seen), times[1] - times[0] >= 1, dead.body.decode()])
""",
        ) == [["bad", "bad", "good"], True, "bad"]


async def test_it_takes_a_delayed_message_back_and_ends_transactions_when_asked() -> None:
    async with sdk_world("--recall-message-enable", *ASKING_SOON) as (where, admin):
        await admin.create_topic("later", message_type="DELAY")
        await admin.create_topic("deals", message_type="TRANSACTION")
        assert await printed(where, PRODUCED) == PRODUCED_TOLD


async def test_a_message_of_a_higher_priority_comes_first() -> None:
    async with sdk_world("--profile", "5.5") as (where, admin):
        await admin.create_topic("urgent", message_type="PRIORITY")
        assert await printed(
            where,
            """
producer = Producer(where, ("urgent",))
producer.startup()
for priority in (1, 3, 2):
    message = Message()
    message.topic, message.body, message.priority = "urgent", b"%d" % priority, priority
    producer.send(message)
producer.shutdown()
consumer = simple("billing", "urgent")
print([(each.body, each.priority, dict(each.properties)) for each in some(consumer, 3)])
consumer.shutdown()
""",
        ) == [(b"3", 3, {}), (b"2", 2, {}), (b"1", 1, {})]


async def test_it_reads_what_a_remoting_producer_compressed() -> None:
    async with sdk_world() as (where, admin):
        await admin.create_topic("orders")
        async with Producer("shop", nameservers=list(admin.config.nameservers)) as producer:
            await producer.send(Message("orders", b"long " * 5_000))
        program = """
[message] = some(simple("billing", "orders"), 1)
print((message.body == b"long " * 5_000, message.corrupted))
"""
        assert await printed(where, program) == (True, False)
