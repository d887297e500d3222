"""One coroutine per request that a client sends, name by name as in `protocol/headers`.

Sends and pulls have their own callers (producer, pull service), which use the channels directly;
everything else goes through here. Timeouts are real time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from pocketmq.client.name_servers import NameServers
from pocketmq.protocol.bodies.clients import (
    CheckClientRequestBody,
    ConsumerList,
    HeartbeatData,
    LockBatchBody,
    LockedQueues,
)
from pocketmq.protocol.bodies.pop import QueryAssignmentBody, QueueAssignment, QueueAssignments
from pocketmq.protocol.bodies.route import TopicRouteData
from pocketmq.protocol.body import BodyT, decode_body
from pocketmq.protocol.budget import DEFAULT_BUDGET
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Body, Command
from pocketmq.protocol.errors import BrokerError, NoNameServerError, RemotingError
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.clients import (
    CheckClientConfigRequestHeader,
    GetConsumerListRequestHeader,
    HeartbeatRequestHeader,
    HeartbeatResponseHeader,
    UnregisterClientRequestHeader,
)
from pocketmq.protocol.headers.locks import LockBatchMqRequestHeader, UnlockBatchMqRequestHeader
from pocketmq.protocol.headers.offsets import (
    EarliestStoreTimeResponseHeader,
    GetEarliestStoreTimeRequestHeader,
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    OffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from pocketmq.protocol.headers.pop import QueryAssignmentRequestHeader
from pocketmq.protocol.headers.route import GetRouteInfoRequestHeader
from pocketmq.protocol.headers.send import ConsumerSendMsgBackRequestHeader
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.subscription import SubscriptionData
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.runtime.clock import Clock

SEND_BACK_TIMEOUT_S: Final = 5.0
UPDATE_OFFSET_TIMEOUT_S: Final = 5.0
LOCK_TIMEOUT_S: Final = 1.0


class ClientApi:
    """Requests of one client instance.

    Args:
        remoting: Its channels.
        clock: Waits for answers, so that a manual clock knows of it.
        name_servers: The name servers to ask for routes.
        timeout_s: Default for every request.
        on_new_channel: Called with the address after a connection was made.
        usual_boundary: Which offset a search by time names when its caller does not say (S-41).
    """

    def __init__(
        self,
        remoting: RemotingClient,
        clock: Clock,
        name_servers: NameServers,
        *,
        timeout_s: float = 3.0,
        on_new_channel: Callable[[str], None] | None = None,
        usual_boundary: str | None = "LOWER",
    ) -> None:
        self.remoting = remoting
        self.name_servers = name_servers
        self.timeout_s = timeout_s
        self._clock = clock
        self._on_new_channel = on_new_channel
        self._usual_boundary = usual_boundary

    # -- sending --------------------------------------------------------------------------------

    async def channel(self, address: str) -> Channel:
        """The open channel to an address; raises `ConnectError`."""
        channel = self.remoting.open_channel(address)
        if channel is not None:
            return channel
        channel = await self.remoting.channel(address)
        if self._on_new_channel is not None:
            self._on_new_channel(address)
        return channel

    async def call(
        self,
        address: str,
        header: Header,
        body: Body | msgspec.Struct = b"",
        *,
        ok: Sequence[int] = (),
        timeout_s: float | None = None,
    ) -> Command:
        """Ask one process.

        Args:
            address: `host:port`.
            header: Names the request.
            body: Bytes or a structured body.
            ok: Response codes besides 0 that the caller understands.
            timeout_s: Real seconds for the answer.

        Raises:
            BrokerError: any other response code.
            RemotingError: the process could not be asked or did not answer.
        """
        channel = await self.channel(address)
        answer = channel.request(
            header, body, timeout_s=self.timeout_s if timeout_s is None else timeout_s
        )
        response = await self._clock.peer_answer(answer, address)
        if response.code == 0 or response.code in ok:
            return response
        raise BrokerError(response.code, response.remark, address=address)

    async def call_for_body(
        self,
        address: str,
        header: Header,
        body_type: type[BodyT],
        body: Body | msgspec.Struct = b"",
        *,
        timeout_s: float | None = None,
    ) -> BodyT:
        """`call`, for the structured body of the answer."""
        response = await self.call(address, header, body, timeout_s=timeout_s)
        return decode_body(response.body_view, body_type, response.encoding)

    def open_channel(self, address: str) -> Channel | None:
        """The channel to an address if it is open; for who would rather not wait."""
        return self.remoting.open_channel(address)

    async def oneway(self, address: str, header: Header, body: Body | msgspec.Struct = b"") -> None:
        """Send one process a oneway request; raises `ConnectError` only."""
        (await self.channel(address)).oneway(header, body)

    # -- name servers ---------------------------------------------------------------------------

    async def ask_name_server(self, header: Header, *, ok: Sequence[int] = ()) -> Command:
        """Ask the name server in use, and the others in turn while they cannot be reached (P-9).

        Raises:
            NoNameServerError: none is configured, or none answers.
            BrokerError: it answered with an error code.
        """
        names = self.name_servers
        failure: RemotingError | None = None
        for _ in range(len(names)):
            address = names.current
            try:
                return await self.call(address, header, ok=ok)
            except RemotingError as exc:
                failure = exc
                names.failed(address)
        # Where nobody listens, the addresses say it all. A certificate or a proof that was refused
        # is something else to mend.
        is_away = failure is None or isinstance(failure.__cause__, ConnectionRefusedError)
        reason = "" if is_away else str(failure)
        raise NoNameServerError(tuple(names.addresses), reason) from failure

    async def route(self, topic: str) -> TopicRouteData | None:
        """Where a topic's queues are; None when the name server knows no route (P-11).

        Raises:
            OverBudgetError: the route names more queues than a topic may have.
        """
        header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
        response = await self.ask_name_server(header, ok=(ResponseCode.TOPIC_NOT_EXIST,))
        if response.code == ResponseCode.TOPIC_NOT_EXIST or not response.body_view:
            return None
        route = decode_body(response.body_view, TopicRouteData, response.encoding)
        _check_queues(topic, route)
        return route

    # -- the client and its groups --------------------------------------------------------------

    async def heartbeat(self, address: str, data: HeartbeatData) -> HeartbeatResponseHeader:
        """Send a heartbeat with the client's groups: HEART_BEAT (34)."""
        response = await self.call(address, HeartbeatRequestHeader(), data)
        return response.header(HeartbeatResponseHeader)

    async def unregister(
        self,
        address: str,
        client_id: str,
        *,
        producer_group: str | None = None,
        consumer_group: str | None = None,
    ) -> None:
        """Leave a group: UNREGISTER_CLIENT (35)."""
        header = UnregisterClientRequestHeader(
            client_id=client_id, producer_group=producer_group, consumer_group=consumer_group
        )
        await self.call(address, header)

    async def consumer_ids(self, address: str, group: str) -> list[str]:
        """Client ids of a group as one broker knows them; `BrokerError` when it knows none.

        Asks by GET_CONSUMER_LIST_BY_GROUP (38).
        """
        header = GetConsumerListRequestHeader(consumer_group=group)
        return (await self.call_for_body(address, header, ConsumerList)).consumer_id_list

    async def query_assignment(
        self, address: str, body: QueryAssignmentBody
    ) -> list[QueueAssignment] | None:
        """Which queues of a topic a broker gives us; None: it cannot tell (K-22).

        Asks by QUERY_ASSIGNMENT (400). An empty list says: give up everything.
        """
        answer = await self.call_for_body(
            address, QueryAssignmentRequestHeader(), QueueAssignments, body
        )
        return answer.message_queue_assignments

    async def check_client(
        self, address: str, client_id: str, group: str, subscription: SubscriptionData
    ) -> None:
        """Have a broker check a subscription; `BrokerError` when it does not understand it.

        Asks by CHECK_CLIENT_CONFIG (46).
        """
        body = CheckClientRequestBody(
            client_id=client_id, group=group, subscription_data=subscription
        )
        await self.call(address, CheckClientConfigRequestHeader(), body)

    async def lock_queues(
        self, address: str, client_id: str, group: str, queues: Sequence[MessageQueue]
    ) -> list[MessageQueue]:
        """Those of the queues that are ours now: LOCK_BATCH_MQ (41, B-46)."""
        body = LockBatchBody(consumer_group=group, client_id=client_id, mq_set=list(queues))
        locked = await self.call_for_body(
            address, LockBatchMqRequestHeader(), LockedQueues, body, timeout_s=LOCK_TIMEOUT_S
        )
        return locked.lock_ok_mq_set

    async def unlock_queues(
        self,
        address: str,
        client_id: str,
        group: str,
        queues: Sequence[MessageQueue],
        *,
        oneway: bool,
    ) -> None:
        """Let others lock them: UNLOCK_BATCH_MQ (42, B-48)."""
        body = LockBatchBody(consumer_group=group, client_id=client_id, mq_set=list(queues))
        if oneway:
            await self.oneway(address, UnlockBatchMqRequestHeader(), body)
        else:
            await self.call(address, UnlockBatchMqRequestHeader(), body, timeout_s=LOCK_TIMEOUT_S)

    # -- offsets --------------------------------------------------------------------------------

    async def consumer_offset(self, address: str, group: str, queue: MessageQueue) -> int | None:
        """The group's consumer offset; None when the broker has nothing stored (B-34).

        Asks by QUERY_CONSUMER_OFFSET (14).
        """
        header = QueryConsumerOffsetRequestHeader(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            bname=queue.broker_name,
        )
        response = await self.call(address, header, ok=(ResponseCode.QUERY_NOT_FOUND,))
        if response.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        return response.header(OffsetResponseHeader).offset

    async def update_consumer_offset(
        self, address: str, group: str, queue: MessageQueue, offset: int, *, oneway: bool = True
    ) -> None:
        """The next offset that the group will consume: UPDATE_CONSUMER_OFFSET (15)."""
        header = commit_header(group, queue, offset)
        if oneway:
            await self.oneway(address, header)
        else:
            await self.call(address, header, timeout_s=UPDATE_OFFSET_TIMEOUT_S)

    async def max_offset(
        self, address: str, queue: MessageQueue, *, timeout_s: float | None = None
    ) -> int:
        """The offset that the queue's next message will get: GET_MAX_OFFSET (30)."""
        header = GetMaxOffsetRequestHeader(
            topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name
        )
        response = await self.call(address, header, timeout_s=timeout_s)
        return response.header(OffsetResponseHeader).offset

    async def min_offset(self, address: str, queue: MessageQueue) -> int:
        """The queue's oldest offset still stored: GET_MIN_OFFSET (31)."""
        header = GetMinOffsetRequestHeader(
            topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name
        )
        return (await self.call(address, header)).header(OffsetResponseHeader).offset

    async def search_offset(
        self, address: str, queue: MessageQueue, time_ms: int, *, boundary: str | None = None
    ) -> int:
        """The first offset stored at or after a moment: SEARCH_OFFSET_BY_TIMESTAMP (29).

        Args:
            address: Of the queue's broker.
            queue: The queue.
            time_ms: The moment, in epoch ms.
            boundary: `UPPER` for the last one stored at or before it; `LOWER` otherwise.
        """
        header = SearchOffsetRequestHeader(
            topic=queue.topic,
            queue_id=queue.queue_id,
            timestamp=time_ms,
            boundary_type=boundary or self._usual_boundary,
            bname=queue.broker_name,
        )
        return (await self.call(address, header)).header(OffsetResponseHeader).offset

    async def earliest_store_time(self, address: str, queue: MessageQueue) -> int:
        """When the queue's oldest message was stored, in epoch ms; -1 if it has none.

        Asks by GET_EARLIEST_MSG_STORETIME (32).
        """
        header = GetEarliestStoreTimeRequestHeader(
            topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name
        )
        response = await self.call(address, header)
        return response.header(EarliestStoreTimeResponseHeader).timestamp

    # -- messages -------------------------------------------------------------------------------

    async def send_back(self, address: str, header: ConsumerSendMsgBackRequestHeader) -> None:
        """Have a message delivered again, later: CONSUMER_SEND_MSG_BACK (36)."""
        await self.call(address, header, timeout_s=SEND_BACK_TIMEOUT_S)


def _check_queues(topic: str, route: TopicRouteData) -> None:
    """Check that a route does not name too many queues.

    Raises:
        OverBudgetError: a broker claims to have millions of them.
    """
    for data in route.queue_datas:
        DEFAULT_BUDGET.check(
            "queues_per_topic",
            max(data.read_queue_nums, data.write_queue_nums),
            f"queues of topic {topic} on broker {data.broker_name} by its route",
            advice="change the topic's queue numbers on that broker",
        )


def commit_header(
    group: str, queue: MessageQueue, offset: int
) -> UpdateConsumerOffsetRequestHeader:
    """UPDATE_CONSUMER_OFFSET (15)."""
    return UpdateConsumerOffsetRequestHeader(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        commit_offset=offset,
        bname=queue.broker_name,
    )
