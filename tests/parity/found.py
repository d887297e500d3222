"""Sequences that once found something, and those that show what the ledger says.

`parity.steps.source` prints a sequence as it is pasted here.
"""

from __future__ import annotations

import json
from typing import Any

from parity.steps import Step


def create(topic: str = "{t0}", **fields: object) -> Step:
    """A topic with two queues."""
    told: dict[str, Any] = {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": 2, "writeQueueNums": 2,
        "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false",
    }  # fmt: skip
    return Step("UPDATE_AND_CREATE_TOPIC", _texts(told | fields))


def send(body: str = "hello", label: str = "", **fields: object) -> Step:
    """A message to queue 0 of `{t0}`."""
    told: dict[str, Any] = {
        "producerGroup": "{p0}", "topic": "{t0}", "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 4, "queueId": 0, "sysFlag": 0, "bornTimestamp": "{now}", "flag": 0,
        "properties": "UNIQ_KEY\x01U-{k0}\x02", "reconsumeTimes": 0,
    }  # fmt: skip
    return Step("SEND_MESSAGE", _texts(told | fields), body, label=label)


def reply(topic: str, **fields: object) -> Step:
    """A reply to a requester that is not there."""
    told: dict[str, Any] = {
        "topic": topic, "properties": "REPLY_TO_CLIENT\x01nobody\x02UNIQ_KEY\x01U-{k0}\x02",
    }  # fmt: skip
    return Step("SEND_REPLY_MESSAGE", {**send().fields, **_texts(told | fields)}, "42")


def pull(**fields: object) -> Step:
    """From the beginning of queue 0 of `{t0}`."""
    told: dict[str, Any] = {
        "consumerGroup": "{g0}", "topic": "{t0}", "queueId": 0, "queueOffset": 0, "maxMsgNums": 32,
        "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*",
        "subVersion": 0, "expressionType": "TAG",
    }  # fmt: skip
    return Step("PULL_MESSAGE", _texts(told | fields))


def pop(**fields: object) -> Step:
    """From queue 0 of `{t0}`."""
    told: dict[str, Any] = {
        "consumerGroup": "{g0}", "topic": "{t0}", "queueId": 0, "maxMsgNums": 8,
        "invisibleTime": 60_000, "pollTime": 0, "bornTime": "{clock+5000}", "initMode": 0,
        "exp": "*", "expType": "TAG", "order": "false",
    }  # fmt: skip
    return Step("POP_MESSAGE", _texts(told | fields), label="pop")


def group(name: str = "{g0}", **more: object) -> Step:
    """A group with RocketMQ's defaults."""
    return Step("UPDATE_AND_CREATE_SUBSCRIPTIONGROUP", body=json.dumps({"groupName": name} | more))


def heartbeat(topic: str = "{t0}", name: str = "{g0}") -> Step:
    """One consumer."""
    subscription = {
        "topic": topic, "subString": "*", "tagsSet": [], "codeSet": [], "subVersion": 1,
        "classFilterMode": False, "expressionType": "TAG",
    }  # fmt: skip
    consumer = {
        "groupName": name, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": [subscription],
        "unitMode": False,
    }  # fmt: skip
    body = {
        "clientID": "{c0}", "producerDataSet": [], "consumerDataSet": [consumer],
        "heartbeatFingerprint": 0, "isWithoutSub": False,
    }  # fmt: skip
    return Step("HEART_BEAT", body=json.dumps(body))


def _texts(told: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in told.items()}


ASK_GROUP = Step("GET_SUBSCRIPTIONGROUP_CONFIG", {"group": "{g0}"})

