"""Which queues the members of groups own, as far as they do not tell it themselves.

Clients in other processes and other languages leave no events here; they are asked instead.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from pocketmq.cluster.steering.cluster_view import ClusterView
from pocketmq.operation.events.event import Event
from pocketmq.operation.events.groups import Rebalanced
from pocketmq.operation.events.sink import EventSink
from pocketmq.protocol.errors import BrokerError, ClientError, RemotingError

Members = Mapping[tuple[str, str], tuple[str, ...]]
"""(group, client id) -> its queues, as `topic broker/queue`."""


def rebalanced(
    now: Members, before: Members, tell_themselves: Container[str], events: EventSink
) -> Iterator[Event]:
    """Members that own other queues than before, without those that tell it themselves."""
    for (group, client_id), queues in sorted(now.items()):
        known = before.get((group, client_id), ())
        # Clients that report it themselves have done so, with the exact time.
        if queues != known and client_id not in tell_themselves:
            yield Rebalanced(
                *events.stamp(),
                group=group,
                client_id=client_id,
                queues=list(queues),
                gained=sorted(set(queues).difference(known)),
                lost=sorted(set(known).difference(queues)),
            )


async def members_of(view: ClusterView) -> Members:
    """Ask all members of all groups which queues they own; those that do not answer own none."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    groups: set[str] = set()
    async with view.admin() as admin:
        for broker in view.roles.running_brokers:
            try:
                groups.update(await admin.groups(broker))
            except ClientError:
                continue  # the nameservers have forgotten it
    for group in sorted(groups):
        try:
            state = await view.group_state(group)
        except (BrokerError, RemotingError, ClientError):
            continue  # it has just lost its last member
        for member in state.members:
            queues = sorted(
                f"{queue.topic} {queue.broker_name}/{queue.queue_id}" for queue in member.offsets
            )
            found[group, member.client_id] = tuple(queues)
        for client_id in state.silent:
            # Counted as owning nothing, so that its queues can appear at others.
            found[group, client_id] = ()
    return found
