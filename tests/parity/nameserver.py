"""Sequences for nameservers: brokers that register, change and go, and what is asked of the routes.

Each pair has clusters, brokers and topics of its own, so thousands share two nameservers. Addresses
are names that nobody resolves: a nameserver only hands them out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence, Set
from typing import Any

from parity.drawing import Draw
from parity.steps import CLOSE, Step

VERSION_4_9_3 = 399
"""One below the first that reads routes as standard JSON; those tell no mappings of queues."""

CLUSTERS = ("{x0}", "{x1}")
BROKERS = ("{b0}", "{b0}", "{b0}", "{b1}", "{b2}")
SYS_FLAGS = {"{t0}": 0, "{t1}": 0, "{t2}": 1, "{t3}": 2, "{t4}": 3}
"""Of a topic's brokers one decides, and which is the first is a matter of a hash map.

Compressed registrations tell none."""
TOPICS = tuple(SYS_FLAGS)


class NameserverDraw(Draw):
    """One sequence of them in the making."""

    names_of: Set[str] = frozenset({
        "clusterName", "brokerName", "brokerAddr", "topic", "cluster", "namespace", "key",
    })  # fmt: skip
    names: Sequence[str] = (
        "", "ä{k9}", "{b9}" + "x" * 100, "{b9}|", " {b9}", "{b0}.0:10911", "{t0}", "{x0}",
    )  # fmt: skip
    unbent: Set[tuple[str, str]] = frozenset({
        # A broker that is silent for so long is gone when the next scan comes.
        ("REGISTER_BROKER", "heartbeatTimeoutMillis"),
        # A broker in two clusters: see `a-broker-in-two-clusters-that-goes`.
        ("REGISTER_BROKER", "clusterName"), ("UNREGISTER_BROKER", "clusterName"),
        # An empty text in a binary header is null for RocketMQ, and a value may be null.
        ("PUT_KV_CONFIG", "value"),
    })  # fmt: skip

    def broker(self) -> dict[str, str]:
        """Who it is, as most headers name it."""
        name, number = self.one(*BROKERS), self.one(0, 0, 0, 1, 2)
        return {
            # RocketMQ keeps a broker that was in two clusters in the list of one of them.
            "clusterName": "{x1}" if name == "{b2}" else "{x0}",
            "brokerName": name, "brokerId": str(number),
            "brokerAddr": f"{name}.{self.one(number, number, number, 0, 1)}:10911",
        }  # fmt: skip

    def version(self) -> dict[str, int]:
        """Of a broker's topics."""
        return {
            "timestamp": self.one(1, 1, 2), "counter": self.one(0, 1, 1, 2),
            "stateVersion": self.one(0, 0, 0, 1),
        }  # fmt: skip


def registers(draw: NameserverDraw) -> None:
    """A broker with its topics: as JSON, as brokers compress it, or only that it is there."""
    broker = draw.broker()
    names = draw.random.sample(TOPICS, draw.one(0, 1, 2, 2, 3, 4))
    topics = {
        name: {
            "topicName": name, "readQueueNums": draw.one(1, 4, 8), "writeQueueNums": draw.one(1, 4),
            "perm": draw.one(6, 6, 6, 4, 2, 7, 0), "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": SYS_FLAGS[name], "order": draw.one(False, False, True),
            "attributes": draw.one({}, {}, {"+message.type": "NORMAL"}),
        }
        for name in names
    }  # fmt: skip
    body: dict[str, Any] = {
        "topicConfigSerializeWrapper": {
            "topicConfigTable": topics, "dataVersion": draw.version(),
            "topicQueueMappingInfoMap": {}, "topicQueueMappingDetailMap": {},
        },
        "filterServerList": draw.one([], [], [broker["brokerName"] + ".f:1"]),
    }  # fmt: skip
    packed = draw.chance(0.6) and not any(SYS_FLAGS[name] for name in names)
    told: dict[str, object] = {
        **broker, "haServerAddr": broker["brokerName"] + ".ha:10912",
        "compressed": "true" if packed else "false", "bodyCrc32": draw.one("{crc}", "{crc}", 0, 7),
    }  # fmt: skip
    if draw.chance(0.6):
        told["enableActingMaster"] = draw.one("true", "false")
    if draw.chance(0.3):
        told["heartbeatTimeoutMillis"] = 600_000
    text = "" if draw.chance(0.1) else json.dumps(body)
    step = draw.add("REGISTER_BROKER", text, **told)
    more = {"__ZONE_NAME": "z"} if draw.chance(0.2) else {}
    draw.change(step, fields={**step.fields, **more}, packed=packed and bool(text))


