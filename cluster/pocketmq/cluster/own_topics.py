"""Tells topics that users created from RocketMQ's own."""

from __future__ import annotations

from pocketmq.client import Admin
from pocketmq.protocol.validation import is_retry, is_system_topic


async def peoples_topics(admin: Admin) -> list[str]:
    """Names of the topics that are neither RocketMQ's own nor a group's retry topic, sorted.

    A broker and a cluster each have a topic with their name, and a cluster one for replies.
    """
    info = await admin.cluster_info()
    own = {*info.broker_addr_table, *info.cluster_addr_table}
    own |= {f"{cluster}_REPLY_TOPIC" for cluster in info.cluster_addr_table}
    return [
        topic
        for topic in await admin.topics()
        if not (is_system_topic(topic) or topic in own or is_retry(topic))
    ]
