"""SDKs send through the proxy: what is stored, what is refused (G-64 to G-75)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pocketmq.protocol.messages import properties as names
from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import (
    Code,
    MessageType,
    TransactionResolution,
    TransactionSource,
)
from pocketmq.proxy.routes.hashing import consistent_hash
from support.memory_cluster import START_MS
from support.proxy_rig import ProxyRig, message, proxy_rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ProxyRig]:
    async with proxy_rig(tmp_path, recall_message_enable=True) as made:
        yield made


async def stored(rig: ProxyRig, topic: str) -> list[Any]:
    """All messages of a topic, in the order of their queues."""
    found = []
    async with rig.cluster.admin() as admin:
        for queue in rig.cluster.queues_of(topic):
            found += (await admin.read(queue, 0)).messages
    return found


async def test_a_normal_message_is_stored_as_rocketmqs_proxy_stores_it(rig: ProxyRig) -> None:
    await rig.cluster.create_topic("orders")
    sdk = rig.sdk()
    answer = await sdk.send(
        "orders", b"hello", tag="new", keys=["a", "b"], user_properties={"color": "red"},
        trace_context="t",
    )  # fmt: skip
    assert (answer.status.code, answer.status.message) == (Code.OK, "OK")
    [entry] = answer.entries
    assert (entry.status.code, entry.message_id) == (Code.OK, "01" + "AB" * 16)
    [kept] = await stored(rig, "orders")
    assert kept.body == b"hello"
    assert kept.properties.pop(names.BORN_HOST).startswith("127.0.0.1:")  # the true peer's
    assert {
        name: text
        for name, text in kept.properties.items()
        if name not in (names.MSG_REGION, names.TRACE_SWITCH, names.CLUSTER)
    } == {
        "color": "red", "TAGS": "new", "KEYS": "a b", "UNIQ_KEY": "01" + "AB" * 16,
        "RECONSUME_TIME": "0", "PGROUP": "orders", "TRACE_CONTEXT": "t",
        "BORN_TIMESTAMP": "1700000000000",
    }  # fmt: skip
    assert kept.born_timestamp_ms == 1_700_000_000_000


async def test_a_message_says_itself_where_it_was_born(rig: ProxyRig) -> None:
    await rig.cluster.create_topic("orders")
    await rig.sdk().send("orders", born_host="laptop")
    [kept] = await stored(rig, "orders")
    assert kept.properties[names.BORN_HOST] == "laptop"


@pytest.mark.parametrize(
    ("wrong", "code", "sentence"),
    [
        ({"message_id": " "}, Code.ILLEGAL_MESSAGE_ID, "message id cannot be empty"),
        ({"tag": " "}, Code.ILLEGAL_MESSAGE_TAG, "tag cannot be the char sequence of whitespace"),
        ({"tag": "a|b"}, Code.ILLEGAL_MESSAGE_TAG, "tag cannot contain '|'"),
        ({"tag": "a\n"}, Code.ILLEGAL_MESSAGE_TAG, "tag cannot contain control character"),
        (
            {"keys": [" "]},
            Code.ILLEGAL_MESSAGE_KEY,
            "key cannot be the char sequence of whitespace",
        ),
        ({"keys": ["\x85"]}, Code.ILLEGAL_MESSAGE_KEY, "key cannot contain control character"),
        (
            {"message_group": "g" * 64},
            Code.ILLEGAL_MESSAGE_GROUP,
            "message group exceed the max size 64",
        ),
        (
            {"user_properties": {"TAGS": "x"}},
            Code.ILLEGAL_MESSAGE_PROPERTY_KEY,
            "property is used by system: TAGS",
        ),
        (
            {"user_properties": {str(number): "x" for number in range(129)}},
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            "too many user properties, max is 128",
        ),
        (
            {"user_properties": {"long": "x" * 16_384}},
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            "the total size of user property is too large, max is 16384",
        ),
        (
            {"delivery_timestamp": pb.Timestamp(seconds=START_MS // 1_000 + 86_401)},
            Code.ILLEGAL_DELIVERY_TIME,
            "the max delay time of message is too large, max is 86400000",
        ),
        (
            {
                "message_type": MessageType.TRANSACTION,
                "orphaned_transaction_recovery_duration": pb.Duration(seconds=3_601),
            },
            Code.BAD_REQUEST,
            "the max transaction recovery time of message is too large, max is 3600",
        ),
    ],
)  # fmt: skip
async def test_a_wrong_message_is_refused_with_rocketmqs_sentence(
    rig: ProxyRig, wrong: dict[str, Any], code: Code, sentence: str
) -> None:
    answer = await rig.sdk().send("orders", **wrong)
    assert (Code(answer.status.code), answer.status.message) == (code, sentence)
    assert not answer.entries


async def test_what_is_wrong_beside_a_messages_properties_is_refused(rig: ProxyRig) -> None:
    sdk = rig.sdk()
    for messages, code, sentence in [
        ([], Code.MESSAGE_CORRUPTED, "no message to send"),
        ([message("a"), message("b")], Code.MESSAGE_CORRUPTED, "topic in message is not same"),
        ([message("a", b"")], Code.MESSAGE_BODY_EMPTY, "message body cannot be empty"),
        (
            [message("a", bytes(4 * 1024 * 1024 + 1))],
            Code.MESSAGE_BODY_TOO_LARGE,
            "message body cannot exceed the max 4194304",
        ),
        ([message(" ")], Code.ILLEGAL_TOPIC, "The specified topic is blank"),
        ([message("TBW102")], Code.ILLEGAL_TOPIC, "cannot access system topic"),
        (
            [message("t" * 128)],
            Code.ILLEGAL_TOPIC,
            "The specified topic is longer than topic max length 127.",
        ),
    ]:
        answer = await sdk.call("SendMessage", messages=messages)
        assert (Code(answer.status.code), answer.status.message) == (code, sentence)


async def test_a_topic_takes_messages_of_its_type(rig: ProxyRig) -> None:
    for kind in ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"):
        await rig.cluster.create_topic(kind, message_type=kind)
    sdk = rig.sdk()
    due = pb.Timestamp(seconds=START_MS // 1_000 + 60)
    sent: dict[str, dict[str, Any]] = {
        "NORMAL": {},
        "FIFO": {"message_group": "g"},
        "DELAY": {"delivery_timestamp": due},
        "TRANSACTION": {"message_type": MessageType.TRANSACTION},
    }
    for kind, system in sent.items():
        assert (await sdk.send(kind, **system)).status.code == Code.OK, kind
        assert (await sdk.send("MIXED", **system)).status.code == Code.OK, kind
        other = "FIFO" if kind == "NORMAL" else "NORMAL"
        refused = (await sdk.send(other, **system)).status
        assert refused.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
        assert refused.message == (
            f"TopicMessageType validate failed, the expected type is {other}, "
            f"but actual type is {kind}"
        )


async def test_a_missing_topic_has_no_type(rig: ProxyRig) -> None:
    refused = (await rig.sdk().send("missing")).status  # measured: 40014, not 40402
    assert refused.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    assert "the expected type is UNSPECIFIED" in refused.message


async def test_messages_of_a_group_stay_in_one_queue(rig: ProxyRig) -> None:
    await rig.cluster.create_topic("payments", queues=8, message_type="FIFO")
    sdk = rig.sdk()
    for number in range(5):
        await sdk.send("payments", str(number).encode(), message_group="order-42")
    kept = await stored(rig, "payments")
    assert [each.body for each in kept] == [b"0", b"1", b"2", b"3", b"4"]
    assert {each.queue_id for each in kept} == {3}  # as RocketMQ's proxy has it


def test_the_consistent_hash_is_guavas() -> None:
    buckets = [consistent_hash(number, 100) for number in range(10)]
    assert buckets == [0, 55, 62, 8, 45, 59, 86, 97, 82, 59]
    assert consistent_hash(10863919174838991, 11) == 6
    assert [consistent_hash(293427299, each) for each in (1, 2, 4, 8, 16)] == [0, 1, 1, 7, 15]


async def test_several_messages_are_stored_beside_each_other(rig: ProxyRig) -> None:
    await rig.cluster.create_topic("orders")
    batch = [message("orders", body, message_id=f"id{body!r}") for body in (b"1", b"2")]
    answer = await rig.sdk().call("SendMessage", messages=batch)
    assert answer.status.code == Code.OK
    assert len(answer.entries) == 1  # one for each request to a broker (G-68)
    assert [each.body for each in await stored(rig, "orders")] == [b"1", b"2"]


async def test_a_delayed_message_can_be_recalled(rig: ProxyRig) -> None:
    await rig.cluster.create_topic("later", message_type="DELAY")
    await rig.cluster.create_topic("orders")
    sdk = rig.sdk()
    due = pb.Timestamp(seconds=START_MS // 1_000 + 60)
    [entry] = (await sdk.send("later", delivery_timestamp=due)).entries
    assert entry.recall_handle
    topic = pb.Resource(name="later")
    recalled = await sdk.call("RecallMessage", topic=topic, recall_handle=entry.recall_handle)
    assert (recalled.status.code, recalled.message_id) == (Code.OK, entry.message_id)
    garbage = await sdk.call("RecallMessage", topic=topic, recall_handle="garbage")
    assert garbage.status.code == Code.INTERNAL_SERVER_ERROR
    other = await sdk.call(
        "RecallMessage", topic=pb.Resource(name="orders"), recall_handle=entry.recall_handle
    )
    assert other.status.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE


async def test_a_transaction_is_committed_or_rolled_back(rig: ProxyRig) -> None:
    await rig.cluster.create_topic("sales", message_type="TRANSACTION")
    sdk = rig.sdk()
    await sdk.publish("sales")
    for body, resolution in [
        (b"no", TransactionResolution.ROLLBACK),
        (b"yes", TransactionResolution.COMMIT),
    ]:
        answer = await sdk.send(
            "sales", body, message_type=MessageType.TRANSACTION, message_id=f"id-{body!r}"
        )
        [entry] = answer.entries
        assert entry.transaction_id
        end = {
            "topic": pb.Resource(name="sales"),
            "message_id": entry.message_id,
            "transaction_id": entry.transaction_id,
            "resolution": resolution,
            "source": TransactionSource.SOURCE_CLIENT,
        }
        assert (await sdk.call("EndTransaction", **end)).status.code == Code.OK
        again = (await sdk.call("EndTransaction", **end)).status
        assert again.code == Code.INTERNAL_SERVER_ERROR
        assert again.message == "cannot found transaction data"
    await rig.cluster.advance(1)
    assert [each.body for each in await stored(rig, "sales")] == [b"yes"]
    blank = await sdk.call("EndTransaction", topic=pb.Resource(name="sales"))
    assert blank.status.code == Code.INVALID_TRANSACTION_ID


async def test_who_ends_a_transaction_too_late_is_told_so(rig: ProxyRig) -> None:
    await rig.cluster.create_topic("sales", message_type="TRANSACTION")
    sdk = rig.sdk()
    [entry] = (await sdk.send("sales", message_type=MessageType.TRANSACTION)).entries
    await rig.cluster.advance(31)
    late = await sdk.call(
        "EndTransaction",
        topic=pb.Resource(name="sales"),
        message_id=entry.message_id,
        transaction_id=entry.transaction_id,
        resolution=TransactionResolution.COMMIT,
    )
    assert late.status.message == "cannot found transaction data"


async def test_a_broker_asks_a_producer_of_the_topic(rig: ProxyRig) -> None:
    await rig.cluster.create_topic("sales", message_type="TRANSACTION")
    sdk = rig.sdk()
    await sdk.publish("sales")
    [entry] = (await sdk.send("sales", b"half", message_type=MessageType.TRANSACTION)).entries
    await rig.cluster.advance(120)
    asked = (await sdk.hear()).recover_orphaned_transaction_command
    assert (asked.transaction_id, asked.message.body) == (entry.transaction_id, b"half")
    assert asked.message.topic.name == "sales"
    assert asked.message.system_properties.message_id == entry.message_id
    answer = await sdk.call(
        "EndTransaction",
        topic=pb.Resource(name="sales"),
        message_id=entry.message_id,
        transaction_id=asked.transaction_id,
        resolution=TransactionResolution.COMMIT,
        source=TransactionSource.SOURCE_SERVER_CHECK,
    )
    assert answer.status.code == Code.OK
    await rig.cluster.advance(1)
    assert [each.body for each in await stored(rig, "sales")] == [b"half"]
