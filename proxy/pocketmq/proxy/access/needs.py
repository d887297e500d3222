"""What an RPC needs: the table of RocketMQ's proxy, request -> resources and actions (G-141).

    SendMessage, EndTransaction, RecallMessage         Topic: Pub
    QueryRoute                                         Topic: Pub or Sub
    ReceiveMessage, AckMessage, QueryAssignment,
    ForwardMessageToDeadLetterQueue                    Group: Sub, and Topic: Sub
    ChangeInvisibleDuration                            Group: Sub
    Heartbeat, NotifyClientTermination                 Group: Sub, where one is named
    Telemetry, of settings                             each topic: Pub; or Group: Sub, and each
                                                       topic: Sub

A heartbeat of a consumer has to name its group. RocketMQ's proxy looks at no group of other
heartbeats, though it enters whoever has a consumer's settings in the group that is named.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pocketmq.operation.access import resources
from pocketmq.operation.access.decisions import AccessDeniedError
from pocketmq.operation.access.rules import Action, Need
from pocketmq.proxy.codes.names import is_blank
from pocketmq.proxy.codes.refusals import Refusal
from pocketmq.proxy.protos.enums import ClientType, Code

PUB: Final = (Action.PUB,)
SUB: Final = (Action.SUB,)
PUB_OR_SUB: Final = (Action.PUB, Action.SUB)

_CONSUMERS: Final = (
    ClientType.PUSH_CONSUMER,
    ClientType.SIMPLE_CONSUMER,
    ClientType.PULL_CONSUMER,
)


def needs_of(request: Any) -> list[Need]:
    """What a request needs; all of it has to be allowed, and an empty list is.

    Args:
        request: Of an RPC, or a command of Telemetry.

    Raises:
        AccessDeniedError: it names no topic or group, where one is needed.
        Refusal: INTERNAL_SERVER_ERROR: settings of neither a producer nor a consumer.
    """
    match request.DESCRIPTOR.name:
        case "SendMessageRequest":
            if not request.messages:
                raise AccessDeniedError("message is null.")
            # The first message stands for all: a send to several topics is refused later.
            return [_topic(request.messages[0].topic, PUB)]
        case "RecallMessageRequest" | "EndTransactionRequest":
            return [_topic(request.topic, PUB)]
        case "QueryRouteRequest":
            return [_topic(request.topic, PUB_OR_SUB)]
        case "ReceiveMessageRequest":
            if not request.HasField("message_queue"):
                raise AccessDeniedError("messageQueue is null.")
            return [_group(request.group), _topic(request.message_queue.topic, SUB)]
        case "AckMessageRequest" | "QueryAssignmentRequest":
            return [_group(request.group), _topic(request.topic, SUB)]
        case "ForwardMessageToDeadLetterQueueRequest":
            return [_group(request.group), _topic(request.topic, SUB)]
        case "ChangeInvisibleDurationRequest":
            # RocketMQ asks for no right to the topic here: the right to the group is enough.
            return [_group(request.group)]
        case "HeartbeatRequest" if request.client_type in _CONSUMERS:
            return [_group(request.group)]
        case "HeartbeatRequest" | "NotifyClientTerminationRequest":
            return [] if is_blank(request.group.name) else [_group(request.group)]
        case "TelemetryCommand" if request.WhichOneof("command") == "settings":
            return _of_settings(request.settings)
    return []


def _of_settings(settings: Any) -> list[Need]:
    match settings.WhichOneof("pub_sub"):
        case "publishing":
            return _topics(settings.publishing.topics, PUB)
        case "subscription":
            entries = settings.subscription.subscriptions
            group = _group(settings.subscription.group)
            return [group, *_topics((each.topic for each in entries), SUB)]
    raise Refusal(
        Code.INTERNAL_SERVER_ERROR,
        "settings command doesn't have publishing or subscription.. AclException",
    )


def _topics(named: Iterable[Any], actions: tuple[Action, ...]) -> list[Need]:
    # One need for each name, in the order of the names, as the first that is denied is told.
    return [_topic(each, actions) for each in {each.name: each for each in named}.values()]


def _topic(named: Any, actions: tuple[Action, ...]) -> Need:
    if is_blank(named.name):
        raise AccessDeniedError("topic is null.")
    return Need(resources.topic(named.name), actions)


def _group(named: Any) -> Need:
    if is_blank(named.name):
        raise AccessDeniedError("group is null.")
    return Need(resources.group(named.name), SUB)