MENDED: dict[str, list[Step]] = {
    "an-unknown-group-is-made-by-who-asks-for-it": [ASK_GROUP],
    "a-group-has-a-retry-policy": [group(retryMaxTimes=3), ASK_GROUP],
    "a-refused-pull-tells-who-forbids": [
        create(perm=2), pull(), create("{t1}"), group(consumeEnable=False), pull(topic="{t1}"),
    ],
    "a-refused-send-tells-region-and-trace": [create(perm=4), send()],
    "a-refused-peek-tells-numbers": [
        Step("PEEK_MESSAGE", {
            "consumerGroup": "{g0}", "topic": "{t0}", "queueId": "0", "maxMsgNums": "1",
        }),
        Step("NOTIFICATION", {
            "consumerGroup": "{g0}", "topic": "{t0}", "queueId": "0", "pollTime": "0",
            "bornTime": "{clock+5000}",
        }),
        Step("POLLING_INFO", {"consumerGroup": "{g0}", "topic": "{t0}", "queueId": "0"}),
    ],
    "a-peek-takes-nothing-from-the-rest": [
        create(), send(),
        Step("PEEK_MESSAGE", {
            "consumerGroup": "{g0}", "topic": "{t0}", "queueId": "0", "maxMsgNums": "1",
        }),
    ],
    "an-attribute-that-is-not-known-is-1": [
        create(attributes="+nope=1"), create(), create(attributes="-message.type"),
        create(attributes="+queue.type=SimpleCQ"), Step("GET_TOPIC_CONFIG", {"topic": "{t0}"}),
    ],
    "a-boolean-that-is-not-true-is-false": [create(), Step("GET_TOPIC_CONFIG", {
        "topic": "{t0}", "lo": "broker-z",
    })],
    "nothing-to-check-is-fine": [Step("CHECK_CLIENT_CONFIG")],
    "a-reset-to-offset-minus-1-goes-by-time": [
        create(), group(), send(),
        Step("INVOKE_BROKER_TO_RESET_OFFSET", {
            "topic": "{t0}", "group": "{g0}", "queueId": "0", "offset": "-1", "timestamp": "-1",
            "isForce": "true",
        }),
        Step("QUERY_CONSUMER_OFFSET", {"topic": "{t0}", "consumerGroup": "{g0}", "queueId": "0"}),
    ],
    "a-retry-topic-is-ordered-as-its-last-heartbeat": [
        create(order="true"), heartbeat(), Step("GET_TOPIC_CONFIG", {"topic": "%RETRY%{g0}"}),
        create("{t1}"), heartbeat("{t1}"), Step("GET_TOPIC_CONFIG", {"topic": "%RETRY%{g0}"}),
    ],
    "system-topics-are-listed-before-they-are-made": [Step("GET_SYSTEM_TOPIC_LIST_FROM_BROKER")],
    "a-reset-of-a-topic-without-queues-is-1": [
        create(readQueueNums=0), group(),
        Step("INVOKE_BROKER_TO_RESET_OFFSET", {
            "topic": "{t0}", "group": "{g0}", "queueId": "-1", "timestamp": "{now}",
            "isForce": "true",
        }),
    ],
    "a-retry-topic-that-a-unit-sends-to-has-subscriptions-of-units": [
        send(topic="%RETRY%{g0}", unitMode="true"), send(topic="{t1}", unitMode="true"),
        Step("GET_TOPIC_CONFIG", {"topic": "%RETRY%{g0}"}),
        Step("GET_TOPIC_CONFIG", {"topic": "{t1}"}),
    ],
    "a-reply-is-checked-as-a-send": [
        reply("{t9}."), reply("{t9}%"), Step("GET_TOPIC_CONFIG", {"topic": "{t9}%"}),
        reply("SCHEDULE_TOPIC_XXXX"), reply("{t8}", defaultTopic="none"),
        create("{t1}", perm=4), reply("{t1}"), reply("{t1}", queueId=2),
    ],
    "the-largest-number-of-deliveries-is-not-the-last": [
        create(), group(), send("hello", "s", reconsumeTimes=2**31 - 1),
        Step("CONSUMER_SEND_MSG_BACK", {
            "group": "{g0}", "offset": "{s.physical}", "delayLevel": "-1", "originMsgId": "x",
            "originTopic": "{t0}", "unitMode": "false", "maxReconsumeTimes": "16",
        }),
        pull(topic="%DLQ%{g0}"),
    ],
    "the-revive-topic-has-the-queues-of-its-option": [Step("GET_ALL_TOPIC_CONFIG")],
    "min-offset": [create(), Step("GET_MIN_OFFSET", {"topic": "{t0}", "queueId": "0"})],
    "blank-sql-of-a-pull": [
        create(), Step("LITE_PULL_MESSAGE", pull(subscription=" ", expressionType="SQL92").fields),
    ],
}  # fmt: skip
"""Each failed before something in PocketMQ was mended; none may differ but as the ledger says."""

