"""POP_MESSAGE, NOTIFICATION, POLLING_INFO and PEEK_MESSAGE: take messages, or wait for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.filters.message_filters import MessageFilter, MessageFilters
from pocketmq.broker.pop.checks import PopChecks
from pocketmq.broker.pop.pop_reads import ALL, Popper, PopRequest
from pocketmq.broker.pop.taken_points import HandOut, TakenPoints
from pocketmq.broker.pop.waiting import WaitingPop
from pocketmq.broker.pop.waking import WakingPops
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, error_reply, handles, handles_batch
from pocketmq.protocol.errors import FilterError, OverBudgetError
from pocketmq.protocol.headers.pop import (
    NotificationRequestHeader,
    NotificationResponseHeader,
    PeekMessageRequestHeader,
    PollingInfoRequestHeader,
    PollingInfoResponseHeader,
    PopMessageRequestHeader,
    PopMessageResponseHeader,
)
from pocketmq.protocol.messages.receipts import msg_offset_info, start_offset_info


class _Pop(NamedTuple):
    """A pop that has taken what there was."""

    peer: Peer
    request: Command
    header: PopMessageRequestHeader
    want: PopRequest
    deadline_ms: int
    out: HandOut
    took_s: float


class PopProcessor:
    """Answers POP_MESSAGE, POLLING_INFO and PEEK_MESSAGE.

    Args:
        core: store, clock, statistics and signals.
        checks: whether a group may pop a topic.
        popper: takes messages.
        points: stores what was taken.
        expressions: of pops.
    """

    def __init__(
        self,
        core: BrokerCore,
        checks: PopChecks,
        popper: Popper,
        points: TakenPoints,
        expressions: PopExpressions,
    ) -> None:
        self._core = core
        self._clock = core.clock
        self._checks = checks
        self._popper = popper
        self._points = points
        self._expressions = expressions
        self.waiting: WakingPops[PopMessageRequestHeader] = WakingPops(
            "waiting pops", core, self._again
        )

    @handles_batch(RequestCode.POP_MESSAGE)
    def pop(self, peers: Sequence[Peer], requests: Sequence[Command]) -> Sequence[Reply]:
        """Take messages, which are invisible to others for a while; None while a pop waits.

        The check points of all pops of one turn of the loop are one append to the log.
        """
        replies: list[Reply] = [None] * len(requests)
        pops: list[tuple[int, _Pop]] = []
        for index, (peer, request) in enumerate(zip(peers, requests, strict=True)):
            try:
                header = request.header(PopMessageRequestHeader)
                # Count from the client's time, because the client gives up by its own clock
                # (K-130).
                deadline_ms = (header.born_time or self._clock.time_ms()) + header.poll_time
                pop = self._take(peer, request, header, deadline_ms)
            except Exception as exc:  # noqa: BLE001 - one bad pop, and the others go on
                replies[index] = error_reply(peer, request, exc)
                continue
            if isinstance(pop, _Pop):
                pops.append((index, pop))
            else:
                replies[index] = pop
        stored = self._points.store([pop.out for _, pop in pops])
        for (index, pop), out in zip(pops, stored, strict=True):
            replies[index] = self._answer(pop, out)
        return replies

    @handles(RequestCode.POLLING_INFO)
    def polling_info(self, peer: Peer, request: Command) -> Reply:
        """How many pops wait under exactly this queue id."""
        header = request.header(PollingInfoRequestHeader)
        self._checks.read(
            header.topic, header.queue_id, header.consumer_group, self._clock.time_ms()
        )
        key = (header.topic, header.consumer_group, header.queue_id)
        return request.reply(PollingInfoResponseHeader(polling_num=self.waiting.table.count(key)))

    @handles(RequestCode.PEEK_MESSAGE)
    def peek(self, peer: Peer, request: Command) -> Reply:
        """Read messages without taking them."""
        header = request.header(PeekMessageRequestHeader)
        group, topic = header.consumer_group, header.topic
        config = self._checks.read(topic, header.queue_id, group, self._clock.time_ms())
        queues = range(config.read_queue_nums) if header.queue_id < 0 else [header.queue_id]
        out = self._popper.peek(group, topic, queues, header.max_msg_nums)
        answer = PopMessageResponseHeader(rest_num=out.rest)
        if not out.count:
            remark = "NO_MESSAGE_IN_QUEUE"
            return request.reply(answer, code=ResponseCode.PULL_NOT_FOUND, remark=remark)
        return request.reply(answer, out.records, remark="FOUND")

    # -- a pop ----------------------------------------------------------------------------------

    def _again(self, pop: WaitingPop[PopMessageRequestHeader]) -> Reply:
        """Run the whole pop once more (K-131); it waits on when it finds nothing."""
        taken = self._take(pop.peer, pop.request, pop.header, pop.deadline_ms)
        # Refused this time: the topic, the group or its permission may have changed.
        if not isinstance(taken, _Pop):
            return taken
        [out] = self._points.store([taken.out])
        return self._answer(taken, out)

    def _take(
        self, peer: Peer, request: Command, header: PopMessageRequestHeader, deadline_ms: int
    ) -> _Pop | Command:
        """Take messages whose check points are still to be stored; or the answer that refuses."""
        now_ms = self._clock.time_ms()
        try:
            config = self._checks.pop(header, deadline_ms - header.poll_time, now_ms)
            chosen = self._expressions.filter(header.topic, header.exp, header.exp_type)
        except (RequestRefusedError, OverBudgetError) as exc:
            # A client reads the header before it looks at the code (K-1, K-171).
            return request.reply(PopMessageResponseHeader(), code=exc.code, remark=str(exc))
        want = PopRequest(
            group=header.consumer_group,
            topic=header.topic,
            queue_id=header.queue_id,
            max_count=header.max_msg_nums,
            invisible_ms=header.invisible_time,
            from_last=header.init_mode == 1,
            filter=chosen,
            ordered=header.order,
            attempt_id=header.attempt_id,
        )
        began_at = self._clock.monotonic()
        out = self._popper.take(want, config.read_queue_nums, now_ms)
        took_s = self._clock.monotonic() - began_at
        return _Pop(peer, request, header, want, deadline_ms, out, took_s)

    def _answer(self, pop: _Pop, out: HandOut) -> Reply:
        """Hand out what was taken, or let the pop wait."""
        want, header, request = pop.want, pop.header, pop.request
        self._core.stats.note_get(
            want.topic, want.group, out.count, out.size_bytes, self._clock.monotonic(), pop.took_s
        )
        if out.count:
            self._count(want, out)
            if out.rest > 0:
                # Wake a pop that waits for the rest, as nothing else would (K-36, K-134).
                self.waiting.wake(want.topic, want.group, want.queue_id)
            return self._found(request, header, out)
        key = (want.topic, want.group, want.queue_id if want.queue_id >= 0 else -1)
        code: ResponseCode | None = ResponseCode.POLLING_TIMEOUT  # the client pops again at once
        may_wait = header.poll_time > 0 and not request.is_oneway
        # If the filter's limit is used up, the client asks again at once instead of waiting.
        if may_wait and out.filter_bytes_left > 0:
            code = self.waiting.table.refusal(key, pop.deadline_ms, out.pop_time_ms)
        if code is None:
            # Keep the parsed filter for later wakes.
            accept = want.filter.accept
            waiting = WaitingPop(pop.peer, request, header, key, pop.deadline_ms, accept)
            self.waiting.hold(waiting, header.text_bytes)
            return None
        answer = PopMessageResponseHeader(
            pop_time=out.pop_time_ms,
            invisible_time=header.invisible_time,
            revive_qid=out.revive_queue_id,
            rest_num=out.rest,
            start_offset_info="",
            msg_offset_info="",
            order_count_info="" if header.order else None,  # there, and empty (K-37)
        )
        return request.reply(answer, code=code, remark="NO_MESSAGE_IN_QUEUE")

    def _count(self, want: PopRequest, out: HandOut) -> None:
        """Count what was handed out, by where it comes from."""
        meters, again = self._core.stats.meters, (out.retried, out.retried_bytes)
        # Count retries separately: they belong to the group's retry topic.
        if out.retried:
            meters.popped_out(want.topic, want.group, *again, retry=True)
        if out.count > out.retried:
            first = out.count - out.retried, out.size_bytes - out.retried_bytes
            meters.popped_out(want.topic, want.group, *first, retry=False)

    def _found(self, request: Command, header: PopMessageRequestHeader, out: HandOut) -> Command:
        answer = PopMessageResponseHeader(
            pop_time=out.pop_time_ms,
            invisible_time=header.invisible_time,
            revive_qid=out.revive_queue_id,
            rest_num=out.rest,
            start_offset_info=start_offset_info(out.starts),
            msg_offset_info=msg_offset_info(out.offsets),
            order_count_info=";".join(out.order_counts) if header.order else None,
        )
        return request.reply(answer, out.records, remark="FOUND")


class PopExpressions:
    """Filters of the expressions that pops and notifications bring.

    Args:
        filters: parse and compile expressions.
    """

    def __init__(self, filters: MessageFilters) -> None:
        self._filters = filters

    def filter(
        self, topic: str, expression: str | None, expression_type: str | None
    ) -> MessageFilter:
        """The filter of an expression; an empty one takes all messages (K-31).

        SQL works whether or not `enable_property_filter` is on: RocketMQ looks at that for pulls.

        Raises:
            OverBudgetError: SUBSCRIPTION_PARSE_FAILED (23): it is too long.
            RequestRefusedError: SUBSCRIPTION_PARSE_FAILED (23).
        """
        if not expression:
            return ALL
        subscription = self._filters.parse(topic, expression, 0, expression_type)
        try:
            return self._filters.of(subscription, allowed=True)
        except FilterError as exc:
            raise RequestRefusedError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(exc)) from exc


class NotificationProcessor:
    """NOTIFICATION (200054): tells when a pop would find something (K-65).

    Args:
        core: clock and signals.
        checks: whether a group may pop a topic.
        popper: tells whether there are messages.
        expressions: of notifications.
    """

    def __init__(
        self, core: BrokerCore, checks: PopChecks, popper: Popper, expressions: PopExpressions
    ) -> None:
        self._expressions = expressions
        self._knows_expressions = core.profile.broker.pops_can_be_suspended
        self._core = core
        self._clock = core.clock
        self._checks = checks
        self._popper = popper
        self.waiting: WakingPops[NotificationRequestHeader] = WakingPops(
            "waiting notifications", core, self._again
        )

    @handles(RequestCode.NOTIFICATION)
    def notification(self, peer: Peer, request: Command) -> Reply:
        """Whether a pop would find a message; None while the request waits."""
        header = request.header(NotificationRequestHeader)
        born_ms = header.born_time or self._clock.time_ms()
        return self._execute(peer, request, header, born_ms + header.poll_time)

    def _again(self, pop: WaitingPop[NotificationRequestHeader]) -> Reply:
        return self._execute(pop.peer, pop.request, pop.header, pop.deadline_ms)

    def _execute(
        self, peer: Peer, request: Command, header: NotificationRequestHeader, deadline_ms: int
    ) -> Reply:
        now_ms = self._clock.time_ms()
        config = self._checks.read(header.topic, header.queue_id, header.consumer_group, now_ms)
        chosen = ALL
        # Up to 5.4, notifications carry no expression, so messages of any tag count (K-66).
        if self._knows_expressions and self._core.config.use_message_filter_for_notification:
            chosen = self._expressions.filter(header.topic, header.exp, header.exp_type)
        want = PopRequest(
            group=header.consumer_group,
            topic=header.topic,
            queue_id=header.queue_id,
            max_count=1,
            invisible_ms=0,
            from_last=False,
            filter=chosen,
            ordered=header.order,
            attempt_id=header.attempt_id,
        )
        if self._popper.has_message(want, config.read_queue_nums, now_ms):
            return request.reply(NotificationResponseHeader(has_msg=True))
        key = (want.topic, want.group, want.queue_id if want.queue_id >= 0 else -1)
        # Without waiting, the answer is that nothing is there, and the client asks again.
        code: ResponseCode | None = ResponseCode.POLLING_TIMEOUT
        if header.poll_time > 0 and not request.is_oneway:
            code = self.waiting.table.refusal(key, deadline_ms, now_ms)
        if code is None:
            waiting = WaitingPop(peer, request, header, key, deadline_ms, chosen.accept)
            self.waiting.hold(waiting, header.text_bytes)
            return None
        full = code is ResponseCode.POLLING_FULL
        return request.reply(NotificationResponseHeader(has_msg=False, polling_full=full))
