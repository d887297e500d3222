"""Tells topics that users created from RocketMQ's own."""

from __future__ import annotations

from pocketmq.client import Admin
from pocketmq.protocol.messages.validation import is_retry, is_system_topic


async def peoples_topics(admin: Admin) -> list[str]:
    """Names of the topics that are neither RocketMQ's own nor a group's retry topic, sorted."""
    topics = await admin.topics()
    own = await systems_topics(admin)
    # Retry topics belong to groups; dead letter topics are shown, as people look for them.
    return [topic for topic in topics if topic not in own and not is_retry(topic)]


async def systems_topics(admin: Admin) -> set[str]:
    """Names of RocketMQ's own topics.

    A broker and a cluster each have a topic with their name, and a cluster one for replies.
    """
    # Brokers and clusters may have any name, so their topics' names have to be asked for.
    info = await admin.cluster_info()
    own = {*info.broker_addr_table, *info.cluster_addr_table}
    own |= {f"{cluster}_REPLY_TOPIC" for cluster in info.cluster_addr_table}
    return own | {topic for topic in await admin.topics() if is_system_topic(topic)}