STAYS: dict[str, list[Step]] = {
    "group-made-again-soon": [
        create(), send(), pop(order="true"),
        Step("ACK_MESSAGE", {
            "consumerGroup": "{g0}", "topic": "{t0}", "queueId": "0",
            "offset": "{pop.msg0.queueOffset}", "extraInfo": "{pop.ck0}",
        }),
        Step("DELETE_SUBSCRIPTIONGROUP", {"groupName": "{g0}", "cleanOffset": "true"}),
        heartbeat(), send("again"), pop(order="true"),
    ],
    "pull-of-a-proxy": [
        create(),
        Step("LITE_PULL_MESSAGE", {**pull().fields, "queueOffset": "0", "requestSource": "1"}),
    ],
    "who-consumes": [
        create(), heartbeat(), Step("QUERY_TOPIC_CONSUME_BY_WHO", {"topic": "{t0}"}),
    ],
    "time-span": [
        create(), send(), Step("QUERY_CONSUME_TIME_SPAN", {"group": "{g0}", "topic": "{t0}"}),
    ],
    "offsets-of-all": [Step("GET_ALL_CONSUMER_OFFSET")],
    "accounts": [
        Step("AUTH_GET_USER", {"username": "{k0}"}), Step("AUTH_LIST_USER"), Step("AUTH_LIST_ACL"),
    ],
    "a-heartbeat-that-orders-a-topic-with-attributes": [
        create(order="true"), create("%RETRY%{g0}", attributes="+cleanup.policy=DELETE"),
        heartbeat(),
    ],
    "pulled-without-members": [
        create(), pull(),
        Step("QUERY_SUBSCRIPTION_BY_CONSUMER", {"group": "{g0}", "topic": "{t0}"}),
    ],
    "pulled-and-not-subscribed": [
        create(), create("{t1}"), send(topic="{t1}"), pull(topic="{t1}"),
        Step("UPDATE_CONSUMER_OFFSET", {
            "consumerGroup": "{g0}", "topic": "{t1}", "queueId": "0", "commitOffset": "1",
        }),
        heartbeat(), Step("GET_CONSUME_STATS", {"consumerGroup": "{g0}"}),
    ],
    "reset-of-no-queue": [
        create(), group(),
        Step("INVOKE_BROKER_TO_RESET_OFFSET", {
            "topic": "{t0}", "group": "{g0}", "queueId": "9", "offset": "-1", "timestamp": "-1",
            "isForce": "true",
        }),
    ],
    "commit-to-no-queue": [
        create(), group(),
        Step("UPDATE_CONSUMER_OFFSET", {
            "consumerGroup": "{g0}", "topic": "{t0}", "queueId": "9", "commitOffset": "1",
        }),
    ],
    "broken-batch": [
        create(),
        Step("SEND_BATCH_MESSAGE", {
            "a": "{p0}", "b": "{t0}", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "{now}",
            "h": "0", "i": "", "j": "0", "k": "false", "m": "true",
        }, "no batch"),
    ],
    "no-body": [create(), send("")],
    "pop-of-before-the-earth": [create(), send(), pop(bornTime=-(2**63))],
    "a-change-of-an-offset-that-is-not": [
        create(), send(), pop(),
        Step("CHANGE_MESSAGE_INVISIBLETIME", {
            "consumerGroup": "{g0}", "topic": "{t0}", "queueId": "0", "offset": "100",
            "extraInfo": "{pop.ck0}", "invisibleTime": "60000",
        }),
    ],
    "a-queue-that-was-only-asked-about": [
        create(),
        Step("SEARCH_OFFSET_BY_TIMESTAMP", {"topic": "{t0}", "queueId": "1", "timestamp": "0"}),
        pull(queueId=1),
        Step("QUERY_CONSUME_QUEUE", {"topic": "{t0}", "queueId": "1", "index": "0", "count": "1"}),
    ],
    "the-queue-of-who-only-pulled": [
        create(), send(), pull(),
        Step("QUERY_CONSUME_QUEUE", {
            "topic": "{t0}", "queueId": "0", "index": "0", "count": "1", "consumerGroup": "{g0}",
        }),
    ],
    "delete-of-no-name": [Step("DELETE_TOPIC_IN_BROKER", {"topic": "{t9}/"})],
    "unknown-filter": [create(), pull(expressionType="XYZ", subscription="a")],
    "topic-that-cannot-be": [create(perm=99), create("{t1}", writeQueueNums=-1)],
    "a-list-with-one-that-is-there": [
        create(readQueueNums=1, writeQueueNums=1),
        Step("UPDATE_AND_CREATE_TOPIC_LIST", body=json.dumps({"topicConfigList": [
            {
                "topicName": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6,
                "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False,
                "attributes": {},
            }
            for name in ("{t1}", "{t0}")
        ]})),
        Step("GET_TOPIC_CONFIG", {"topic": "{t1}"}),
    ],
    "not-built": [
        Step("UPDATE_AND_GET_GROUP_FORBIDDEN", {
            "group": "{g8}", "topic": "{t8}", "readable": "true",
        }),
        Step("CLONE_GROUP_OFFSET", {
            "srcGroup": "{g8}", "destGroup": "{g7}", "topic": "{t8}", "offline": "true",
        }),
        Step("QUERY_CORRECTION_OFFSET", {
            "topic": "{t8}", "compareGroup": "{g8}", "filterGroups": "",
        }),
        Step("CHECK_ROCKSDB_CQ_WRITE_PROGRESS", {"topic": "{t8}"}),
        Step("EXPORT_ROCKSDB_CONFIG_TO_JSON", {"configType": "topics"}),
        Step("GET_COLD_DATA_FLOW_CTR_INFO"),
        Step("UPDATE_AND_CREATE_STATIC_TOPIC"),
    ],
}  # fmt: skip
"""They show what the ledger says: an entry that none of these meets is stale."""


