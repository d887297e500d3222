"""PullMessageService: sends the pulls of all consumers of one client (C-35).

Every owned queue has exactly one `PullRequest`, which is either in the queue of this service,
under way at a broker, or put off by a timer. No task per pull: an answer is a callback of its
future. Only what must wait for something else first (a connection, a route, a start offset)
becomes a task.

    execute_now -> before_pull -> request ... answered -> consumer.pulled -> execute_now

One queue with a message every now and then (seconds on the clock):

     0.0   pull from 7; nothing is there, the broker holds the pull         B-70
     4.2   message 7 comes: FOUND, next offset 8; pull from 8 at once
    19.2   15 s are over: PULL_NOT_FOUND (19); pull from 8 again at once    C-40
    20.0   the connection breaks: put off for 1 s, then a new connection; where the broker has
           replicas the route is asked for meanwhile, for another one may be master W-12
    51.0   no answer for 30 s: given up, put off for 1 s, asked again

A broker that stands still breaks no connection. Where it has replicas, a pull that is out for 16 s
has the route asked for, each second (W-12); and whenever a route names another broker in place of
the one that was asked, the pull is given up and goes to that one at once.

The same request object is used again and again. Dropping a queue does not cancel it: its next
`before_pull` finds the claim dropped and forgets it (C-36).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from pocketmq.client.api import ClientApi
from pocketmq.client.broker_addresses import BrokerAddresses
from pocketmq.client.pulling.pull_plan import (
    CONSUMER_TIMEOUT_WHEN_SUSPEND_MS,
    EXCEPTION_DELAY_MS,
    OVERDUE_MS,
    STATUS_BY_CODE,
    BeforePull,
    PullRequest,
    PullStatus,
    Step,
    delay_after_code_ms,
)
from pocketmq.client.routes import BrokerAddress
from pocketmq.protocol.command import Command
from pocketmq.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt, MessageQueue
from pocketmq.protocol.stored.record import decode_records
from pocketmq.protocol.transport.channel import Channel
from pocketmq.runtime.clock import Clock, Timer
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.tasks import TaskOwner

log = structlog.get_logger()

FAILOVER_DELAY_MS: Final = 500
"""In place of a second where another broker may be master soon (W-12); a new route ends it."""

_LEFT_S: Final = (CONSUMER_TIMEOUT_WHEN_SUSPEND_MS - OVERDUE_MS) / 1000
_LOOK_S: Final = 1.0

NO_REAL_TIMEOUT_S: Final = 7 * 24 * 3600.0
"""A held pull waits for protocol time, not for input and output: its 30 s run on the clock."""


class PullingConsumer(Protocol):
    """The interface of a consumer for the pull service."""

    @property
    def group(self) -> str: ...

    def before_pull(self, request: PullRequest) -> BeforePull:
        """Whether to pull now."""
        ...

    def pull_header(self, request: PullRequest, broker: BrokerAddress) -> PullMessageRequestHeader:
        """The request to send."""
        ...

    async def find_start(self, request: PullRequest) -> bool:
        """Set `next_offset` anew under the lock; whether that worked (C-36)."""
        ...

    def pulled(
        self,
        request: PullRequest,
        status: PullStatus,
        header: PullMessageResponseHeader,
        messages: list[MessageExt],
    ) -> int | None:
        """Take an answer; when to pull again in ms, or None if never (C-41..C-43)."""
        ...


class PullMessageService:
    """One loop for all pulls of a client instance.

    Args:
        clock: Runs delays and the 30 s of a held pull.
        api: Opens channels.
        addresses: Where brokers are.
        tasks: Owns the tasks of pulls that must wait for something first.
        suspect: Told of a queue whose broker did not answer, or refused; whether another may lead.
            Its question for the route ends in `routes_changed`.
        max_body_bytes: How far a compressed body may grow.
    """

    def __init__(
        self,
        clock: Clock,
        api: ClientApi,
        addresses: BrokerAddresses,
        tasks: TaskOwner,
        suspect: Callable[[MessageQueue], bool],
        *,
        max_body_bytes: int,
    ) -> None:
        self._clock = clock
        self._max_body_bytes = max_body_bytes
        self._api = api
        self._addresses = addresses
        self._routes = addresses.routes
        self._tasks = tasks
        self._suspect = suspect
        self._due: deque[tuple[PullingConsumer, PullRequest]] = deque()
        self._scheduled = False
        self._stopped = False
        self._under_way: dict[PullRequest, _UnderWay] = {}
        """In the order of their deadlines, since every pull gets the same 30 s."""
        self._waiting: dict[PullRequest, tuple[PullingConsumer, Timer]] = {}
        """Put off until another broker may be master."""
        self._changes_seen = self._routes.changes
        self._timer: Timer | None = None
        self._overdue_timer: Timer | None = None

    def execute_now(self, consumer: PullingConsumer, request: PullRequest) -> None:
        """Pull as soon as the loop gets to it."""
        if self._stopped:
            return
        self._due.append((consumer, request))
        if not self._scheduled:
            self._scheduled = True
            # All pulls that are due in this turn go out together, in one write for each broker.
            asyncio.get_running_loop().call_soon(self._run)

    def execute_later(self, consumer: PullingConsumer, request: PullRequest, delay_ms: int) -> None:
        """Pull after a while."""
        if delay_ms <= 0:
            self.execute_now(consumer, request)
        elif not self._stopped:
            self._clock.call_at(
                self._clock.monotonic() + delay_ms / 1000,
                lambda: self.execute_now(consumer, request),
            )

    def stop(self) -> None:
        """Start no more pulls and take no more answers."""
        self._stopped = True
        self._due.clear()
        for timer in (
            self._timer,
            self._overdue_timer,
            *(each for _, each in self._waiting.values()),
        ):
            if timer is not None:
                timer.cancel()
        self._timer = self._overdue_timer = None
        self._waiting.clear()
        for under_way in list(self._under_way.values()):
            under_way.answer.cancel()
        self._under_way.clear()

    def routes_changed(self) -> None:
        """Pull anew at once where a broker is no longer what it was asked as, or failed.

        All pulls are looked at once after a change of addresses, however many routes tell of it.
        """
        if self._routes.changes == self._changes_seen:
            return
        self._changes_seen = self._routes.changes
        for request, (consumer, timer) in list(self._waiting.items()):
            timer.cancel()
            del self._waiting[request]
            self.execute_now(consumer, request)
        for request, under_way in list(self._under_way.items()):
            asked = under_way.broker
            now = self._routes.broker(request.queue.broker_name, asked.broker_id, only_this=True)
            # Another address has the role that was asked, such as a new master. The old one may
            # hold the pull for 15 s more, and answer without what was sent meanwhile.
            if now is not None and now.broker_id == asked.broker_id and now != asked:
                del self._under_way[request]
                under_way.answer.cancel()
                log.info("pull.moved", queue=str(request.queue), broker=now.address)
                self.execute_now(under_way.consumer, request)

    # -- inside ---------------------------------------------------------------------------------

    # behaviours 1 and 66
    def _run(self) -> None:
        self._scheduled = False
        due, self._due = self._due, deque()
        for consumer, request in due:
            try:
                self._pull(consumer, request)
            except Exception:  # a queue whose pull is lost would never be pulled again
                log.exception("pull.failed", group=consumer.group, queue=str(request.queue))
                self.execute_later(consumer, request, EXCEPTION_DELAY_MS)

    def _pull(self, consumer: PullingConsumer, request: PullRequest) -> None:
        """Send a pull, or do what is to be done before it: wait, connect, give it up (C-36)."""
        step, delay_ms, reason = consumer.before_pull(request)
        request.waits_for = reason
        if step is Step.PULL:
            broker = self._routes.broker(request.queue.broker_name, request.suggested_broker_id)
            channel = None if broker is None else self._api.remoting.open_channel(broker.address)
            # Only a pull that must wait for a connection gets a task.
            if broker is None or channel is None:
                self._tasks.start(self._connect(consumer, request), name=f"connect {request}")
            else:
                self._send(consumer, request, broker, channel)
        elif step is Step.WAIT:
            self.execute_later(consumer, request, delay_ms)
        elif step is Step.FIND_START:
            self._tasks.start(self._find_start(consumer, request), name=f"start of {request}")
        else:
            log.debug("pull.forgotten", group=consumer.group, queue=str(request.queue))

    async def _connect(self, consumer: PullingConsumer, request: PullRequest) -> None:
        """Open the channel that a pull needs; the pull itself then goes its usual way."""
        queue = request.queue
        try:
            broker = self._routes.broker(queue.broker_name, request.suggested_broker_id)
            if broker is None:
                # The route may be old. Asking for it anew may find the broker, or a slave of it.
                broker = await self._addresses.any_replica(queue)
            await self._api.channel(broker.address)
        except PocketMQError as exc:
            self._put_off(consumer, request, str(exc))
            return
        self.execute_now(consumer, request)

    async def _find_start(self, consumer: PullingConsumer, request: PullRequest) -> None:
        if await consumer.find_start(request):
            self.execute_now(consumer, request)
        else:
            self._put_off(consumer, request, "the start offset is not known")

    def _send(
        self,
        consumer: PullingConsumer,
        request: PullRequest,
        broker: BrokerAddress,
        channel: Channel,
    ) -> None:
        header = consumer.pull_header(request, broker)
        answer = channel.request(header, timeout_s=NO_REAL_TIMEOUT_S)
        deadline = self._clock.monotonic() + CONSUMER_TIMEOUT_WHEN_SUSPEND_MS / 1000
        # Noted before the answer can come: in memory it may be there at once.
        self._under_way[request] = _UnderWay(consumer, broker, answer, deadline)
        # Deadlines only grow, so the timer for the oldest pull serves all behind it.
        if self._timer is None:
            self._timer = self._clock.call_at(deadline, self._expire)
        if self._overdue_timer is None and self._routes.may_fail_over(request.queue.broker_name):
            self._overdue_timer = self._clock.call_at(deadline - _LEFT_S, self._look_for_masters)
        answer.add_done_callback(lambda done: self._answered(consumer, request, done))

    def _answered(
        self, consumer: PullingConsumer, request: PullRequest, answer: asyncio.Future[Command]
    ) -> None:
        """A pull has ended: hand its answer over, and plan the next pull of the queue (C-40)."""
        # Cancelled by `stop`, by a new route or after 30 s: that code has decided what follows.
        if answer.cancelled():
            return
        error = answer.exception()
        under_way = self._under_way.get(request)
        if under_way is None or under_way.answer is not answer:
            return  # it came as its pull was given up: the queue is pulled anew, from where it was
        del self._under_way[request]
        if error is not None:
            self._put_off(consumer, request, str(error))
            return
        try:
            again_ms = self._take(consumer, request, answer.result())
        except Exception as exc:  # a broken answer must not stop its queue for ever
            log.exception("pull.answer_refused", group=consumer.group, queue=str(request.queue))
            self._put_off(consumer, request, str(exc))
            return
        if again_ms is not None:
            self.execute_later(consumer, request, again_ms)

    def _take(
        self, consumer: PullingConsumer, request: PullRequest, response: Command
    ) -> int | None:
        status = STATUS_BY_CODE.get(response.code)
        if status is None:
            log.info(
                "pull.refused",
                group=consumer.group,
                queue=str(request.queue),
                code=response.code,
                remark=response.remark,
            )
            delay_ms = delay_after_code_ms(response.code)
            # FLOW_CONTROL comes from a live but busy broker: do not look for another master.
            if self._suspect(request.queue) and delay_ms == EXCEPTION_DELAY_MS:
                self._wait_for_master(consumer, request)
                return None
            return delay_ms
        header = response.header(PullMessageResponseHeader)
        # A master that is short of memory sends its readers to a slave, and later calls them back
        # (C-38).
        request.suggested_broker_id = header.suggest_which_broker_id
        messages: list[MessageExt] = []
        if status is PullStatus.FOUND:
            messages = decode_records(
                response.body_view,
                broker_name=request.queue.broker_name,
                max_body_bytes=self._max_body_bytes,
                notes={names.MIN_OFFSET: header.min_offset, names.MAX_OFFSET: header.max_offset},
            )
        return consumer.pulled(request, status, header, messages)

    def _put_off(self, consumer: PullingConsumer, request: PullRequest, reason: str) -> None:
        request.waits_for = reason
        may_fail_over = self._suspect(request.queue)
        log.info("pull.put_off", group=consumer.group, queue=str(request.queue), reason=reason)
        if may_fail_over:
            self._wait_for_master(consumer, request)
        else:
            self.execute_later(consumer, request, EXCEPTION_DELAY_MS)

    def _wait_for_master(self, consumer: PullingConsumer, request: PullRequest) -> None:
        if self._stopped:
            return

        def again() -> None:
            del self._waiting[request]
            self.execute_now(consumer, request)

        at = self._clock.monotonic() + FAILOVER_DELAY_MS / 1000
        self._waiting[request] = consumer, self._clock.call_at(at, again)

    def _look_for_masters(self) -> None:
        """Suspect the brokers of pulls that should have been answered by now (W-12)."""
        self._overdue_timer = None
        now = self._clock.monotonic()
        later: float | None = None
        for request, under_way in self._under_way.items():
            if not self._routes.may_fail_over(request.queue.broker_name):
                continue
            overdue_at = under_way.deadline - _LEFT_S
            if overdue_at > now:
                later = min(later or overdue_at, overdue_at)
                break  # the others were sent later
            self._suspect(request.queue)
            later = now + _LOOK_S
        if later is not None:
            self._overdue_timer = self._clock.call_at(later, self._look_for_masters)

    def _expire(self) -> None:
        """End pulls that were held beyond their 30 s; one timer serves them all."""
        self._timer = None
        now = self._clock.monotonic()
        late: list[tuple[PullRequest, _UnderWay]] = []
        for request, under_way in self._under_way.items():
            if under_way.deadline > now:
                self._timer = self._clock.call_at(under_way.deadline, self._expire)
                break
            # Collect first: putting a pull off changes the mapping that is iterated.
            late.append((request, under_way))
        for request, under_way in late:
            del self._under_way[request]
            under_way.answer.cancel()
            self._put_off(under_way.consumer, request, "the broker did not answer within 30 s")


class _UnderWay:
    __slots__ = ("answer", "broker", "consumer", "deadline")

    def __init__(
        self,
        consumer: PullingConsumer,
        broker: BrokerAddress,
        answer: asyncio.Future[Command],
        deadline: float,
    ) -> None:
        self.consumer = consumer
        self.broker = broker
        self.answer = answer
        self.deadline = deadline
