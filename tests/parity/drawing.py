"""Sequences drawn from the catalogue: meaningful orders first, then fields bent one by one.

A sequence creates topics, then takes 3 to 9 acts (send, pull, commit, pop and ack, half message and
its end, ...). An act names the values that make sense; which fields a request has at all comes from
RocketMQ's own classes. Each request is then bent with one chance in four: a field missing, empty,
of the wrong type, negative, huge, out of range, or one that the class declares and nobody sent.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from random import Random
from typing import Any

from parity.catalogue import V1_OF_V2, FieldOf, catalogue
from parity.steps import WAIT, Step

BENT = 0.25
BINARY = 0.25

WORDS = ("", " ", "{k4}", "ä", "x" * 300, "null", "{}", "a b", "..", "%RETRY%", "$", "a|b")
NAMES_OF = {
    "topic", "consumerGroup", "producerGroup", "group", "groupName", "originTopic", "srcGroup",
    "destGroup", "compareGroup", "filterGroups",
}  # fmt: skip
NAMES = (
    "", " ", "ä{t9}", "{t9}" + "x" * 300, "{t9}|", "{t9} ", "%RETRY%{g9}", "%DLQ%{g9}", "{t9}$",
    "{t9}/", "{t9}" + "x" * 110, "{t9}.", "{t9}%",
)  # fmt: skip
"""Each its pair's own, for what one pair does to a name must not be seen by another."""
NUMBERS = (
    "", "-1", "0", "1", "7", "abc", "1.5", " 1", "+1", "2147483647", "2147483648", "-2147483648",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "99999", "0x1", "1e3",
)  # fmt: skip
BOOLEANS = ("true", "false", "", "TRUE", "1", "yes", "abc")
SENDS = (
    "SEND_MESSAGE", "SEND_MESSAGE_V2", "SEND_BATCH_MESSAGE", "SEND_REPLY_MESSAGE",
    "SEND_REPLY_MESSAGE_V2",
)  # fmt: skip
UNBENT = {
    *((code, name) for code in SENDS for name in ("sysFlag", "batch", "properties")),
    *((code, "invisibleTime") for code in ("POP_MESSAGE", "CHANGE_MESSAGE_INVISIBLETIME")),
    ("INVOKE_BROKER_TO_RESET_OFFSET", "queueId"), ("INVOKE_BROKER_TO_RESET_OFFSET", "offset"),
    ("VIEW_MESSAGE_BY_ID", "offset"), ("QUERY_SUBSCRIPTION_BY_CONSUMER", "topic"),
    ("CONSUMER_SEND_MSG_BACK", "originTopic"), ("UPDATE_CONSUMER_OFFSET", "queueId"),
    ("DELETE_TOPIC_IN_BROKER", "topic"), ("END_TRANSACTION", "commitOrRollback"),
    *((code, "queueId") for code in ("SEND_REPLY_MESSAGE", "SEND_REPLY_MESSAGE_V2")),
    *((code, "bornTimestamp") for code in ("SEND_REPLY_MESSAGE", "SEND_REPLY_MESSAGE_V2")),
    ("ACK_MESSAGE", "extraInfo"), ("CHANGE_MESSAGE_INVISIBLETIME", "extraInfo"),
    ("POP_MESSAGE", "bornTime"), ("QUERY_CONSUME_QUEUE", "index"),  # which overflow
    ("UPDATE_AND_CREATE_TOPIC", "perm"), ("UPDATE_AND_CREATE_TOPIC", "topicFilterType"),
    ("UNREGISTER_CLIENT", "clientID"),  # without it RocketMQ forgets the producer, then fails
    *(
        (code, name)
        for code in ("PULL_MESSAGE", "LITE_PULL_MESSAGE")
        for name in ("expressionType", "requestSource", "proxyFrowardClientId")
    ),
}  # fmt: skip
"""Bent only in rough sequences: PocketMQ refuses what RocketMQ takes and then stumbles over."""
TYPED = {
    "int": ("-1", "0", "1", "7", "99999", "2147483647", "-2147483648"),
    "long": ("-1", "0", "1", "7", "99999", "9223372036854775807", "-9223372036854775808"),
    "boolean": ("true", "false", "TRUE", "False", "yes", "abc"),
}
"""Values that RocketMQ's decoder reads; of others it logs an error and goes on with null."""
SIZES = {"readQueueNums", "writeQueueNums", "defaultTopicQueueNums", "maxMsgNums", "count", "d"}
"""Numbers that become files, or memory: at most a few."""
SMALL_NUMBERS = ("", "-1", "0", "1", "3", "9", "abc", "1.5", "2147483648")
WAITS = {"pollTime", "suspendTimeoutMillis", "invisibleTime"}
SHORT_WAITS = ("", "-1", "0", "1", "300", "abc")