def register(
    cluster: str = "{x0}", broker: str = "{b0}", number: int = 0, state: int = 0, **more: object
) -> Step:
    """A broker with two topics at a nameserver."""
    topics: dict[str, Any] = {
        name: {
            "topicName": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6,
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False, "attributes": {},
        }
        for name in ("{t0}", "{t1}")
    }  # fmt: skip
    version = {"timestamp": 1, "counter": 1, "stateVersion": state}
    body = {
        "topicConfigSerializeWrapper": {"topicConfigTable": topics, "dataVersion": version},
        "filterServerList": [],
    }
    told = {
        "clusterName": cluster, "brokerName": broker, "brokerId": number,
        "brokerAddr": f"{broker}.{number}:10911", "haServerAddr": f"{broker}.ha:10912",
        "compressed": "false", "bodyCrc32": "{crc}",
    }  # fmt: skip
    return Step("REGISTER_BROKER", _texts(told | more), json.dumps(body))


def _names(broker: str = "{b0}", number: int = 0) -> dict[str, str]:
    return {
        "clusterName": "{x0}", "brokerName": broker, "brokerId": str(number),
        "brokerAddr": f"{broker}.{number}:10911",
    }  # fmt: skip


def _queues(*brokers: str) -> str:
    queues = [
        {
            "brokerName": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6,
            "topicSysFlag": 0,
        }
        for name in brokers
    ]  # fmt: skip
    return json.dumps({"queueDatas": queues, "brokerDatas": [], "filterServerTable": {}})


