"""Reads queues as RocketMQ's tools do: in the name of a group that every broker has.

No heartbeat is sent, no group is created and no offset is committed.
"""

from __future__ import annotations

from pocketmq.client.api import ClientApi
from pocketmq.client.consumer.pull.pull_consumer import PullResult, read_pull
from pocketmq.client.pulling.pull_plan import STATUS_BY_CODE
from pocketmq.client.selector import MessageSelector
from pocketmq.protocol.headers.pull import PullMessageRequestHeader
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.subscription import TAG
from pocketmq.protocol.messages.validation import TOOLS_CONSUMER_GROUP
from pocketmq.protocol.scalars import PullSysFlag


async def read_queue(
    api: ClientApi,
    address: str,
    queue: MessageQueue,
    expression: str | MessageSelector,
    offset: int,
    *,
    max_count: int,
    wait_ms: int,
    max_body_bytes: int,
) -> PullResult:
    """Pull once; see `Admin.read`."""
    subscription = MessageSelector.of(expression, TAG).subscription(queue.topic, 0)
    header = PullMessageRequestHeader(
        consumer_group=TOOLS_CONSUMER_GROUP,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=max_count,
        sys_flag=PullSysFlag.SUBSCRIPTION | (PullSysFlag.SUSPEND if wait_ms else 0),
        suspend_timeout_millis=wait_ms,
        subscription=subscription.sub_string,
        expression_type=subscription.expression_type,
        bname=queue.broker_name,
    )
    response = await api.call(
        address, header, ok=tuple(STATUS_BY_CODE), timeout_s=api.timeout_s + wait_ms / 1000
    )
    return read_pull(response, queue, subscription, max_body_bytes)
