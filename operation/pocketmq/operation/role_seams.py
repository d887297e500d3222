"""What connects a role to others: events, rules for faults, and a network that keeps to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from pocketmq.operation.control.processor import event_log
from pocketmq.operation.events.log import EventLog
from pocketmq.operation.faults.rule_book import RuleBook
from pocketmq.operation.faulty_network.faulty_tcp import FaultyTcp
from pocketmq.operation.membership.members import Members
from pocketmq.operation.membership.network import MemberNetwork
from pocketmq.operation.membership.options import SecurityOptions
from pocketmq.operation.tls.role_tls import RoleTls
from pocketmq.protocol.transport.network import Network
from pocketmq.runtime.clock import Clock, SystemClock
from pocketmq.runtime.tasks import TaskOwner

Sockets = TypeVar("Sockets", bound=FaultyTcp)


@dataclass(frozen=True, slots=True)
class RoleSeams(Generic[Sockets]):
    """What one role got: see `role_seams`."""

    events: EventLog
    rules: RuleBook
    """Faults that somebody told this role to have."""
    sockets: Sockets
    network: Network
    """The sockets, behind proofs of membership where there is a secret."""
    members: Members | None
    """Who has proven to be a member of the cluster; None: nobody has to."""


def role_seams(
    name: str,
    clock: Clock,
    security: SecurityOptions,
    tasks: TaskOwner,
    sockets: type[Sockets],
    *,
    all_events: bool,
) -> RoleSeams[Sockets]:
    """Connect a role, with TLS and membership as its options say.

    Args:
        name: Of the role, also in fault rules.
        clock: Of events and rules.
        security: TLS of its ports and connections, and whether members must prove who they are.
        tasks: Has those that watch certificates and secret.
        sockets: Makes its connections.
        all_events: Record events from the start, and not only once somebody asks for them.

    Raises:
        ConfigError: the role is to use TLS, or to prove that it is a member, and cannot.
    """
    # Files change in real time. On a manual clock each look would also be a step of every move: a
    # day took minutes.
    real = SystemClock()
    # Read the secret first: if that fails, the start ends before any port is open.
    secret = security.member_secret()
    events = event_log(name, clock, always=all_events)
    rules = RuleBook(name, clock.time_ms, events)
    tls = RoleTls(security)
    # Without files there is nothing to look at every half second.
    if tls.is_watching:
        tasks.start(tls.watch(real), name="watch certificates")
    # Faults act below membership: a partition cuts proofs off, too.
    tcp = sockets(rules, server_tls=tls.server, client_tls=tls.client)
    if secret is None:
        return RoleSeams(events, rules, tcp, tcp, None)
    members = Members(secret)
    tasks.start(members.watch(real), name="watch member secret")
    return RoleSeams(events, rules, tcp, MemberNetwork(tcp, members), members)
