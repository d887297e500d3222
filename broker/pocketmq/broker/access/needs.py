"""What a request needs: RocketMQ's table, code -> resources and actions (Y-43, Y-44).

    310 SEND_MESSAGE_V2    Topic b: Pub; of a retry topic its group: Sub (up to 5.3 Group a)
    11  PULL_MESSAGE       Topic: Sub, and Group: Sub
    34  HEART_BEAT         each consumer group: Sub, and each of its topics: Sub
    17                     Topic: Create
    25, 200, 207 ...       see `_MARKED`; what stands nowhere needs no right

RocketMQ leaves some of its mightiest requests unchecked: UPDATE_BROKER_CONFIG (25), groups made by
200 and topics made by 18. Any user may send them, there as here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pocketmq.broker.access.resources import (
    Resource,
    ResourceType,
    group,
    is_retry,
    topic,
)
from pocketmq.broker.access.rules import Action, Need
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
    **_marks(Action.CREATE, (17,), "topic"),
    **_marks(Action.UPDATE, (222, 353), "group", "topic"),
    **_marks(Action.UPDATE, (314,), "destGroup", "topic"),
    **_marks(Action.UPDATE, (323,), "topic"),
    **_marks(Action.UPDATE, (3001, 3002, 3003, 3006, 3007, 3008, 905, 906, 908, 1008), CLUSTER),
    **_marks(Action.DELETE, (215,), "topic"),
    **_marks(Action.DELETE, (207,), "groupName"),
    **_marks(Action.GET, (29, 30, 31, 32, 33, 202, 300, 351, 354), "topic"),
    **_marks(Action.GET, (203, 307), "consumerGroup"),
    **_marks(Action.GET, (343, 352), "group"),
    **_marks(Action.GET, (208,), "consumerGroup", "topic", "topicList"),
    **_marks(Action.GET, (223, 303, 345), "topic", "group"),
    **_marks(Action.GET, (308,), "filterGroups", "compareGroup", "topic"),
    **_marks(Action.GET, (321,), "topic", "consumerGroup"),
    **_marks(Action.GET, (200055,), "consumerGroup", "topic"),
    **_marks(Action.GET, (204, 315, 317, 328, 355, 3004, 3005, 3009, 3010), CLUSTER),
    **_marks(Action.SUB, (200050, 200051, 200052, 200053, 200054, 309), "consumerGroup", "topic"),
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