def goes(draw: NameserverDraw) -> None:
    """A broker that unregisters."""
    draw.add("UNREGISTER_BROKER", **draw.broker())


def closes(draw: NameserverDraw) -> None:
    """A connection ends, and with it the broker that registered over it.

    RocketMQ lets one broker of a connection go, so no connection is closed that has more.
    """
    connection = draw.one(0, 1)
    told = [step for step in draw.steps if step.code == "REGISTER_BROKER"]
    over_it = {step.fields.get("brokerAddr") for step in told if step.connection == connection}
    if len(over_it) > 1:
        return
    draw.steps.append(Step(CLOSE, connection=connection))
    draw.wait(300)


def lives(draw: NameserverDraw) -> None:
    """Signs of life, and whether its topics are known."""
    code = draw.one("BROKER_HEARTBEAT", "QUERY_DATA_VERSION", "QUERY_DATA_VERSION")
    body = json.dumps(draw.version()) if code == "QUERY_DATA_VERSION" else ""
    draw.add(code, body, **draw.broker())


def routes(draw: NameserverDraw) -> None:
    """A topic's route, also as clients before 4.9.4 read it."""
    step = draw.add(
        "GET_ROUTEINFO_BY_TOPIC", topic=draw.one(*TOPICS),
        acceptStandardJsonOnly=draw.one("true", "false"),
    )  # fmt: skip
    if draw.chance(0.3):
        draw.change(step, version=VERSION_4_9_3)


def lists(draw: NameserverDraw) -> None:
    """Tables of all."""
    draw.add(
        draw.one(
            "GET_BROKER_CLUSTER_INFO", "GET_BROKER_MEMBER_GROUP", "GET_TOPICS_BY_CLUSTER",
            "GET_ALL_TOPIC_LIST_FROM_NAMESERVER", "GET_SYSTEM_TOPIC_LIST_FROM_NS",
            "GET_UNIT_TOPIC_LIST", "GET_HAS_UNIT_SUB_TOPIC_LIST",
            "GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST",
        ),
        **draw.broker(), cluster=draw.one(*CLUSTERS),
    )  # fmt: skip


def permissions(draw: NameserverDraw) -> None:
    """Write permission taken from a broker, or given."""
    code = draw.one("WIPE_WRITE_PERM_OF_BROKER", "ADD_WRITE_PERM_OF_BROKER")
    draw.add(code, brokerName=draw.one(*BROKERS))


def topics_by_hand(draw: NameserverDraw) -> None:
    """A topic's queues entered, or taken away, by request."""
    topic = draw.one(*TOPICS)
    if draw.chance(0.5):
        told = {"clusterName": draw.one(*CLUSTERS)} if draw.chance(0.5) else {}
        draw.add("DELETE_TOPIC_IN_NAMESRV", topic=topic, **told)
        return
    queues = [
        {
            "brokerName": name, "readQueueNums": draw.one(1, 4), "writeQueueNums": draw.one(1, 4),
            "perm": draw.one(6, 4), "topicSysFlag": SYS_FLAGS[topic],
        }
        for name in draw.random.sample(("{b0}", "{b1}", "{b2}"), draw.one(0, 1, 2))
    ]  # fmt: skip
    body = {"queueDatas": queues, "brokerDatas": [], "filterServerTable": {}}
    draw.add("REGISTER_TOPIC_IN_NAMESRV", json.dumps(body), topic=topic)