_KEY = {"namespace": "{k0}", "key": "{k1}"}

NAMESERVER_MENDED: dict[str, list[Step]] = {
    "a-name-is-listed-once": [
        register(), register("{x1}"), Step("GET_SYSTEM_TOPIC_LIST_FROM_NS"),
    ],
    "a-new-topic-is-entered-whole-or-not": [
        register(),
        Step("REGISTER_TOPIC_IN_NAMESRV", {"topic": "{t2}"}, _queues("{b0}", "{b1}")),
        Step("GET_ROUTEINFO_BY_TOPIC", {"topic": "{t2}"}),
        Step("REGISTER_TOPIC_IN_NAMESRV", {"topic": "{t0}"}, _queues("{b0}", "{b1}")),
        Step("GET_ROUTEINFO_BY_TOPIC", {"topic": "{t0}"}),
    ],
    "an-ignored-registration-tells-the-order-too": [
        Step("PUT_KV_CONFIG", {"namespace": "ORDER_TOPIC_CONFIG", "key": "{t0}", "value": "x"}),
        register(state=2), register(brokerAddr="{b0}.9:10911"),
    ],
}  # fmt: skip
"""As `MENDED`, of nameservers."""

NAMESERVER_STAYS: dict[str, list[Step]] = {
    "a-namespace-without-keys": [
        Step("PUT_KV_CONFIG", _KEY | {"value": "v"}), Step("DELETE_KV_CONFIG", _KEY),
        Step("GET_KVLIST_BY_NAMESPACE", _KEY), Step("GET_KV_CONFIG", _KEY),
        Step("GET_KVLIST_BY_NAMESPACE", {"namespace": "{k2}"}),
    ],
    "options": [Step("GET_NAMESRV_CONFIG")],
    "a-broker-in-two-clusters-that-goes": [
        register(), register("{x1}"), Step("UNREGISTER_BROKER", _names()),
        Step("GET_BROKER_CLUSTER_INFO"), Step("GET_SYSTEM_TOPIC_LIST_FROM_NS"),
    ],
    "two-brokers-of-one-connection": [
        register(), register(broker="{b1}"), Step("CLOSE"), Step("WAIT", {"ms": "300"}),
        Step("GET_ROUTEINFO_BY_TOPIC", {"topic": "{t0}"}),
    ],
    "an-empty-value-in-a-binary-header": [
        Step("PUT_KV_CONFIG", _KEY | {"value": ""}, encoding="rocketmq"),
        Step("GET_KV_CONFIG", _KEY),
    ],
}  # fmt: skip
"""As `STAYS`."""


def joins(number: int = 1, broker: str = "{b0}", cluster: str = "{x0}") -> list[Step]:
    """A replica that has an id and lives."""
    names = {"clusterName": cluster, "brokerName": broker}
    address = f"{broker}.{number}:10911"
    return [
        Step("CONTROLLER_APPLY_BROKER_ID", names | {
            "appliedBrokerId": str(number), "registerCheckCode": f"{address};{{k{number}}}",
        }),
        _lives(number, broker=broker, cluster=cluster),
    ]  # fmt: skip


def _lives(number: int, *, broker: str = "{b0}", cluster: str = "{x0}", address: str = "") -> Step:
    return Step("BROKER_HEARTBEAT", {
        "clusterName": cluster, "brokerName": broker, "brokerId": str(number),
        "brokerAddr": address or f"{broker}.{number}:10911", "heartbeatTimeoutMills": "600000",
    })  # fmt: skip


