"""What the store gets for a send, field by field, on the fast path and on the slow one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.broker.address import BrokerAddress
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.broker.locks.queue_locks import RebalanceLockManager
from pocketmq.broker.sending.incoming import IncomingMessages, packed_address
from pocketmq.broker.sending.resends import Resends
from pocketmq.broker.sending.send_checks import SendChecks
from pocketmq.broker.sending.sent_properties import TraitsReader
from pocketmq.broker.sending.stamp import BrokerStamp
from pocketmq.broker.stats.message_type import MessageType
from pocketmq.broker.stats.meters import Meters
from pocketmq.broker.store.stored_message import StoredMessage
from pocketmq.broker.storing.rewrites import Rewrites
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.operation.events.messages import MessageDead
from pocketmq.operation.events.sink import EventSink
from pocketmq.operation.metrics import SENT_TO_DLQ
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.command import Command
from pocketmq.protocol.headers.send import SendMessageRequestHeader
from pocketmq.protocol.hosts import pack_host
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.properties import decode_properties, encode_again
from pocketmq.protocol.messages.subscription import tags_code
from pocketmq.runtime.profile import PROFILE_4_9, PROFILE_5_X
from pocketmq.runtime.signals import Signal

NOW_MS = 1_700_000_000_000
BORN_HOST = pack_host("10.0.0.1", 99)
OF_BROKER = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}
TRANSACTION_BITS = 0xC


class Told(EventSink):
    """Keeps the events that a broker tells."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    @property
    def is_on(self) -> bool:
        return True

    def stamp(self) -> Any:
        return NOW_MS, "broker-a", 1, 5

    def emit(self, event: Any) -> None:
        self.events.append(event)


def stamp_of(profile: Any) -> BrokerStamp:
    return BrokerStamp(
        BrokerAddress("127.0.0.1", 10911),
        "DefaultCluster",
        lambda: "NEW",
        region_is_stored=profile.broker.region_is_stored,
    )


class Incoming:
    """The broker's incoming messages for the topic `orders`, with 2 read and 6 write queues."""

    def __init__(self, profile: Any = PROFILE_5_X, **events: Any) -> None:
        self.topics = TopicConfigManager("broker-a", "DefaultCluster")
        topic = TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=6)
        self.topics.put(topic, NOW_MS)
        self.groups = SubscriptionGroupManager(max_name_chars=120)
        self.locks = RebalanceLockManager()
        self.meters = Meters()
        self.rewrites, self.of_sends = Rewrites(), Rewrites()
        self.halves: list[tuple[StoredMessage, int]] = []
        told: Signal[[StoredMessage, int]] = Signal()
        told.connect(lambda message, now_ms: self.halves.append((message, now_ms)))
        self.resends = Resends(
            self.topics, self.groups, self.locks, profile.broker, self.meters, **events
        )
        self._incoming = IncomingMessages(
            SendChecks(self.topics, broker_name="broker-a"),
            self.resends,
            self.rewrites,
            self.of_sends,
            told,
            stamp_of(profile),
            priorities=True,
            dead_are_delayed=profile.broker.dlq_by_send_waits,
            reader=TraitsReader(
                region_is_stored=profile.broker.region_is_stored,
                wait_is_stored=profile.broker.wait_is_stored,
            ),
        )
        self.waits = profile.broker.dlq_by_send_waits

    def send(
        self, properties: str = "", topic: str = "orders", body: bytes = b"hello", **fields: Any
    ) -> tuple[StoredMessage, int]:
        """What is to be stored for a send, and the queue id of the answer."""
        header = SendMessageRequestHeader(
            **{
                "producer_group": "writers",
                "topic": topic,
                "default_topic": "TBW102",
                "default_topic_queue_nums": 4,
                "queue_id": 0,
                "sys_flag": 0,
                "born_timestamp": NOW_MS - 5,
                "flag": 7,
                "properties": properties,
                **fields,
            }
        )
        return self._incoming.message(Command(10, body=body), header, BORN_HOST, NOW_MS, 100.0)


