"""What a request needs: RocketMQ's table, code -> resources and actions (Y-43, Y-44).

    SEND_MESSAGE_V2 (310)          Topic: Pub; of a retry topic its group: Sub
    PULL_MESSAGE (11)              Topic: Sub, and Group: Sub
    HEART_BEAT (34)                each consumer group: Sub, and each of its topics: Sub
    UPDATE_AND_CREATE_TOPIC (17)   Topic: Create
    others                         see `_MARKED`; what stands nowhere needs no right

RocketMQ leaves some of its mightiest requests unchecked: UPDATE_BROKER_CONFIG (25),
UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200), UPDATE_AND_CREATE_TOPIC_LIST (18), and SEND_REPLY_MESSAGE
(324, 325), which stores in the topic that it names, and makes it. Any user may send them, there as
here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pocketmq.operation.access.resources import (
    Resource,
    ResourceType,
    group,
    is_retry,
    topic,
)
from pocketmq.operation.access.rules import Action, Need
from pocketmq.protocol.bodies.clients import HeartbeatData, LockBatchBody
from pocketmq.protocol.body import decode_request_body
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.header import to_text_value

Fields = Mapping[str, object]

PUB: Final = (Action.PUB,)
SUB: Final = (Action.SUB,)
SUB_GET: Final = (Action.SUB, Action.GET)
SUB_UPDATE: Final = (Action.SUB, Action.UPDATE)


def _text(fields: Fields, name: str) -> str | None:
    value = fields.get(name)
    return None if value is None else to_text_value(value)


def _send(fields: Fields, topic_field: str, group_field: str, may_name_group: bool) -> list[Need]:
    name = _text(fields, topic_field)
    if not is_retry(name):
        return [Need(topic(name), PUB)]
    named = (_text(fields, group_field) or "").strip() if may_name_group else ""
    return [Need(group(named or name), SUB)]


def _topic_only(actions: tuple[Action, ...]) -> Callable[[Fields], list[Need]]:
    return lambda fields: [Need(topic(_text(fields, "topic")), actions)]


def _group_only(field: str, actions: tuple[Action, ...]) -> Callable[[Fields], list[Need]]:
    return lambda fields: [Need(group(_text(fields, field)), actions)]


def _consume(actions: tuple[Action, ...]) -> Callable[[Fields], list[Need]]:
    def needs(fields: Fields) -> list[Need]:
        name = _text(fields, "topic")
        found = [] if is_retry(name) else [Need(topic(name), actions)]
        return [*found, Need(group(_text(fields, "consumerGroup")), actions)]

    return needs


def _end_transaction(fields: Fields) -> list[Need]:
    name = _text(fields, "topic")
    return [Need(topic(name), PUB)] if name and name.strip() else []


def _unregister(fields: Fields) -> list[Need]:
    name = _text(fields, "consumerGroup")
    return [Need(group(name), SUB)] if name and name.strip() else []


_SENDS: Final[Mapping[int, tuple[str, str]]] = {
    RequestCode.SEND_MESSAGE: ("topic", "group"),
    RequestCode.SEND_MESSAGE_V2: ("b", "a"),
    RequestCode.SEND_BATCH_MESSAGE: ("b", "a"),
}
"""Where they have their topic and the producer's group."""

_BY_FIELDS: Final[Mapping[int, Callable[[Fields], list[Need]]]] = {
    RequestCode.RECALL_MESSAGE: _topic_only(PUB),
    RequestCode.END_TRANSACTION: _end_transaction,
    RequestCode.CONSUMER_SEND_MSG_BACK: _group_only("group", SUB),
    RequestCode.PULL_MESSAGE: _consume(SUB),
    RequestCode.QUERY_MESSAGE: _topic_only(SUB_GET),
    RequestCode.UNREGISTER_CLIENT: _unregister,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: _group_only("consumerGroup", SUB_GET),
    RequestCode.QUERY_CONSUMER_OFFSET: _consume(SUB_GET),
    RequestCode.UPDATE_CONSUMER_OFFSET: _consume(SUB_UPDATE),
}


def _marks(
    action: Action, codes: tuple[int, ...], *fields: str
) -> dict[int, tuple[Action, tuple[str, ...]]]:
    return {int(code): (action, fields) for code in codes}


CLUSTER: Final = ""
"""In place of a field: the cluster that the broker belongs to."""

_LISTS: Final = {"topicList": ";", "filterGroups": ","}
"""Fields with several names, and what is between them."""

_GROUP_FIELDS: Final = frozenset(
    {"group", "groupName", "consumerGroup", "destGroup", "compareGroup", "filterGroups"}
)