def _registers(number: int, address: str = "") -> Step:
    return Step("CONTROLLER_REGISTER_BROKER", _REPLICA | {
        "brokerId": str(number), "brokerAddress": address or f"{{b0}}.{number}:10911",
    })  # fmt: skip


def _elects(number: int, designate: str = "false") -> Step:
    told = {"brokerId": str(number), "designateElect": designate}
    return Step("CONTROLLER_ELECT_MASTER", _REPLICA | told)


def _cleans(ids: str, living: str = "false") -> Step:
    told = {"isCleanLivingBroker": living, "brokerControllerIdsToClean": ids}
    return Step("CLEAN_BROKER_DATA", _REPLICA | told)


def _alters(body: str, master: int = 1) -> Step:
    told = {"brokerName": "{b0}", "masterBrokerId": str(master), "masterEpoch": "1"}
    return Step("CONTROLLER_ALTER_SYNC_STATE_SET", told, body)


_REPLICA = {"clusterName": "{x0}", "brokerName": "{b0}"}
_INFO = Step("CONTROLLER_GET_REPLICA_INFO", {"brokerName": "{b0}"})
_BOTH = '{"syncStateSet":[1,2],"syncStateSetEpoch":1}'

CONTROLLER_MENDED: dict[str, list[Step]] = {
    "a-refusal-tells-whom-it-is-for": [
        _registers(1), *joins(2), *joins(), Step("CONTROLLER_APPLY_BROKER_ID", _REPLICA | {
            "appliedBrokerId": "1", "registerCheckCode": "{k9}",
        }),
        _registers(7), _alters(_BOTH),
    ],
    "a-set-that-nobody-is-in-has-a-number-too": [*joins(), _registers(1), _INFO],
    "a-master-that-stays-is-told-without-members": [*joins(), _elects(1), _elects(1)],
    "a-replica-of-a-name-without-a-master-is-cleaned": [*joins(), *joins(2), _cleans("2")],
    "ids-to-clean-are-read-as-java-does": [
        *joins(), _elects(1), _cleans(" 9"), _cleans("3;;9"), _cleans("9;"), _cleans("a"),
    ],
    "the-next-id-is-told-without-a-cluster": [
        Step("CONTROLLER_GET_NEXT_BROKER_ID", {"brokerName": "{b0}"}),
    ],
    "a-master-that-nobody-saw-die-stays": [
        joins()[0], _elects(1), Step("WAIT", {"ms": "500"}), _INFO,
    ],
}  # fmt: skip
"""As `MENDED`, of controllers."""

CONTROLLER_STAYS: dict[str, list[Step]] = {
    "options": [Step("GET_CONTROLLER_CONFIG")],
    "no-names": [Step("CONTROLLER_GET_SYNC_STATE_DATA", body="[]")],
    "no-address": [Step("CONTROLLER_APPLY_BROKER_ID", _REPLICA | {
        "appliedBrokerId": "1", "registerCheckCode": ";",
    })],
    "an-id-below-1": [*joins(), joins(0)[0]],
    "two-clusters": [*joins(), joins(2, cluster="{x1}")[0]],
    "a-second-broker-under-a-living-id": [
        *joins(), _lives(1, address="{b0}.9:10911"), _registers(1, "{b0}.9:10911"),
    ],
    "who-is-unknown-is-not-elected": [*joins(), _elects(7)],
    "a-first-election-that-nobody-stands-for": [*joins(), _elects(-1), _INFO, _elects(1)],
    "the-last-in-sync-is-not-cleaned": [*joins(), joins(2)[0], _elects(2), _cleans("2")],
    "a-forced-clean-takes-only-what-it-names": [
        *joins(), _elects(1), *joins(2), _cleans("2", "true"), _INFO,
    ],
    "a-list-of-no-ids": [*joins(), _elects(1), _cleans(";;")],
    "a-name-that-had-no-master-keeps-its-replicas": [*joins(), *joins(2), _cleans("9"), _INFO],
}  # fmt: skip
"""As `STAYS`."""
