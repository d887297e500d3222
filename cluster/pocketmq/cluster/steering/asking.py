"""What a cluster's brokers and members are asked when it is steered: groups and their clients."""

from __future__ import annotations

from collections.abc import Iterable

from pocketmq.client import Admin
from pocketmq.cluster.steering.group_state import GroupState, MemberState, client_ids
from pocketmq.protocol.errors import BrokerError, BrokerNotFoundError


async def ask_group_state(admin: Admin, group: str) -> GroupState:
    """Members, queues and offsets of a group; members that do not answer are named too."""
    connections = await admin.consumer_connections(group)
    topics = {
        data.topic for found in connections.values() for data in found.subscription_table.values()
    }
    members, silent = [], []
    for client_id in client_ids(connections):
        try:
            info = await admin.consumer_running_info(group, client_id)
        except BrokerError:
            silent.append(client_id)
        else:
            members.append(MemberState.of(client_id, info))
    ends = {}
    for topic in sorted(topics):
        # A subscribed topic may not exist yet.
        if await admin.route(topic) is not None:
            stats = await admin.topic_stats(topic)
            ends.update({queue: bounds.max_offset for queue, bounds in stats.items()})
    # Asked last, so that the offsets are not older than the members' answers.
    progress = await admin.consume_stats(group)
    return GroupState(
        group,
        tuple(members),
        tuple(silent),
        broadcasting=any(each.message_model == "BROADCASTING" for each in connections.values()),
        ends=ends,
        committed={queue: each.consumer_offset for queue, each in progress.items()},
    )


async def ask_connected(admin: Admin, brokers: Iterable[str]) -> list[str]:
    """Client ids of all consumers that brokers know, sorted."""
    ids: set[str] = set()
    for broker in brokers:
        try:
            groups = await admin.groups(broker)
        except BrokerNotFoundError:
            continue  # the nameservers have forgotten it, and its clients will
        for group in groups:
            for each in (await admin.consumer_connections(group)).values():
                ids.update(connection.client_id for connection in each.connection_set)
    return sorted(ids)
