"""What is there when somebody begins to watch, told as events: roles, members, queues, offsets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import msgspec
import structlog

from pocketmq.client import Admin
from pocketmq.cluster.own_topics import peoples_topics
from pocketmq.operation.events import Event
from pocketmq.operation.events.groups import MemberJoined, Rebalanced, SdkJoined
from pocketmq.operation.events.log import EventLog
from pocketmq.operation.events.messages import (
    MessageDispatched,
    OffsetCommitted,
    StoreFlushed,
)
from pocketmq.operation.events.roles import (
    BrokerRegistered,
    FaultBegan,
    RoleChanged,
    RoleStarted,
    RoleStopped,
)
from pocketmq.operation.events.sink import Stamp
from pocketmq.operation.metrics import FLUSH_BEHIND
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import PocketMQError

if TYPE_CHECKING:
    from pocketmq.cluster.steering.cluster_control import ClusterControl

log = structlog.get_logger()


async def present(control: ClusterControl) -> list[Event]:
    """The events that lead to what the cluster is now.

    What does not answer is left out: a frozen broker must not keep anybody from watching.
    """
    real = SystemClock()
    # From a monotonic clock, so that stamps do not go back when the machine's time is set.
    stamps = EventLog("cluster", control.time_ms, lambda: int(real.monotonic() * 1_000_000))
    found: list[Event] = []
    roles = control.roles
    for name in roles.names:
        state = roles.state(name)
        if state == "running":
            found.append(RoleStarted(*stamps.stamp(), role=name))
        else:
            found.append(RoleStopped(*stamps.stamp(), role=name, how=state))
    for rule in control.faults.rules:
        began = FaultBegan(
            *stamps.stamp(), rule=rule.id, do=rule.do, role=rule.role, other=rule.other
        )
        found.append(began)
    for route in control.events.routes.values():
        # With present stamps, which give the order; the content stays.
        fields = dict(zip(Stamp._fields, stamps.stamp()._replace(by=route.client_id), strict=True))
        found.append(msgspec.structs.replace(route, **fields))
    # Part by part: if one fails, the others remain.
    async with control.admin() as admin:
        for part in (
            _registered(control, stamps),
            _members(control, admin, stamps),
            _sdks(control, admin, stamps),
            _stored(admin, stamps),
            _logs(control, admin, stamps),
        ):
            try:
                async for event in part:
                    found.append(event)  # noqa: PERF401 - what was told before an error counts
            except PocketMQError as exc:
                log.debug("present.incomplete", reason=str(exc))
    return found


async def _registered(control: ClusterControl, stamps: EventLog) -> AsyncIterator[Event]:
    roles = control.roles
    processes = {address: name for name, address in roles.addresses.items()}
    for name in roles.names:
        if roles.role(name) == "nameserver" and roles.state(name) == "running":
            async with control.admin(roles.addresses[name]) as admin:
                known = await admin.brokers(masters_only=False)
            for broker, replicas in known.items():
                for broker_id, address in replicas.items():
                    process = processes.get(address, broker)
                    # Only if it is not obvious: a single master needs no event.
                    if broker_id or process != broker or len(replicas) > 1:
                        yield RoleChanged(
                            *stamps.stamp()._replace(by=process),
                            broker=broker,
                            broker_id=broker_id,
                            role="SLAVE" if broker_id else "MASTER",
                        )
                    yield BrokerRegistered(
                        *stamps.stamp(),
                        broker=broker,
                        nameserver=name,
                        broker_id=broker_id,
                        address=address,
                    )


async def _members(control: ClusterControl, admin: Admin, stamps: EventLog) -> AsyncIterator[Event]:
    groups: set[str] = set()
    for broker in control.roles.running_brokers:
        groups.update(await admin.groups(broker))
    for group in sorted(groups):
        for broker, connections in sorted((await admin.consumer_connections(group)).items()):
            for connection in connections.connection_set:
                yield MemberJoined(
                    *stamps.stamp(),
                    group=group,
                    client_id=connection.client_id,
                    broker=broker,
                    model=connections.message_model,
                )
        state = await control.group_state(group)
        for member in state.members:
            queues = sorted(
                f"{queue.topic} {queue.broker_name}/{queue.queue_id}" for queue in member.offsets
            )
            yield Rebalanced(
                *stamps.stamp(), group=group, client_id=member.client_id, queues=queues
            )
        for queue, offset in state.committed.items():
            yield OffsetCommitted(
                *stamps.stamp(),
                topic=queue.topic,
                broker=queue.broker_name,
                queue=queue.queue_id,
                offset=offset,
                group=group,
            )


async def _sdks(control: ClusterControl, admin: Admin, stamps: EventLog) -> AsyncIterator[Event]:
    """Who is connected to gRPC proxies."""
    roles = control.roles
    if not any(
        roles.role(name) == "proxy" and roles.state(name) == "running" for name in roles.names
    ):
        return
    for proxy, topics in (await admin.proxy_producers()).items():
        # By client id, so that a client with several topics is reported once.
        for each in {each.client_id: each for found in topics.values() for each in found}.values():
            yield SdkJoined(
                *stamps.stamp(),
                client_id=each.client_id,
                proxy=proxy,
                kind="producer",
                sdk=each.language,
            )
    groups: set[str] = set()
    for broker in roles.running_brokers:
        groups.update(await admin.groups(broker))
    for group in sorted(groups):
        for proxy, consumers in (await admin.proxy_consumers(group)).items():
            for member in consumers.connection_set:
                yield SdkJoined(
                    *stamps.stamp(),
                    client_id=member.client_id,
                    proxy=proxy,
                    kind="consumer",
                    sdk=member.language,
                    group=group,
                )


async def _stored(admin: Admin, stamps: EventLog) -> AsyncIterator[Event]:
    for topic in await peoples_topics(admin):
        for queue, bounds in (await admin.topic_stats(topic)).items():
            yield MessageDispatched(
                *stamps.stamp(),
                topic=topic,
                broker=queue.broker_name,
                queue=queue.queue_id,
                offset=0,
                count=bounds.max_offset,
                physical_end=0,  # only the queue was asked; `_logs` tells of the log
            )


async def _logs(control: ClusterControl, admin: Admin, stamps: EventLog) -> AsyncIterator[Event]:
    """How far each broker's log goes, is dispatched and is on the disk."""
    roles = control.roles
    listed = {
        address: broker
        for broker, replicas in (await admin.brokers(masters_only=False)).items()
        for address in replicas.values()
    }
    for name in roles.names:
        if roles.role(name) != "broker" or roles.state(name) != "running":
            continue
        address = roles.addresses[name]
        try:
            figures = await admin.broker_runtime_info(name, address=address)
            # Asked second: what is flushed meanwhile is told as lost, and never the other way.
            report = await admin.broker_metrics(name, address=address)
        except PocketMQError as exc:  # the page shows this log as not known, and the others
            log.debug("present.log_not_known", broker=name, reason=str(exc))
            continue
        unflushed = [each.value for each in report.numbers if each.name == FLUSH_BEHIND.name]
        end = int(figures["commitLogMaxOffset"])
        # Never negative: the two answers are from different moments.
        flushed = max(0, end - int(unflushed[0]))
        yield StoreFlushed(
            *stamps.stamp()._replace(by=name),
            broker=listed.get(address, name),
            physical_from=flushed,
            physical_to=flushed,
            physical_end=end,
            dispatched=end - int(figures["dispatchBehindBytes"]),
        )
