"""QueryRoute and QueryAssignment from a topic's route (G-57 to G-62)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pocketmq.protocol.bodies.route import MASTER_ID, QueueData, TopicRouteData
from pocketmq.protocol.scalars import Perm
from pocketmq.proxy.codes.refusals import Refusal
from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import Code, MessageType, Permission


def route_queues(
    topic: Any, endpoints: Any, route: TopicRouteData, accepts: tuple[MessageType, ...]
) -> list[Any]:
    """Every queue on every replica, each under the endpoints that the asker used (G-57, G-59).

    Args:
        topic: The `Resource` that was asked for, which comes back as it was.
        endpoints: Those of the request.
        route: Of the name server.
        accepts: The kinds of messages that the topic takes.
    """
    brokers = _brokers(route, endpoints)
    queues = []
    for data in route.queue_datas:
        for broker in brokers.get(data.broker_name, {}).values():
            queues += [
                pb.MessageQueue(
                    topic=topic,
                    id=number,
                    permission=permission,
                    broker=broker,
                    accept_message_types=accepts,
                )
                for number, permission in enumerate(permissions(data))
            ]
    return queues


def permissions(data: QueueData) -> list[Permission]:
    """Of each queue on one broker, in RocketMQ's order: read-only, write-only, both (G-57)."""
    readable, writable = Perm.is_readable(data.perm), Perm.is_writable(data.perm)
    reads = data.read_queue_nums if readable else 0
    writes = data.write_queue_nums if writable else 0
    both = min(reads, writes)
    # RocketMQ's proxy reports at least one queue of a broker that nobody may use (G-57).
    none = 0 if readable or writable else max(1, data.read_queue_nums, data.write_queue_nums)
    return [
        *[Permission.READ] * (reads - both),
        *[Permission.WRITE] * (writes - both),
        *[Permission.READ_WRITE] * both,
        *[Permission.NONE] * none,
    ]


def assignments(topic: Any, endpoints: Any, route: TopicRouteData, *, fifo: bool) -> list[Any]:
    """What each member of a group receives from (G-62).

    Args:
        topic: The `Resource` that was asked for.
        endpoints: Those of the request.
        route: Of the name server.
        fifo: Whether the group consumes in order.

    Raises:
        Refusal: FORBIDDEN: nothing is readable; INTERNAL_SERVER_ERROR: a broker has no master.
    """
    brokers = _brokers(route, endpoints)
    found = []
    # List each broker once: receives pop from all of its queues.
    for data in route.queue_datas:
        if not Perm.is_readable(data.perm) or data.read_queue_nums <= 0:
            continue
        replicas = brokers.get(data.broker_name)
        # A name server may list queues of a broker that has gone meanwhile.
        if replicas is None:
            continue
        master = replicas.get(MASTER_ID)
        if master is None:  # RocketMQ's proxy fails here, too
            raise Refusal(
                Code.INTERNAL_SERVER_ERROR,
                f"broker {data.broker_name} has no master now; try again later",
            )
        permission = Permission.READ_WRITE if Perm.is_writable(data.perm) else Permission.READ
        found += [
            pb.Assignment(
                message_queue=pb.MessageQueue(
                    topic=topic, id=number, permission=permission, broker=master
                )
            )
            # -1 stands for all queues; with order, each queue is received from separately.
            for number in (range(data.read_queue_nums) if fifo else [-1])
        ]
    if not found:
        raise Refusal(Code.FORBIDDEN, "no readable queue")
    return found


def _brokers(route: TopicRouteData, endpoints: Any) -> Mapping[str, dict[int, Any]]:
    """Broker name -> id -> `Broker`."""
    return {
        data.broker_name: {
            number: pb.Broker(name=data.broker_name, id=number, endpoints=endpoints)
            for number in sorted(data.broker_addrs)
        }
        for data in route.broker_datas
    }