_MARKED: Final[Mapping[int, tuple[Action, tuple[str, ...]]]] = {
    **_marks(Action.CREATE, (RequestCode.UPDATE_AND_CREATE_TOPIC,), "topic"),
    **_marks(
        Action.UPDATE,
        (
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
            RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN,
        ),
        "group",
        "topic",
    ),
    **_marks(Action.UPDATE, (RequestCode.CLONE_GROUP_OFFSET,), "destGroup", "topic"),
    **_marks(Action.UPDATE, (RequestCode.RESUME_CHECK_HALF_MESSAGE,), "topic"),
    **_marks(
        Action.UPDATE,
        (
            RequestCode.AUTH_CREATE_USER,
            RequestCode.AUTH_UPDATE_USER,
            RequestCode.AUTH_DELETE_USER,
            RequestCode.AUTH_CREATE_ACL,
            RequestCode.AUTH_UPDATE_ACL,
            RequestCode.AUTH_DELETE_ACL,
            RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE,
            RequestCode.EXCHANGE_BROKER_HA_INFO,
            RequestCode.RESET_MASTER_FLUSH_OFFSET,
            RequestCode.NOTIFY_BROKER_ROLE_CHANGED,
        ),
        CLUSTER,
    ),
    **_marks(Action.DELETE, (RequestCode.DELETE_TOPIC_IN_BROKER,), "topic"),
    **_marks(Action.DELETE, (RequestCode.DELETE_SUBSCRIPTIONGROUP,), "groupName"),
    **_marks(
        Action.GET,
        (
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
            RequestCode.GET_MAX_OFFSET,
            RequestCode.GET_MIN_OFFSET,
            RequestCode.GET_EARLIEST_MSG_STORETIME,
            RequestCode.VIEW_MESSAGE_BY_ID,
            RequestCode.GET_TOPIC_STATS_INFO,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
            RequestCode.GET_TOPIC_CONFIG,
            RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS,
        ),
        "topic",
    ),
    **_marks(
        Action.GET,
        (
            RequestCode.GET_CONSUMER_CONNECTION_LIST,
            RequestCode.GET_CONSUMER_RUNNING_INFO,
        ),
        "consumerGroup",
    ),
    **_marks(
        Action.GET,
        (
            RequestCode.QUERY_TOPICS_BY_CONSUMER,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
        ),
        "group",
    ),
    **_marks(Action.GET, (RequestCode.GET_CONSUME_STATS,), "consumerGroup", "topic", "topicList"),
    **_marks(
        Action.GET,
        (
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            RequestCode.QUERY_CONSUME_TIME_SPAN,
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
        ),
        "topic",
        "group",
    ),
    **_marks(
        Action.GET, (RequestCode.QUERY_CORRECTION_OFFSET,), "filterGroups", "compareGroup", "topic"
    ),
    **_marks(Action.GET, (RequestCode.QUERY_CONSUME_QUEUE,), "topic", "consumerGroup"),
    **_marks(Action.GET, (RequestCode.POLLING_INFO,), "consumerGroup", "topic"),
    **_marks(
        Action.GET,
        (
            RequestCode.GET_PRODUCER_CONNECTION_LIST,
            RequestCode.VIEW_BROKER_STATS_DATA,
            RequestCode.GET_BROKER_CONSUME_STATS,
            RequestCode.GET_ALL_PRODUCER_INFO,
            RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON,
            RequestCode.AUTH_GET_USER,
            RequestCode.AUTH_LIST_USER,
            RequestCode.AUTH_GET_ACL,
            RequestCode.AUTH_LIST_ACL,
        ),
        CLUSTER,
    ),
    **_marks(
        Action.SUB,
        (
            RequestCode.POP_MESSAGE,
            RequestCode.ACK_MESSAGE,
            RequestCode.PEEK_MESSAGE,
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
            RequestCode.NOTIFICATION,
            RequestCode.CONSUME_MESSAGE_DIRECTLY,
        ),
        "consumerGroup",
        "topic",
    ),
}
"""What RocketMQ marks at its header classes; a field that is not sent needs nothing."""


def needs_of(
    request: Command, fields: Fields, cluster: str, *, retry_sends_may_name_group: bool
) -> list[Need]:
    """What a request needs; all of it has to be allowed, and an empty list is.

    Args:
        request: As received.
        fields: Of its header.
        cluster: The broker's.
        retry_sends_may_name_group: A send to a retry topic needs Sub of the group that it names, if
            any; else of the topic's own.

    Raises:
        BadRequestError: its body cannot be read.
    """
    code = request.code
    if code in _SENDS:
        return _send(fields, *_SENDS[code], retry_sends_may_name_group)
    by_fields = _BY_FIELDS.get(code)
    if by_fields is not None:
        return by_fields(fields)
    if code == RequestCode.HEART_BEAT:
        data = decode_request_body(request, HeartbeatData)
        return [
            need
            for each in data.consumer_data_set
            for need in _group_and_topics(
                each.group_name, [one.topic for one in each.subscription_data_set]
            )
        ]
    if code in (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ):
        body = decode_request_body(request, LockBatchBody)
        return _group_and_topics(body.consumer_group, [each.topic for each in body.mq_set])
    marked = _MARKED.get(code)
    return [] if marked is None else _by_marks(fields, *marked, cluster)


def _group_and_topics(name: str, topics: list[str]) -> list[Need]:
    return [
        Need(group(name), SUB),
        *(Need(topic(each), SUB) for each in topics if not is_retry(each)),
    ]


def _by_marks(fields: Fields, action: Action, marked: tuple[str, ...], cluster: str) -> list[Need]:
    if marked == (CLUSTER,):
        return [Need(Resource(ResourceType.CLUSTER, cluster), (action,))]
    found = []
    for field in marked:
        value = _text(fields, field)
        if value is None:
            continue
        names = [value]
        if field in _LISTS:
            names = [name for name in value.split(_LISTS[field]) if name]
        for name in names:
            if field in _GROUP_FIELDS:
                found.append(Need(Resource(ResourceType.GROUP, name), (action,)))
            else:
                found.append(Need(group(name) if is_retry(name) else topic(name), (action,)))
    return found