def text_of(message: StoredMessage) -> str:
    return bytes(message.properties).decode()


@pytest.mark.parametrize("last", ["", "\x02"])
def test_a_plain_message_is_stored_with_the_brokers_properties_in_javas_order(last):  # B-18
    text = "TAGS\x01TagA\x02WAIT\x01false\x02KEYS\x01k1 k2\x02UNIQ_KEY\x01U"
    message, queue_id = Incoming().send(text + last, queue_id=3, reconsume_times=2, sys_flag=1)
    assert queue_id == message.queue_id == 3
    ordered = {"UNIQ_KEY": "U", "TAGS": "TagA", "KEYS": "k1 k2", "WAIT": "false"} | OF_BROKER
    assert text_of(message) == encode_again(ordered)
    assert list(decode_properties(text_of(message))) == [
        "MSG_REGION", "UNIQ_KEY", "CLUSTER", "TAGS", "KEYS", "WAIT", "TRACE_ON",
    ]  # fmt: skip
    assert message == StoredMessage(
        topic="orders",
        queue_id=3,
        body=b"hello",
        properties=message.properties,
        flag=7,
        sys_flag=1,
        born_timestamp_ms=NOW_MS - 5,
        born_host=BORN_HOST,
        store_host=pack_host("127.0.0.1", 10911),
        reconsume_times=2,
        tags_code=tags_code("TagA"),
        uniq_key="U",
        keys="k1 k2",
        wait_store_ok=False,
    )


def test_a_message_without_a_unique_key_gets_one() -> None:  # B-18
    for text in ("", "UNIQ_KEY\x01\x02", "CLUSTER\x01other\x02"):  # the last takes the slow path
        message, _ = Incoming().send(text)
        assert message.uniq_key == "NEW"
        assert decode_properties(text_of(message)) == {"UNIQ_KEY": "NEW"} | OF_BROKER


def test_the_slow_path_stores_the_same_fields() -> None:  # B-18
    text = "CLUSTER\x01other\x02TAGS\x01TagA\x02WAIT\x01false\x02KEYS\x01k1 k2\x02POP_CK\x01x\x02"
    message, queue_id = Incoming().send(text, queue_id=3, reconsume_times=2, sys_flag=1)
    assert queue_id == 3
    own = {"TAGS": "TagA", "WAIT": "false", "KEYS": "k1 k2", "UNIQ_KEY": "NEW"}
    assert decode_properties(text_of(message)) == own | OF_BROKER
    assert (message.topic, message.queue_id, bytes(message.body)) == ("orders", 3, b"hello")
    assert (message.flag, message.sys_flag, message.reconsume_times) == (7, 1, 2)
    assert (message.born_timestamp_ms, message.born_host) == (NOW_MS - 5, BORN_HOST)
    assert message.store_host == pack_host("127.0.0.1", 10911)
    assert (message.tags_code, message.keys, message.uniq_key, message.wait_store_ok) == (
        tags_code("TagA"),
        "k1 k2",
        "NEW",
        False,
    )
    assert Incoming().send("CLUSTER\x01other\x02")[0].wait_store_ok


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", MessageType.NORMAL),
        ("__SHARDINGKEY\x01a\x02", MessageType.FIFO),
        ("DELAY\x013\x02", MessageType.DELAY),
        ("TRAN_MSG\x01true\x02", MessageType.TRANSACTION),
    ],
)
def test_metrics_count_a_message_by_its_type(text, kind):
    assert Incoming().send(text)[0].message_type is kind


@pytest.mark.parametrize("text", ["", "CLUSTER\x01other\x02"])
def test_a_message_without_a_body_is_refused(text):
    with pytest.raises(RequestRefusedError, match="no body") as caught:
        Incoming().send(text, body=b"")
    assert caught.value.code == 13