class Draw:
    """One sequence in the making.

    Attributes:
        names_of, names: fields that hold a name of the pair's own, and what they are bent to.
        unbent: what only rough sequences bend.
    """

    names_of: Set[str] = NAMES_OF
    names: Sequence[str] = NAMES
    unbent: Set[tuple[str, str]] = UNBENT

    def __init__(self, seed: int | str, *, rough: bool = False, bends: bool = True) -> None:
        self.rough = rough
        self.bends = bends
        self.random = Random(seed)
        self.steps: list[Step] = []
        self._label = 0

    # -- small choices ------------------------------------------------------------------------

    def label(self) -> str:
        self._label += 1
        return f"s{self._label}"

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    def one(self, *of: Any) -> Any:
        return self.random.choice(of)

    def topic(self) -> str:
        return str(self.random.choices(["{t0}", "{t1}", "{t2}", "%RETRY%{g0}"], [60, 20, 8, 5])[0])

    def group(self) -> str:
        return self.random.choices(["{g0}", "{g1}", "{g2}"], [70, 20, 8])[0]

    def queue(self) -> str:
        return self.random.choices(["0", "1", "2", "7"], [50, 35, 6, 3])[0]

    # -- steps --------------------------------------------------------------------------------

    def add(self, code: str, body: str | bytes = "", /, **fields: object) -> Step:
        """Append a request; fields that it has not in the catalogue are left out."""
        declared = catalogue().fields(code)
        names = {each.name for each in declared}
        short = {long: name for name, long in V1_OF_V2.items()} if "a" in names else {}
        told = {}
        for name, value in fields.items():
            name = short.get(name, name)
            if name in names or not declared:
                told[name] = str(value)
        binary = catalogue().codes[code] < 0x8000 and self.chance(BINARY)
        step = Step(
            code, told, body, "rocketmq" if binary else "json", self.label(),
            1 if self.chance(0.15) else 0,
        )  # fmt: skip
        if self.chance(BENT) and self.bends:
            step = self.bent(step, declared)
        self.steps.append(step)
        return step

    def change(self, step: Step, **told: Any) -> None:
        """Replace something of the step that was added last."""
        self.steps[-1] = replace(step, **told)

    def bent(self, step: Step, declared: tuple[FieldOf, ...]) -> Step:
        """The request with one field, or its body, as nobody should send it."""
        if self.rough and (not declared or self.chance(0.1)):
            return replace(step, body=self.bent_body(step.body))
        if not declared:
            return step
        if step.fields and self.chance(0.25):
            needed = {each.name for each in declared if each.needed and not self.rough}
            loose = [
                name for name in step.fields
                if name not in needed
                and (self.rough or (step.code, V1_OF_V2.get(name, name)) not in self.unbent)
            ]  # fmt: skip
            return step.without(self.one(*loose)) if loose else step
        each = self.one(*declared)
        long = V1_OF_V2.get(each.name, each.name)
        if each.name == "oway" or (not self.rough and (step.code, long) in self.unbent):
            return step
        drawn_queue = long == "queueId" and step.code.startswith(("SEND", "POP", "PEEK"))
        if long == "maxMsgNums" and step.fields.get("queueId", "").startswith("-"):
            return step  # the broker draws with which queue it begins
        if each.name in ("ns", "nsd", "lo", "bname", "n"):
            values: tuple[str, ...] = ("true", "false", "", "broker-a", "broker-z")
        elif long in SIZES:
            values = SMALL_NUMBERS
        elif long in WAITS:
            values = SHORT_WAITS
        elif long == "delayLevel":
            values = ("", "-1", "0", "1", "18", "19", "abc", "2147483647")
        elif long in self.names_of:
            values = tuple(self.names if self.rough else self.names[1:])
        else:
            values = {"string": WORDS, "enum": WORDS, "boolean": BOOLEANS}.get(each.kind, NUMBERS)
        if not self.rough and long in WAITS:
            values = ("0", "1", "300")
        elif not self.rough:
            values = tuple(
                value for value in TYPED.get(each.kind, values)
                if each.kind not in ("int", "long") or long not in SIZES or value in "017"
            )  # fmt: skip
        if drawn_queue:  # of a negative one the broker draws a queue
            values = tuple(value for value in values if not value.startswith("-"))
        return step.with_field(each.name, self.one(*values))

    def bent_body(self, body: str | bytes) -> str | bytes:
        if isinstance(body, str) and body[:1] in "{[" and body and self.chance(0.7):
            return self.bent_json(body)
        return str(self.one("", "x", "{}", "[]", "null", '{"a":', "0", body[: len(body) // 2]))

    def bent_json(self, body: str) -> str:
        try:
            told = json.loads(body)
        except ValueError:
            return "{}"
        places: list[tuple[Any, Any]] = []

        def gather(value: Any) -> None:
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            for key, each in pairs:
                places.append((value, key))
                if isinstance(each, (dict, list)):
                    gather(each)

        gather(told)
        if places:
            holder, key = self.one(*places)
            if self.chance(0.3):
                del holder[key]
            else:
                holder[key] = self.one(None, "", 0, -1, "abc", True, [], {}, 2**31, "1")
        return json.dumps(told)

    def wait(self, ms: int) -> None:
        self.steps.append(Step(WAIT, {"ms": str(ms)}))

    # -- requests that acts share -------------------------------------------------------------

    def create(self, topic: str, queues: int, **more: object) -> None:
        self.add(
            "UPDATE_AND_CREATE_TOPIC", topic=topic, defaultTopic="TBW102", readQueueNums=queues,
            writeQueueNums=queues, perm=self.one(6, 6, 6, 6, 4, 2, 7), topicFilterType="SINGLE_TAG",
            topicSysFlag=0, order=self.one("false", "false", "true"), **more,
        )  # fmt: skip

    def properties(self, **more: object) -> str:
        told: dict[str, object] = {}
        if not self.rough or self.chance(0.8):  # else each broker makes one
            told["UNIQ_KEY"] = f"UNIQ{self.random.randrange(10**6)}-{{k0}}"
        if self.chance(0.5):
            told["TAGS"] = self.one("A", "B", "C")
        if self.chance(0.4):
            told["KEYS"] = self.one("{k0}", "{k1} {k0}", "{k2}")
        if self.chance(0.3):
            told["WAIT"] = self.one("true", "false")
        if self.chance(0.2):
            told[self.one("a", "user", "__SHARDINGKEY", "CLUSTER", "MSG_REGION")] = self.one(
                "1", "x", ""
            )
        told.update(more)
        return "".join(f"{key}\x01{value}\x02" for key, value in told.items())

    def send(self, topic: str, queue: str, code: str = "", **properties: object) -> Step:
        return self.add(
            code or self.one("SEND_MESSAGE", "SEND_MESSAGE_V2", "SEND_MESSAGE_V2"),
            self.one("hello", "x", "m" * self.one(1, 100, 5000), "{k0}"),
            producerGroup="{p0}", topic=topic, defaultTopic="TBW102", defaultTopicQueueNums=4,
            queueId=queue, sysFlag=properties.pop("sysFlag", 0), bornTimestamp="{now}",
            flag=self.one(0, 0, 7, -3), properties=self.properties(**properties),
            reconsumeTimes=self.one(0, 0, 0, 1, 16, 17), unitMode="false",
            maxReconsumeTimes=self.one(16, 16, 3), batch="false", bname="broker-a",
        )  # fmt: skip

    def pull(self, topic: str, queue: str, offset: object = 0, **more: object) -> Step:
        return self.add(
            self.one("PULL_MESSAGE", "PULL_MESSAGE", "LITE_PULL_MESSAGE"),
            **{
                "consumerGroup": self.group(), "topic": topic, "queueId": queue,
                "queueOffset": offset, "maxMsgNums": self.one(32, 1, 2), "sysFlag": 4,
                "commitOffset": 0, "suspendTimeoutMillis": 0,
                "subscription": self.one("*", "A", "A || B", "A||C"), "subVersion": 0,
                "expressionType": "TAG",
            } | more,
        )  # fmt: skip


# -- acts -----------------------------------------------------------------------------------------


def sends(draw: Draw) -> None:
    """A few messages to one queue."""
    topic, queue = draw.topic(), draw.queue()
    for _ in range(draw.one(1, 2, 3)):
        draw.send(topic, "0" if topic.startswith("%") else queue)


def batches(draw: Draw) -> None:
    """A batch, whole or cut."""
    parts = []
    for number in range(draw.one(1, 2, 3)):
        body = f"part {number}".encode()
        properties = f"UNIQ_KEY\x01b{number}-{draw.random.randrange(10**6)}\x02".encode()
        if draw.chance(0.5):
            properties += f"KEYS\x01b{number}\x02TAGS\x01A\x02".encode()
        rest = struct.pack(">i", 0) + struct.pack(">i", len(body)) + body
        rest += struct.pack(">h", len(properties)) + properties
        crc = zlib.crc32(body) if draw.chance(0.5) else 0
        parts.append(struct.pack(">iiI", 12 + len(rest), 0, crc) + rest)
    data = b"".join(parts)
    if draw.rough and draw.chance(0.15):
        data = data[:-1]
    draw.add(
        "SEND_BATCH_MESSAGE", data, producerGroup="{p0}", topic=draw.topic(),
        defaultTopic="TBW102", defaultTopicQueueNums=4, queueId=draw.queue(), sysFlag=0,
        bornTimestamp="{now}", flag=0, properties=draw.properties() if draw.rough else "",
        reconsumeTimes=0, unitMode="false", maxReconsumeTimes=16, batch="true", bname="broker-a",
    )  # fmt: skip


def pulls(draw: Draw) -> None:
    """From anywhere in a queue, with every flag but that which holds."""
    topic, queue = draw.topic(), draw.queue()
    offset = draw.one(0, 0, 1, 2, -1, 100)
    draw.pull(topic, queue, offset, sysFlag=draw.one(4, 4, 5, 0, 1, 4 + 8, 16 + 4))


def held_pull(draw: Draw) -> None:
    """One that the broker holds for a while."""
    draw.pull(
        "{t0}", draw.queue(), draw.one(0, 5), sysFlag=6, suspendTimeoutMillis=draw.one(1, 300, 1000)
    )


def filtered_pull(draw: Draw) -> None:
    """SQL92, which the default options refuse, and expressions that do not parse."""
    draw.pull(
        "{t0}", "0", 0, expressionType=draw.one("SQL92", "TAG"),
        subscription=draw.one("a = 1", "a >", "*"),
    )  # fmt: skip


def commits(draw: Draw) -> None:
    """Commit and ask back."""
    queue = "0" if not draw.rough else draw.queue()  # a topic may have one alone
    names = {"consumerGroup": draw.group(), "topic": draw.topic(), "queueId": queue}
    draw.add("UPDATE_CONSUMER_OFFSET", **names, commitOffset=draw.one(0, 1, 2, 5, 1000, -1))
    draw.add("QUERY_CONSUMER_OFFSET", **names, setZeroIfNotFound=draw.one("true", "false", "false"))


def asks_offsets(draw: Draw) -> None:
    """Where a queue begins and ends, and what lies at a time."""
    names = {"topic": draw.topic(), "queueId": draw.queue()}
    code = draw.one(
        "GET_MAX_OFFSET", "GET_MIN_OFFSET", "GET_EARLIEST_MSG_STORETIME",
        "SEARCH_OFFSET_BY_TIMESTAMP", "QUERY_CONSUMER_OFFSET",
    )  # fmt: skip
    draw.add(
        code, **names, consumerGroup=draw.group(), committed=draw.one("true", "false"),
        timestamp=draw.one("{now}", "{now-100000}", "{now+100000}", 0, -1),
        boundaryType=draw.one("LOWER", "UPPER", "lower"),
    )  # fmt: skip


def resets(draw: Draw) -> None:
    """Reset a group by time or to an offset."""
    has_none = any(
        step.code == "UPDATE_AND_CREATE_TOPIC" and step.fields.get("readQueueNums") == "0"
        for step in draw.steps
    )
    draw.add(
        "INVOKE_BROKER_TO_RESET_OFFSET", topic="{t0}", group="{g0}",
        # A topic may have one queue alone, or none to read from.
        queueId=draw.one(-1, -1, -1 if has_none else 0), offset=draw.one(-1, -1, 0),
        timestamp=draw.one(0, -1, "{now}", "{now-60000}"), isForce=draw.one("true", "false"),
    )  # fmt: skip
    draw.add("QUERY_CONSUMER_OFFSET", topic="{t0}", consumerGroup="{g0}", queueId=0)


def creates(draw: Draw) -> None:
    """A topic made, changed, or refused."""
    topic = draw.topic()
    attributes = draw.one(
        "", "+message.type=NORMAL", "+message.type=DELAY", "+cleanup.policy=DELETE",
        "-message.type", "+nope=1", "+message.type=FIFO,+queue.type=SimpleCQ",
        "message.type=NORMAL",
    )  # fmt: skip
    more = {"attributes": attributes} if draw.chance(0.4) else {}
    # RocketMQ refuses heartbeats that change the order of such a topic (found.py has one).
    more = {} if topic.startswith("%RETRY%") else more
    draw.create(topic, draw.one(1, 2, 3), **more)
    draw.add("GET_TOPIC_CONFIG", topic=topic)


def topic_config(topic: str, draw: Draw) -> dict[str, Any]:
    """As `CreateTopicListRequestBody` holds them."""
    return {
        "topicName": topic, "readQueueNums": draw.one(1, 2, 3), "writeQueueNums": draw.one(1, 2),
        "perm": draw.one(6, 4, 2), "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0,
        "order": False, "attributes": {},
    }  # fmt: skip


def creates_many(draw: Draw) -> None:
    """A list of topics."""
    known = {step.fields.get("topic", step.fields.get("b", "")) for step in draw.steps}
    free = [name for name in ("{t3}", "{t4}", "{t5}", "{t6}") if name not in known]
    if len(free) < 3:  # RocketMQ makes none of a list in which one is as it was
        return
    names = draw.random.sample(free, draw.one(1, 2, 3))
    body = {"topicConfigList": [topic_config(name, draw) for name in names]}
    draw.add("UPDATE_AND_CREATE_TOPIC_LIST", json.dumps(body))
    draw.add("GET_TOPIC_CONFIG", topic=draw.one(*names))


def deletes(draw: Draw) -> None:
    """A topic and what was in it; then asked for again."""
    topic = draw.topic()
    if any(step.code == "INVOKE_BROKER_TO_RESET_OFFSET" for step in draw.steps):
        return  # RocketMQ keeps the reset of a topic that is gone
    draw.add("DELETE_TOPIC_IN_BROKER", topic=topic)
    draw.add("GET_TOPIC_CONFIG", topic=topic)


def group_config(draw: Draw, group: str) -> dict[str, Any]:
    """As `SubscriptionGroupConfig` is written."""
    told: dict[str, Any] = {
        "groupName": group, "consumeEnable": draw.one(True, True, False),
        "consumeFromMinEnable": draw.one(True, False),
        "consumeBroadcastEnable": draw.one(True, False), "consumeMessageOrderly": False,
        # Of two, which one a message goes to that is sent back is left to chance.
        "retryQueueNums": draw.one(1, 2) if group == "{g2}" else 1,
        "retryMaxTimes": draw.one(16, 2, 0, -1), "brokerId": 0,
        "whichBrokerWhenConsumeSlowly": 1, "notifyConsumerIdsChangedEnable": True,
    }  # fmt: skip
    if draw.chance(0.2):
        told["attributes"] = draw.one({}, {"+priority.factor": "1"}, {"+x": "1"})
    return told


def groups(draw: Draw) -> None:
    """A group made or changed, and read."""
    group = draw.group()
    draw.add("UPDATE_AND_CREATE_SUBSCRIPTIONGROUP", json.dumps(group_config(draw, group)))
    draw.add("GET_SUBSCRIPTIONGROUP_CONFIG", group=group)


def groups_many(draw: Draw) -> None:
    """A list of groups."""
    configs = [group_config(draw, name) for name in ("{g1}", "{g2}")]
    if not draw.rough:  # of a list that cannot be, PocketMQ takes nothing
        configs = [each | {"attributes": {}} for each in configs]
    body = {"groupConfigList": configs}
    draw.add("UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST", json.dumps(body))


def deletes_group(draw: Draw) -> None:
    """A group, with or without its offsets."""
    group = draw.group()
    draw.add("DELETE_SUBSCRIPTIONGROUP", groupName=group, cleanOffset=draw.one("true", "false"))
    draw.add("GET_SUBSCRIPTIONGROUP_CONFIG", group=group)


def not_built(draw: Draw) -> None:
    """Codes that PocketMQ refuses on purpose: of names that nothing else in the sequence has."""
    code = draw.one(
        "UPDATE_AND_GET_GROUP_FORBIDDEN", "CLONE_GROUP_OFFSET", "QUERY_CORRECTION_OFFSET",
        "CHECK_ROCKSDB_CQ_WRITE_PROGRESS", "EXPORT_ROCKSDB_CONFIG_TO_JSON",
        "GET_COLD_DATA_FLOW_CTR_INFO", "UPDATE_AND_CREATE_STATIC_TOPIC",
    )  # fmt: skip
    fields = {
        "group": "{g8}", "topic": "{t8}", "readable": "true", "srcGroup": "{g8}",
        "destGroup": "{g7}", "offline": "true", "compareGroup": "{g8}",
        "filterGroups": "", "configType": "topics",
    }  # fmt: skip
    declared = {each.name for each in catalogue().fields(code)}
    fields = {name: value for name, value in fields.items() if name in declared}
    draw.steps.append(Step(code, fields, label=draw.label()))


def heartbeat(draw: Draw, group: str, topic: str, client: str = "{c0}") -> None:
    """A consumer, and a producer with it."""
    subscription = {
        "topic": topic, "subString": draw.one("*", "A"), "tagsSet": [], "codeSet": [],
        "subVersion": 1, "classFilterMode": False, "expressionType": "TAG",
    }  # fmt: skip
    body = {
        "clientID": client,
        "producerDataSet": [{"groupName": "{p0}"}] if draw.chance(0.5) else [],
        "consumerDataSet": [
            {
                "groupName": group, "consumeType": draw.one("CONSUME_PASSIVELY", "CONSUME_POP"),
                "messageModel": draw.one("CLUSTERING", "CLUSTERING", "BROADCASTING"),
                "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                "subscriptionDataSet": [subscription], "unitMode": False,
            }
        ],
        "heartbeatFingerprint": 0, "isWithoutSub": False,
    }  # fmt: skip
    draw.add("HEART_BEAT", json.dumps(body))


def lives(draw: Draw) -> None:
    """A consumer comes, is seen, and goes."""
    group, topic = draw.one("{g0}", "{g0}", "{g1}"), draw.one("{t0}", "{t0}", "{t1}")
    heartbeat(draw, group, topic)
    for _ in range(draw.one(1, 2)):
        code = draw.one(
            "GET_CONSUMER_LIST_BY_GROUP", "GET_CONSUMER_CONNECTION_LIST",
            "GET_PRODUCER_CONNECTION_LIST", "QUERY_SUBSCRIPTION_BY_CONSUMER",
            "GET_CONSUME_STATS", "QUERY_TOPIC_CONSUME_BY_WHO", "QUERY_TOPICS_BY_CONSUMER",
            "QUERY_CONSUME_TIME_SPAN",
        )  # fmt: skip
        draw.add(
            code, consumerGroup=group, group=group, producerGroup="{p0}", topic=topic,
            compareGroup=group, filterGroups=draw.one("", "{g1}"), isOrder="false",
        )  # fmt: skip
    if draw.chance(0.6):
        draw.add("UNREGISTER_CLIENT", clientID="{c0}", consumerGroup=group, producerGroup="{p0}")


def views(draw: Draw) -> None:
    """What tools ask."""
    code = draw.one(
        "GET_TOPIC_CONFIG", "GET_TOPIC_STATS_INFO", "GET_ALL_TOPIC_CONFIG",
        "GET_SUBSCRIPTIONGROUP_CONFIG", "GET_ALL_SUBSCRIPTIONGROUP_CONFIG",
        "GET_ALL_CONSUMER_OFFSET", "GET_CONSUME_STATS", "QUERY_TOPIC_CONSUME_BY_WHO",
        "QUERY_TOPICS_BY_CONSUMER", "QUERY_CONSUME_TIME_SPAN", "QUERY_CONSUME_QUEUE",
        "GET_SYSTEM_TOPIC_LIST_FROM_BROKER", "VIEW_BROKER_STATS_DATA",
        "GET_CONSUMER_LIST_BY_GROUP", "GET_CONSUMER_CONNECTION_LIST",
        "GET_PRODUCER_CONNECTION_LIST", "QUERY_SUBSCRIPTION_BY_CONSUMER", "POLLING_INFO",
        "GET_CONSUMER_RUNNING_INFO", "INVOKE_BROKER_TO_GET_CONSUMER_STATUS",
        "CONSUME_MESSAGE_DIRECTLY", "RESUME_CHECK_HALF_MESSAGE", "CHECK_CLIENT_CONFIG",
        "GET_ALL_MESSAGE_REQUEST_MODE",
    )  # fmt: skip
    group, topic = draw.group(), draw.topic()
    draw.add(
        code, consumerGroup=group, group=group, producerGroup="{p0}", topic=topic,
        queueId=draw.queue(), index=draw.one(0, 1, -1, 100), count=draw.one(1, 10, 0),
        compareGroup=group, filterGroups="", statsName=draw.one("TOPIC_PUT_NUMS", "nope"),
        statsKey=topic, clientId="{c0}", jstackEnable="false", clientAddr="",
        msgId="", brokerName="broker-a",
    )  # fmt: skip


def locks(draw: Draw) -> None:
    """Queues locked by one client, asked for by another."""
    for _ in range(draw.one(1, 2)):
        queues = [
            {"topic": "{t0}", "brokerName": draw.one("broker-a", "broker-z"), "queueId": queue}
            for queue in draw.random.sample([0, 1, 9], draw.one(1, 2))
        ]
        body = {
            "consumerGroup": "{g0}", "clientId": draw.one("{c0}", "{c1}"), "onlyThisBroker": True,
            "mqSet": queues,
        }  # fmt: skip
        draw.add(draw.one("LOCK_BATCH_MQ", "LOCK_BATCH_MQ", "UNLOCK_BATCH_MQ"), json.dumps(body))


def finds(draw: Draw) -> None:
    """By key and by place."""
    sent = draw.send("{t0}", "0", KEYS="{k3}")
    draw.add(
        "QUERY_MESSAGE", topic="{t0}", key=draw.one("{k3}", "{k0}", "nope"),
        maxNum=draw.one(32, 1, 0), beginTimestamp=draw.one(0, "{now-60000}"),
        endTimestamp=draw.one("{now+600000}", "9223372036854775807", 0),
    )  # fmt: skip
    draw.add(
        "VIEW_MESSAGE_BY_ID", topic="{t0}",
        offset=draw.one(f"{{{sent.label}.physical}}", f"{{{sent.label}.physical}}", -1),
    )  # fmt: skip


def pops(draw: Draw) -> None:
    """Pop, and what a client does with it.

    Nothing becomes visible again within a sequence: when is a matter of each broker's rounds.
    """
    topic = draw.one("{t0}", "{t0}", "{t1}")
    queue = draw.one("0", "1", "-1", "0")
    order = draw.one("false", "false", "true")
    draw.send(topic, "0" if queue == "-1" else queue)
    pop = draw.add(
        "POP_MESSAGE", consumerGroup="{g0}", topic=topic, queueId=queue,
        # With which of all queues a broker begins is left to chance, so all is asked for.
        maxMsgNums=32 if queue == "-1" else draw.one(1, 8, 32),
        invisibleTime=draw.one(120_000, 60_000), pollTime=0,
        bornTime="{clock+5000}", initMode=draw.one(0, 1),
        exp=draw.one("*", "A") if draw.rough else "*",
        expType="TAG",
        order=order,
    )  # fmt: skip
    label = pop.label
    names = {
        "consumerGroup": "{g0}", "topic": topic, "queueId": f"{{{label}.msg0.queueId}}",
        "offset": f"{{{label}.msg0.queueOffset}}", "extraInfo": f"{{{label}.ck0}}",
    }  # fmt: skip
    match draw.one("ack", "ack", "change", "both", "batch", "none", "again"):
        case "ack":
            draw.add("ACK_MESSAGE", **names)
        case "change":
            draw.add(
                "CHANGE_MESSAGE_INVISIBLETIME", **names, invisibleTime=draw.one(90_000, 30_000)
            )
        case "both":
            draw.add("CHANGE_MESSAGE_INVISIBLETIME", **names, invisibleTime=20_000)
            draw.add("ACK_MESSAGE", **names)
        case "batch":
            ack = {
                "c": "{g0}", "t": topic, "rt": "0", "so": 0, "q": 0, "rq": 0, "pt": "{now}",
                "it": 60000, "bn": "broker-a", "b": [1],
            }  # fmt: skip
            body = {"brokerName": "broker-a", "acks": [ack]}
            draw.add("BATCH_ACK_MESSAGE", json.dumps(body))
        case "again":
            draw.add(
                "POP_MESSAGE", consumerGroup="{g0}", topic=topic, queueId=queue, maxMsgNums=32,
                invisibleTime=60_000, pollTime=0, bornTime="{clock+5000}", initMode=0, exp="*",
                expType="TAG", order=order,
            )  # fmt: skip
        case _:
            pass


def peeks(draw: Draw) -> None:
    """Pop's readers."""
    code = draw.one("PEEK_MESSAGE", "NOTIFICATION", "POLLING_INFO")
    queue = draw.one("0", "-1", "1")
    draw.add(
        code, consumerGroup="{g0}", topic=draw.one("{t0}", "{t1}"), queueId=queue,
        maxMsgNums=32 if queue == "-1" else draw.one(1, 32), pollTime=0,
        bornTime="{clock+5000}", order="false",
    )  # fmt: skip


def assigns(draw: Draw) -> None:
    """How queues are handed out, and who gets which."""
    if draw.chance(0.5):
        body = {
            "topic": "{t0}", "consumerGroup": "{g0}", "mode": draw.one("POP", "PULL"),
            "popShareQueueNum": draw.one(0, 1, -1),
        }  # fmt: skip
        draw.add("SET_MESSAGE_REQUEST_MODE", json.dumps(body))
    heartbeat(draw, "{g0}", "{t0}")
    made = [step for step in draw.steps if step.code == "UPDATE_AND_CREATE_TOPIC"]
    if sum(step.fields.get("topic") in ("{t0}", "{t2}") for step in made) > 1:
        # RocketMQ's broker asks its nameserver for the route, and that overlooks a changed topic
        # where two registrations of one version come one after the other, as those of two pairs.
        return
    body = {
        "topic": draw.one("{t0}", "{t0}", "{t2}"), "consumerGroup": "{g0}", "clientId": "{c0}",
        "strategyName": draw.one("AVG", "AVG_BY_CIRCLE", "NOPE"), "messageModel": "CLUSTERING",
    }  # fmt: skip
    draw.add("QUERY_ASSIGNMENT", json.dumps(body))


def transactions(draw: Draw) -> None:
    """A half message and its end."""
    key = f"TX{len(draw.steps)}-{{k0}}"
    half = draw.send("{t0}", "0", TRAN_MSG="true", PGROUP="{p0}", UNIQ_KEY=key, sysFlag=4)
    label = half.label
    draw.add(
        "END_TRANSACTION", producerGroup=draw.one("{p0}", "{p0}", "{p1}"), topic="{t0}",
        tranStateTableOffset=f"{{{label}.ext.queueOffset}}",
        commitLogOffset=f"{{{label}.physical}}", commitOrRollback=draw.one(8, 8, 12, 0, 4),
        fromTransactionCheck="false", msgId=key,
        transactionId=draw.one(key, ""),
    )  # fmt: skip


def sends_back(draw: Draw) -> None:
    """A message that was not consumed; the first level is over in a second."""
    sent = draw.send("{t0}", "0")
    draw.add(
        "CONSUMER_SEND_MSG_BACK", group=draw.one("{g0}", "{g0}", "{g1}"),
        offset=f"{{{sent.label}.physical}}", delayLevel=draw.one(1, 0, -1, 3), originMsgId="x",
        originTopic="{t0}", unitMode="false", maxReconsumeTimes=draw.one(16, 1),
    )  # fmt: skip


def delays(draw: Draw) -> None:
    """A short level, waited for."""
    draw.send("{t0}", "0", DELAY=draw.one(1, 1, 0, -1, 99))
    if draw.chance(0.5):
        draw.wait(1600)


def timers(draw: Draw) -> None:
    """A timer message, which may be recalled."""
    name, value = draw.one(
        ("TIMER_DELAY_SEC", "1"), ("TIMER_DELAY_MS", "500"), ("TIMER_DELIVER_MS", "{clock+1500}"),
        ("TIMER_DELIVER_MS", "{now-5000}"), ("TIMER_DELAY_SEC", "9999999"), ("TIMER_DELAY_MS", "x"),
        ("TIMER_DELIVER_MS", "{now+60000}"),
    )  # fmt: skip
    sent = draw.send("{t0}", "0", **{name: value})
    if draw.chance(0.4):
        draw.add(
            "RECALL_MESSAGE", producerGroup="{p0}", topic="{t0}",
            recallHandle=f"{{{sent.label}.ext.recallHandle}}",
        )  # fmt: skip
    if draw.chance(0.4):
        draw.wait(2600)


def replies(draw: Draw) -> None:
    """A reply to a requester that is not there."""
    draw.send(
        "DefaultCluster_REPLY_TOPIC", "0", draw.one("SEND_REPLY_MESSAGE", "SEND_REPLY_MESSAGE_V2"),
        REPLY_TO_CLIENT="nobody", CORRELATION_ID="{k0}",
    )  # fmt: skip


def anything(draw: Draw) -> None:
    """Any code of the catalogue that a broker may be asked, its fields by their type."""
    code = draw.one(*HARMLESS)
    told: dict[str, object] = {}
    for each in catalogue().fields(code):
        if each.needed or draw.chance(0.3):
            told[each.name] = draw.one("0", "{t0}", "{g0}")
    draw.add(code, **told)


HARMLESS = (
    "GET_ALL_PRODUCER_INFO",
    "GET_BROKER_EPOCH_CACHE", "QUERY_BROKER_OFFSET",
    "GET_CLIENT_CONFIG", "GET_TOPIC_NAME_LIST", "SUSPEND_CONSUMER", "GET_ROUTEINFO_BY_TOPIC",
    "GET_BROKER_CLUSTER_INFO", "CONTROLLER_GET_METADATA_INFO",
    "PUT_KV_CONFIG", "REGISTER_BROKER", "CHECK_TRANSACTION_STATE",
    "NOTIFY_CONSUMER_IDS_CHANGED", "PUSH_REPLY_MESSAGE_TO_CLIENT",
)  # fmt: skip
"""Asked of any broker, these change nothing for the other pairs."""

ACTS: tuple[tuple[Callable[[Draw], None], int], ...] = (
    (sends, 10), (batches, 4), (pulls, 8), (held_pull, 1), (filtered_pull, 2), (commits, 6),
    (asks_offsets, 6), (resets, 4), (creates, 5), (creates_many, 2), (deletes, 2), (groups, 4),
    (groups_many, 2), (deletes_group, 2), (not_built, 1), (lives, 4), (views, 8),
    (locks, 3), (finds, 4), (pops, 8), (peeks, 3), (assigns, 3), (transactions, 5),
    (sends_back, 4), (delays, 2), (timers, 2), (replies, 2), (anything, 3),
)  # fmt: skip


def drawn(seed: int | str, *, rough: bool = False, bends: bool = True) -> list[Step]:
    """The sequence of a seed: the same wherever it is drawn.

    Args:
        rough: also fields and bodies that RocketMQ's own decoders cannot read.
        bends: fields are bent at all.
    """
    draw = Draw(seed, rough=rough, bends=bends)
    draw.create("{t0}", 2)
    if draw.chance(0.3):
        draw.create("{t1}", 2)
    if draw.chance(0.4):
        groups(draw)
    acts, weights = zip(*ACTS, strict=True)
    for _ in range(draw.random.randint(3, 9)):
        draw.random.choices(acts, weights)[0](draw)
    return draw.steps


def state() -> list[Step]:
    """What is asked of both after every sequence: tables, offsets, and what the queues hold."""
    steps = []
    for topic in ("{t0}", "{t1}", "%RETRY%{g0}"):
        steps.append(Step("GET_TOPIC_CONFIG", {"topic": topic}))
        steps.append(Step("GET_TOPIC_STATS_INFO", {"topic": topic}))
        for queue in ("0", "1"):
            steps.append(
                Step(
                    "QUERY_CONSUMER_OFFSET",
                    {"topic": topic, "queueId": queue, "consumerGroup": "{g0}"},
                )
            )
            pull = {
                "consumerGroup": "{x0}", "topic": topic, "queueId": queue, "queueOffset": "0",
                "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0",
                "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
            }  # fmt: skip
            steps.append(Step("PULL_MESSAGE", pull))
    for group in ("{g0}", "{g1}"):
        steps.append(Step("GET_SUBSCRIPTIONGROUP_CONFIG", {"group": group}))
        steps.append(Step("GET_CONSUME_STATS", {"consumerGroup": group}))
    return steps
