"""Admin: topics, groups, offsets and messages, for operators and tools (E-23, E-27, E-29, E-31).

async with Admin(nameservers="127.0.0.1:9876") as admin:
    await admin.create_topic("Orders", queues=4)
    print(await admin.route("Orders"))
"""

from __future__ import annotations

from pocketmq.client.admin.access import AccessAdmin
from pocketmq.client.admin.brokers import BrokerAdmin
from pocketmq.client.admin.groups import GroupAdmin
from pocketmq.client.admin.messages import MessageAdmin
from pocketmq.client.admin.offsets import OffsetAdmin
from pocketmq.client.admin.topics import TopicAdmin


class Admin(BrokerAdmin, TopicAdmin, GroupAdmin, OffsetAdmin, MessageAdmin, AccessAdmin):
    """Sends admin requests to name servers and brokers; belongs to no group.

    Args:
        options: See `ClientConfig`.
    """
