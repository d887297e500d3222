"""Pulls a range of one queue's offsets from its broker, with several requests at a time.

    range     [start .................................................. end)
    requests  [ 32 ][ 32 ][ 32 ][ 32 ]        each begins where the one before ends
    replies   in any order; yielded in the order of the offsets

A reply may have fewer messages than requested (brokers bound their number and bytes): then the rest
is requested in pieces of that size, and comes before what later replies have. The next range of the
queue begins with such pieces. With a subscription the end of a reply cannot be known beforehand, so
there is one request at a time.

While a broker has no master, its slave is pulled from. What a slave lacks is no loss, since it may
be behind: its master is waited for.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from pocketmq.pipeline.errors import BrokerAwayError, DataLossError
from pocketmq.pipeline.topics.cluster_client import ClusterClient
from pocketmq.pipeline.topics.patience import DEFAULT, Patience
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Buffer, Command
from pocketmq.protocol.errors import BrokerError, BrokerNotFoundError, RemotingError
from pocketmq.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.subscription import SUB_ALL
from pocketmq.protocol.scalars import PullSysFlag
from pocketmq.protocol.store_layout import FIXED_SIZE, RECORD
from pocketmq.protocol.transport.channel import Channel

DEPTH: Final = 8
"""Requests of one range that may be unanswered at a time."""
MOST_BYTES: Final = 4 * 1024 * 1024
"""Maximum bytes that a request asks for; brokers may have a smaller limit."""

_FULL_BEFORE_MORE: Final = 32
"""After this many full replies in a row, the next requests ask for twice as many messages; if
those are short, it takes twice as many full replies until that is tried again."""

_OFFSET_AT: Final = RECORD.offset_of("QUEUEOFFSET")
_OFFSET: Final = struct.Struct(">q")
READABLE: Final = (
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)
"""Answers without messages that say where there are some; any other one is a refusal."""


@dataclass(frozen=True, slots=True)
class PullOptions:
    """How a range is pulled."""

    group: str
    batch: int = 256
    """Maximum messages per request; a broker may send fewer (its own limit is 32 by default)."""
    timeout_s: float = 10.0
    patience: Patience = DEFAULT
    expression: str = SUB_ALL
    """A tag expression, as in a subscription: `TagA || TagB`."""
    fail_on_data_loss: bool = True
    expression_type: str = "TAG"
    """Or `SQL92`."""

    @property
    def is_filtered(self) -> bool:
        """Whether a reply may leave out messages."""
        return self.expression != SUB_ALL


class Reply(NamedTuple):
    """The records of one reply, one behind the other."""

    records: Buffer
    """A view of the block that the connection was read into."""
    low: int
    """Offset of the first record."""
    high: int
    """What the reply says of offsets from here on is not wanted. Those between `low` and `high`
    that have no record are not stored any more, or the subscription does not select them."""


@dataclass(slots=True)
class _Stretch:
    """The request for offsets [low, high) and its answer."""

    low: int
    high: int
    answer: asyncio.Future[Command] = field(repr=False)
    is_patient: bool
    """Whether it is repeated already when it is not answered."""
    channel: Channel | None = None
    """The connection that the answer came by."""


@dataclass(slots=True)
class RangePull:
    """One range being pulled; iterate over `replies`. Its coroutines run on the shared loop.

    Args:
        client: The connections to brokers.
        queue: The queue to pull from.
        start: First offset.
        end: The offset behind the last.
        options: How it is pulled.
    """

    client: ClusterClient
    queue: MessageQueue
    start: int
    end: int
    options: PullOptions
    lost: int = 0
    """Number of the range's messages that are not stored any more."""
    requests: int = 0
    """Pulls so far."""
    repeated: int = 0
    """Pulls that were not answered and therefore sent again."""
    _batch: int = 0
    _largest: int = 0
    """Messages of the longest reply, once there was a short one."""
    _full: int = 0
    _full_before_more: int = _FULL_BEFORE_MORE
    _next: int = 0
    _channel: Channel | None = None
    """The connection that the last request went by."""

    async def replies(self) -> AsyncIterator[list[Reply]]:
        """Yield the replies that have come, in the order of the offsets.

        Raises:
            DataLossError: Offsets of the range are not stored any more; with `fail_on_data_loss`.
            BrokerAwayError: Only a slave answers, and lacks messages; also without that option.
            BrokerError, RemotingError: The broker refused, or did not answer after all retries.
        """
        most = self.options.batch
        self._batch = min(self.client.reply_sizes.get(self.queue, most), most)
        self._next = self.start
        under_way: deque[_Stretch] = deque()
        ready: list[Reply] = []
        try:
            while True:
                # Requests go out before replies are yielded, so that brokers work while these are
                # decoded.
                self._ask_ahead(under_way)
                # Replies that are already here become one portion.
                if ready and not (under_way and under_way[0].answer.done()):
                    yield ready
                    ready = []
                if not under_way:
                    self._remember()
                    return
                first = under_way.popleft()
                response = await self._whole_answer(first)
                reached, reply = self._read(first, response)
                # Before the later requests, as replies are yielded in order.
                if reached < first.high:
                    under_way.extendleft(reversed(self._asked_rest(reached, first.high)))
                if reply is not None:
                    ready.append(reply)
        finally:
            for stretch in under_way:
                if not stretch.answer.cancel() and not stretch.answer.cancelled():
                    stretch.answer.exception()  # marked as seen: only the first error is raised

    def _ask_ahead(self, under_way: deque[_Stretch]) -> None:
        depth = 1 if self.options.is_filtered else DEPTH
        # With a filter, only the previous reply gives the next offset.
        while self._next < self.end and len(under_way) < depth:
            high = self.end if self.options.is_filtered else self._next + self._batch
            high = min(high, self.end)
            under_way.append(self._asked(self._next, high))
            self._next = high

    def _asked_rest(self, low: int, high: int) -> list[_Stretch]:
        """Requests for what a short reply has left, of the size that replies have."""
        if self.options.is_filtered:
            return [self._asked(low, high)]
        # As many requests as may be under way; the last one asks for all the rest.
        begins = list(range(low, high, self._batch))[:DEPTH]
        return [self._asked(*each) for each in pairwise([*begins, high])]

    def _asked(self, low: int, high: int) -> _Stretch:
        channel = self._channel
        if channel is not None and channel.is_open:  # no task, nor a look at the route
            self.requests += 1
            header = self._header(low, high)
            answer = channel.request(header, timeout_s=self.options.timeout_s)
            return _Stretch(low, high, answer, is_patient=False, channel=channel)
        later: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        stretch = _Stretch(low, high, later, is_patient=True)
        stretch.answer = asyncio.get_running_loop().create_task(
            self._pull(stretch), name=f"pull {low}"
        )
        return stretch

    async def _whole_answer(self, stretch: _Stretch) -> Command:
        """The answer to a request; where it lacks messages, the master's.

        Raises:
            BrokerAwayError: Only a slave answers, and has not all of the messages.
        """
        response = await self._answer(stretch)
        patience = self.options.patience
        for attempt in range(patience.retries + 1):
            # Only the master's answer counts; a slave may just be behind.
            if not self._lacks(stretch, response) or await self.client.leads_to_master(
                self.queue, stretch.channel
            ):
                return response
            if attempt == patience.retries:
                break
            if self._channel is stretch.channel:
                self._channel = None  # what is asked next goes to the master, once there is one
            self.client.forget_route(self.queue.topic)
            self.repeated += 1
            # `_pull` counts the request again.
            self.requests -= 1
            await patience.wait(self.client.clock, attempt)
            response = await self._pull(stretch)
        header = response.header(PullMessageResponseHeader)
        raise BrokerAwayError(
            f"{self.queue}: the master of {self.queue.broker_name} does not answer. Offsets "
            f"{stretch.low} to {self.end - 1} must be read, but its slave has only "
            f"{header.min_offset} to {header.max_offset - 1} (asked {patience.retries + 1} times "
            f"in {patience.all_s:g} s); start the master, or wait longer (options retries and "
            "retryIntervalMs)"
        )

    def _lacks(self, stretch: _Stretch, response: Command) -> bool:
        """Whether an answer, if it is the master's, says that messages are not stored."""
        low = stretch.low
        if response.code == ResponseCode.SUCCESS:
            records = response.body_view
            if self.options.is_filtered or len(records) < FIXED_SIZE:
                return False
            # The messages before the first record are not stored on this broker.
            return bool(_OFFSET.unpack_from(records, _OFFSET_AT)[0] > low)
        if response.code == ResponseCode.PULL_RETRY_IMMEDIATELY and self.options.is_filtered:
            # Slaves answer so where an offset is not stored there, too.
            header = response.header(PullMessageResponseHeader)
            is_stored = header.min_offset <= low < header.max_offset
            return not is_stored or response.remark == "MESSAGE_WAS_REMOVING"
        return True

    async def _answer(self, stretch: _Stretch) -> Command:
        """The answer to a request, which is repeated now if that was not done already."""
        try:
            return self._readable(await stretch.answer)
        # The connection broke: each request on it is repeated on a new one.
        except RemotingError:
            if stretch.is_patient:
                raise
        self._channel = None
        self.repeated += 1
        self.requests -= 1
        return await self._pull(stretch)

    def _readable(self, response: Command) -> Command:
        if response.code == 0 or response.code in READABLE:
            return response
        address = self._channel.address if self._channel is not None else ""
        raise BrokerError(response.code, response.remark, address=address)

    def _header(self, low: int, high: int) -> PullMessageRequestHeader:
        options = self.options
        return PullMessageRequestHeader(
            consumer_group=options.group,
            topic=self.queue.topic,
            queue_id=self.queue.queue_id,
            queue_offset=low,
            max_msg_nums=min(options.batch, high - low),
            max_msg_bytes=MOST_BYTES,
            sys_flag=PullSysFlag.SUBSCRIPTION,
            subscription=options.expression,
            expression_type=options.expression_type,
        )

    async def _pull(self, stretch: _Stretch) -> Command:
        options = self.options
        header = self._header(stretch.low, stretch.high)
        self.requests += 1
        self.repeated -= 1  # the first attempt is none

        async def ask() -> Command:
            self.repeated += 1
            channel = await self.client.channel(self.queue, slaves=True)
            self._channel = stretch.channel = channel
            return self._readable(await channel.request(header, timeout_s=options.timeout_s))

        return await options.patience.ask(
            self.client.clock, ask, (RemotingError, BrokerNotFoundError)
        )

    def _read(self, stretch: _Stretch, response: Command) -> tuple[int, Reply | None]:
        """The offset behind a reply, and the reply if it has records."""
        header = response.header(PullMessageResponseHeader)
        low, high = stretch.low, stretch.high
        if response.code == 0:
            # At least one further: a broker that returns the same offset would be asked for ever.
            reached = min(max(header.next_begin_offset, low + 1), high)
            records = response.body_view
            # The filter has removed all of them.
            if len(records) < FIXED_SIZE:
                return reached, None
            first: int = _OFFSET.unpack_from(records, _OFFSET_AT)[0]
            if self.options.is_filtered:
                return reached, Reply(records, first, reached)
            # Without a filter, missing messages before the first record are lost.
            if first > low:
                self._lose(low, min(first, reached))
            self._learn(reached - first, is_short=reached < high)
            return reached, Reply(records, first, reached)
        if response.code == ResponseCode.PULL_RETRY_IMMEDIATELY:
            reached = max(header.next_begin_offset, low + 1)
            if not self.options.is_filtered or response.remark == "MESSAGE_WAS_REMOVING":
                self._lose(low, min(reached, high))
            return reached, None
        # Retention has raised the queue's first offset meanwhile.
        if header.min_offset > low:
            self._lose(low, min(header.min_offset, high), header.min_offset)
            return header.min_offset, None
        # The queue ends before the range does: it was created again, or its store was replaced.
        if self.options.fail_on_data_loss:
            raise DataLossError(str(self.queue), low, header.max_offset)
        self.lost += high - low
        return high, None

    def _learn(self, count: int, *, is_short: bool) -> None:
        """Adapt the requests to the size of replies: after a short one the rest takes a request."""
        if is_short:
            # Longer requests did not help, so the next attempt comes later.
            if count < self._batch:
                self._full_before_more *= 2
            self._batch, self._full = count, 0
            self._largest = max(self._largest, count)
            return
        if self._largest:
            self._largest = max(self._largest, count)
        self._full += 1
        if self._full == self._full_before_more and self._batch < self.options.batch:
            self._batch, self._full = min(2 * self._batch, self.options.batch), 0

    def _remember(self) -> None:
        """Let the next range of this queue begin with requests of the size that replies have."""
        # Kept for this process, so that the queue's next task need not find it out again.
        known = self._largest or self._batch
        if known < self.options.batch:
            self.client.reply_sizes[self.queue] = known
        else:
            self.client.reply_sizes.pop(self.queue, None)

    def _lose(self, low: int, high: int, found: int | None = None) -> None:
        if self.options.fail_on_data_loss:
            raise DataLossError(str(self.queue), low, found or high)
        self.lost += high - low
