"""What a cluster looks like at one moment, told as the events that lead there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pocketmq.cluster.steering.owned_queues import Members, members_of
from pocketmq.protocol.events.event import Event
from pocketmq.protocol.events.groups import MemberJoined, MemberLeft, Rebalanced
from pocketmq.protocol.events.roles import (
    BrokerForgotten,
    BrokerRegistered,
    ClockMoved,
    RoleStarted,
    RoleStopped,
)
from pocketmq.protocol.events.sink import EventSink

if TYPE_CHECKING:
    from pocketmq.cluster.steering.cluster_control import ClusterControl


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Roles, routes and members."""

    at_ms: int
    is_manual: bool
    states: Mapping[str, str]
    known: frozenset[tuple[str, str]]
    """(nameserver, broker) for each broker that it knows."""
    members: Members

    @classmethod
    async def of(cls, control: ClusterControl) -> ClusterView:
        """Ask all roles that run.

        Raises:
            PocketMQError: One did not answer.
        """
        roles = control.roles
        states = {name: roles.state(name) for name in roles.names}
        known = set()
        for name in roles.names:
            if roles.role(name) == "nameserver" and states[name] == "running":
                async with control.admin(roles.addresses[name]) as admin:
                    known |= {(name, broker) for broker in await admin.brokers()}
        members = await members_of(control)
        at_ms = await control.refresh_time()
        return cls(at_ms, control.clock == "manual", states, frozenset(known), members)

    def since(self, before: ClusterView, events: EventSink) -> Iterator[Event]:
        """The events between an earlier look and this one; `events` stamps them."""
        stamp = events.stamp
        if self.is_manual and self.at_ms != before.at_ms:
            yield ClockMoved(*stamp(), from_ms=before.at_ms)
        for role, state in self.states.items():
            if state != before.states.get(role):
                if state == "running":
                    yield RoleStarted(*stamp(), role=role)
                else:
                    yield RoleStopped(*stamp(), role=role, how=state)
        for nameserver, broker in sorted(self.known - before.known):
            yield BrokerRegistered(*stamp(), broker=broker, nameserver=nameserver)
        for nameserver, broker in sorted(before.known - self.known):
            if self.states.get(nameserver) == "running":
                yield BrokerForgotten(*stamp(), broker=broker, nameserver=nameserver, how="expired")
        for group, client_id in sorted(self.members.keys() - before.members.keys()):
            yield MemberJoined(*stamp(), group=group, client_id=client_id, broker="")
        for group, client_id in sorted(before.members.keys() - self.members.keys()):
            yield MemberLeft(*stamp(), group=group, client_id=client_id, broker="", how="closed")
        for (group, client_id), queues in sorted(self.members.items()):
            if queues != before.members.get((group, client_id), ()):
                yield Rebalanced(*stamp(), group=group, client_id=client_id, queues=list(queues))