def test_a_queue_beyond_the_topics_is_refused_and_a_negative_one_drawn() -> None:  # B-110
    incoming = Incoming()
    assert incoming.send(queue_id=5)[1] == 5
    with pytest.raises(RequestRefusedError, match="queue id 6"):
        incoming.send(queue_id=6)
    drawn = [incoming.send(queue_id=-1) for _ in range(200)]
    assert {queue_id for _, queue_id in drawn} == set(range(6))
    assert all(message.queue_id == queue_id for message, queue_id in drawn)


def test_a_half_message_is_told_of_and_has_no_transaction_bits() -> None:
    incoming = Incoming()
    message, _ = incoming.send("TRAN_MSG\x01true\x02UNIQ_KEY\x01U\x02", sys_flag=0x4 | 1)
    assert incoming.halves == [(message, NOW_MS)]
    assert message.sys_flag == 1
    assert Incoming().send("UNIQ_KEY\x01U\x02")[0].sys_flag == 0
    incoming.send("UNIQ_KEY\x01U\x02")
    assert len(incoming.halves) == 1


def test_transaction_bits_without_the_property_ask_the_rewrites() -> None:
    incoming = Incoming()
    asked: list[str] = []

    def taken(message: StoredMessage, properties: dict[str, str], now_ms: int) -> bool:
        asked.append(properties["UNIQ_KEY"])
        message.properties = f"taken at {now_ms}".encode()
        return True

    incoming.rewrites.add(taken)
    for bits in (0x4, 0x8, 0xC):
        message, _ = incoming.send("UNIQ_KEY\x01U\x02", sys_flag=bits | 2)
        assert (text_of(message), message.sys_flag) == (f"taken at {NOW_MS}", 2)
    assert asked == ["U"] * 3
    assert "taken" not in text_of(incoming.send("UNIQ_KEY\x01U\x02", sys_flag=2)[0])


def test_rewrites_of_sends_are_asked_before_the_others() -> None:
    incoming = Incoming()
    asked: list[str] = []
    for name, rewrites in (("other", incoming.rewrites), ("send", incoming.of_sends)):
        rewrites.add(lambda *_, name=name: bool(asked.append(name)))
    message, _ = incoming.send("DELAY\x013\x02")
    assert asked == ["send", "other"]
    assert decode_properties(text_of(message))["DELAY"] == "3"  # nobody took it
    incoming.of_sends.add(lambda *_: bool(asked.append("taker") or True))
    incoming.send("DELAY\x013\x02")
    assert asked == ["send", "other", "send", "taker"]


@pytest.mark.parametrize(("priority", "queue"), [("0", 0), ("3", 3), ("5", 5), ("6", 5), ("99", 5)])
def test_a_priority_is_the_queue_up_to_the_last(priority, queue):  # V-2
    message, queue_id = Incoming().send(f"_SYS_MSG_PRIORITY_\x01{priority}\x02", queue_id=1)
    assert message.queue_id == queue_id == queue
    assert decode_properties(text_of(message))["_SYS_MSG_PRIORITY_"] == priority


@pytest.mark.parametrize(
    "other", ["DELAY\x013", "TIMER_DELAY_MS\x019", "__SHARDINGKEY\x01a", "TRAN_MSG\x01true"]
)
def test_a_message_of_another_type_has_no_priority(other):  # V-2
    incoming = Incoming()
    message, queue_id = incoming.send(f"_SYS_MSG_PRIORITY_\x013\x02{other}\x02", queue_id=1)
    assert queue_id == 1
    assert "_SYS_MSG_PRIORITY_" not in decode_properties(text_of(message))


def test_the_brokers_properties_replace_those_that_were_sent() -> None:  # B-18
    stamp = stamp_of(PROFILE_5_X)
    properties = {"TAGS": "TagA", "POP_CK": "x", "CLUSTER": "other"}
    stamp.add_to(properties)
    assert properties == {"TAGS": "TagA", "UNIQ_KEY": "NEW"} | OF_BROKER


def test_an_address_as_records_hold_it() -> None:
    assert packed_address("10.0.0.1:99") == b"\x0a\0\0\x01\0\0\0\x63"
    assert packed_address("nobody") == b"\x7f\0\0\x01\0\0\0\0"