def pairs_of_keys(draw: NameserverDraw) -> None:
    """Keys and values, also those that routes tell."""
    names = {
        "namespace": draw.one("{k0}", "{k0}", "{k1}", "ORDER_TOPIC_CONFIG"),
        "key": draw.one("{t0}", "{t1}", "{k2}"),
    }
    code = draw.one("PUT_KV_CONFIG", "PUT_KV_CONFIG", "DELETE_KV_CONFIG", "GET_KV_CONFIG")
    draw.add(code, **names, value=draw.one("{b0}:4", "x;y", "ä"))
    draw.add(draw.one("GET_KV_CONFIG", "GET_KVLIST_BY_NAMESPACE"), **names)


def options(draw: NameserverDraw) -> None:
    """Options, but for those that change the answers to other pairs."""
    if draw.chance(0.4):
        draw.steps.append(Step("GET_NAMESRV_CONFIG", label=draw.label()))
        return
    text = draw.one(
        "", "configStorePath=/tmp/x", "kvConfigPath=x\nenableTopicList=true", "rocketmqHome=x",
        "configBlackList=x", "enableTopicList=true", "enableAllTopicList=true\n", "# nothing",
        "returnOrderTopicConfigToBroker=true",
    )  # fmt: skip
    draw.steps.append(Step("UPDATE_NAMESRV_CONFIG", body=text, label=draw.label()))


def not_for_it(draw: NameserverDraw) -> None:
    """What a broker is asked."""
    draw.add(draw.one("SEND_MESSAGE", "GET_MAX_OFFSET", "GET_TOPIC_CONFIG", "HEART_BEAT"))


ACTS: tuple[tuple[Callable[[NameserverDraw], None], int], ...] = (
    (registers, 14), (goes, 5), (closes, 1), (lives, 5), (routes, 6), (lists, 6), (permissions, 4),
    (topics_by_hand, 6), (pairs_of_keys, 5), (options, 1), (not_for_it, 1),
)  # fmt: skip


def drawn(seed: int | str, *, rough: bool = False, bends: bool = True) -> list[Step]:
    """The sequence of a seed, as `drawing.drawn` does for brokers."""
    draw = NameserverDraw(seed, rough=rough, bends=bends)
    registers(draw)
    acts, weights = zip(*ACTS, strict=True)
    for _ in range(draw.random.randint(3, 12)):
        draw.random.choices(acts, weights)[0](draw)
    return draw.steps


def state() -> list[Step]:
    """Routes, groups, lists and keys."""
    steps = [Step("GET_ROUTEINFO_BY_TOPIC", {"topic": topic}) for topic in TOPICS]
    for broker in ("{b0}", "{b1}", "{b2}"):
        names = {"clusterName": "{x0}", "brokerName": broker}
        steps.append(Step("GET_BROKER_MEMBER_GROUP", names))
        version = '{"timestamp":1,"counter":1,"stateVersion":0}'
        for number in ("0", "1"):
            address = {"brokerId": number, "brokerAddr": f"{broker}.{number}:10911"}
            steps.append(Step("QUERY_DATA_VERSION", names | address, version))
    tables = (
        "GET_BROKER_CLUSTER_INFO", "GET_ALL_TOPIC_LIST_FROM_NAMESERVER",
        "GET_SYSTEM_TOPIC_LIST_FROM_NS", "GET_UNIT_TOPIC_LIST", "GET_HAS_UNIT_SUB_TOPIC_LIST",
        "GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST",
    )  # fmt: skip
    spaces = ("{k0}", "{k1}", "ORDER_TOPIC_CONFIG")
    return [
        *steps,
        *(Step(code) for code in tables),
        *(Step("GET_TOPICS_BY_CLUSTER", {"cluster": each}) for each in ("{x0}", "{x1}")),
        *(Step("GET_KVLIST_BY_NAMESPACE", {"namespace": each}) for each in spaces),
    ]
