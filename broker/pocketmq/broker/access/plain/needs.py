"""What a request needs in ACL 1.0 (Y-23); all others need nothing but a signature."""

from __future__ import annotations

from collections.abc import Mapping

from pocketmq.broker.access.plain.accounts import Perm
from pocketmq.protocol.bodies.clients import HeartbeatData
from pocketmq.protocol.body import decode_request_body
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.header import to_text_value
from pocketmq.protocol.messages.validation import RETRY_PREFIX

_SENDS = {
    RequestCode.SEND_MESSAGE: ("topic", "group"),
    RequestCode.SEND_MESSAGE_V2: ("b", "a"),
}
"""Fields with the topic and the group; 4.9 does not look at batches (320)."""

_OF_GROUPS = {
    RequestCode.CONSUMER_SEND_MSG_BACK: "group",
    RequestCode.UNREGISTER_CLIENT: "consumerGroup",
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: "consumerGroup",
}

_OF_BOTH = (RequestCode.PULL_MESSAGE, RequestCode.UPDATE_CONSUMER_OFFSET)


def plain_needs(request: Command, fields: Mapping[str, object]) -> dict[str, Perm]:
    """Permissions by topic; of a group by its retry topic.

    Raises:
        BadRequestError: Its body cannot be read.
    """
    code = request.code
    found: dict[str, Perm] = {}

    def need(topic: str | None, perm: Perm) -> None:
        if topic is not None:
            found[topic] = perm

    if code in _SENDS:
        of_topic, of_group = _SENDS[RequestCode(code)]
        topic = _text(fields, of_topic)
        # A send to a retry topic returns a delivered message: the group needs permission to read.
        if topic is not None and topic.startswith(RETRY_PREFIX):
            need(_retry(_text(fields, of_group)), Perm.SUB)
        else:
            need(topic, Perm.PUB)
    elif code in _OF_GROUPS:
        need(_retry(_text(fields, _OF_GROUPS[RequestCode(code)])), Perm.SUB)
    elif code in _OF_BOTH:
        need(_text(fields, "topic"), Perm.SUB)
        need(_retry(_text(fields, "consumerGroup")), Perm.SUB)
    elif code == RequestCode.QUERY_MESSAGE:
        need(_text(fields, "topic"), Perm.SUB)
    elif code == RequestCode.HEART_BEAT:
        data = decode_request_body(request, HeartbeatData)
        for each in data.consumer_data_set:
            need(_retry(each.group_name), Perm.SUB)
            for one in each.subscription_data_set:
                need(one.topic, Perm.SUB)
    return found


def _retry(group: str | None) -> str | None:
    return None if group is None else RETRY_PREFIX + group


def _text(fields: Mapping[str, object], name: str) -> str | None:
    value = fields.get(name)
    return None if value is None else to_text_value(value)