def resend(incoming: Incoming, times: int, **fields: Any) -> str:
    """The topic in which a send to the retry topic of `readers` ends."""
    message, queue_id = incoming.send(
        "DELAY\x013\x02TIMER_DELAY_MS\x019\x02UNIQ_KEY\x01U\x02",
        topic="%RETRY%readers",
        reconsume_times=times,
        **fields,
    )
    left = decode_properties(text_of(message))
    is_dead = message.topic.startswith("%DLQ")
    assert left["DELAY"] == ("-1" if is_dead and not incoming.waits else "3")
    assert left["TIMER_DELAY_MS"] == "9", "which counts for a dead one, too"
    assert message.message_type is (MessageType.NORMAL if is_dead else MessageType.DELAY)
    assert message.queue_id == queue_id == 0
    assert left["UNIQ_KEY"] == message.uniq_key == "U"
    return message.topic


@pytest.mark.parametrize(("profile", "last"), [(PROFILE_4_9, 15), (PROFILE_5_X, 16)])
def test_a_resend_beyond_its_groups_limit_is_dead(profile, last):  # B-86
    told = Told()
    incoming = Incoming(profile, events=told, broker="broker-a")
    assert resend(incoming, last) == "%RETRY%readers"
    assert (told.events, dict(incoming.meters.counts)) == ([], {})
    assert incoming.topics.get("%DLQ%readers") is None
    assert resend(incoming, last + 1) == "%DLQ%readers"
    assert incoming.meters.counts[SENT_TO_DLQ] == {("readers", "%RETRY%readers"): 1}
    (dead,) = told.events
    assert dead == MessageDead(
        *told.stamp(),
        topic="%DLQ%readers",
        broker="broker-a",
        group="readers",
        origin_topic="%RETRY%readers",
        attempt=last + 1,
    )
    made = incoming.topics.get("%DLQ%readers")
    assert made is not None
    assert (made.write_queue_nums, made.perm) == (1, 6)


def test_a_sender_may_bring_its_own_limit() -> None:  # B-82
    incoming = Incoming(PROFILE_5_X)
    assert resend(incoming, 3, max_reconsume_times=3) == "%RETRY%readers"
    assert resend(incoming, 4, max_reconsume_times=3) == "%DLQ%readers"


@pytest.mark.parametrize(("profile", "is_dead"), [(PROFILE_4_9, False), (PROFILE_5_X, True)])
def test_an_orderly_group_sends_only_what_it_has_given_up(profile, is_dead):  # B-86
    incoming = Incoming(profile)
    incoming.locks.lock("readers", "me", [MessageQueue("orders", "broker-a", 0)], 40.0)
    assert (resend(incoming, 1) == "%DLQ%readers") is is_dead
    incoming.locks.expire(101.0)
    assert resend(incoming, 1) == "%RETRY%readers"


def test_no_events_are_made_where_nobody_wants_them() -> None:
    assert resend(Incoming(), 17) == "%DLQ%readers"


def test_a_resend_to_a_group_that_may_not_be_made_is_refused() -> None:
    incoming = Incoming()
    incoming.groups.auto_create = lambda: False
    with pytest.raises(RequestRefusedError, match="readers does not exist") as caught:
        resend(incoming, 1)
    assert caught.value.code == 26


@pytest.mark.parametrize("sent", ["", "KEYS\x01k1 k2\x02", "UNIQ_KEY\x01" + "U" * 32 + "\x02"])
@given(own=st.dictionaries(st.text("abKEYS_", min_size=1), st.text("xyz", min_size=1), max_size=95))
def test_the_quick_way_has_javas_order_whatever_is_sent(sent: str, own: dict[str, str]) -> None:
    own = {name: text for name, text in own.items() if name not in ("KEYS", "TAGS")}
    message, _ = Incoming().send(sent + encode_again(own))
    names = decode_properties(sent + encode_again(own)) | {"UNIQ_KEY": message.uniq_key}
    assert decode_properties(text_of(message)) == names | OF_BROKER
    assert text_of(message) == encode_again(names | OF_BROKER)
