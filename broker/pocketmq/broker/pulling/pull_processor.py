"""PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361): read, or wait for messages (B-55 to B-74)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

import structlog

from pocketmq.broker.admin.stats import BrokerStats
from pocketmq.broker.offsets.consumer_offsets import ConsumerOffsetManager
from pocketmq.broker.overload.overload import Overload, Work
from pocketmq.broker.pulling.broadcast_offsets import BroadcastOffsets
from pocketmq.broker.pulling.long_polling import HeldPull, PullRequestHoldTable
from pocketmq.broker.pulling.pull_checks import (
    FOUND,
    MOVED,
    NOT_FOUND,
    PullChecks,
    response_code,
    suggested_broker_id,
)
from pocketmq.broker.store import GetResult, GetStatus, MessageStore
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, error_reply, handles
from pocketmq.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from pocketmq.protocol.scalars import PullSysFlag
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.periodic import AT_REST

log = structlog.get_logger()

WOKEN_PER_TURN = 256
"""Held pulls that are answered in one turn of the loop."""

Defer: TypeAlias = Callable[[Callable[[], None]], object]
"""Calls a function soon, when the work at hand is done."""

OffsetMoved: TypeAlias = Callable[[PullMessageRequestHeader, int], None]
"""(pull, new offset): called when a pull is moved (B-65)."""


class PullProcessor:
    """Answers pulls from the store, and holds those that found nothing new.

    Args:
        store: what is read.
        checks: who may read what.
        offsets: commits that pulls carry, and resets that wait for a pull.
        held: the pulls that wait.
        stats: counts.
        overload: refuses what has waited too long.
        clock: measures how long pulls are held.
        defer: runs the pulls that arrivals woke, after the append that woke them.
        long_polling: hold as long as the consumer asks, and not just `short_polling_ms`.
        short_polling_ms: how long a pull is held otherwise.
        slave_read_enable: whether consumers that lag are sent to a slave.
        on_offset_moved: told of each 21; only 4.9 wants to know.
        broadcasts: where members of broadcasting groups pull; 4.9 does not note it
            (B-36).
    """

    def __init__(
        self,
        store: MessageStore,
        checks: PullChecks,
        offsets: ConsumerOffsetManager,
        held: PullRequestHoldTable,
        stats: BrokerStats,
        overload: Overload,
        clock: Clock,
        defer: Defer,
        *,
        long_polling: bool = True,
        short_polling_ms: int = 1000,
        slave_read_enable: bool = False,
        on_offset_moved: OffsetMoved | None = None,
        broadcasts: BroadcastOffsets | None = None,
    ) -> None:
        self._store = store
        self._checks = checks
        self._offsets = offsets
        self._held = held
        self._stats = stats
        self._overload = overload
        self._clock = clock
        self._defer = defer
        self._long_polling = long_polling
        self._short_polling_ms = short_polling_ms
        self._slave_read_enable = slave_read_enable
        self._on_offset_moved = on_offset_moved
        self._broadcasts = broadcasts
        self._woken: deque[HeldPull] = deque()
        self.on_hold: Callable[[], None] | None = None
        """Called after a pull begins to wait."""

    @handles(RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
    def pull(self, peer: Peer, request: Command) -> Reply:
        """The messages from an offset on; None when the pull is held."""
        self._overload.check(Work.PULL)
        return self._execute(peer, request, request.header(PullMessageRequestHeader), first=True)

    # -- waking ---------------------------------------------------------------------------------

    def arrived(self, topic: str, queue_id: int, max_offset: int, codes: Sequence[int]) -> None:
        """Messages became readable: answer who waits for them, once the append is done (B-72)."""
        self._answer_soon(self._held.arrived(topic, queue_id, max_offset, codes))

    def sweep(self) -> float | None:
        """Answer held pulls whose time is up or whose queue grew (B-71).

        Called every 5 s, but not while no pull is held.
        """
        self._answer_soon(self._held.due(self._clock.monotonic(), self._store.max_offset))
        return None if self._held else AT_REST

    def topic_gone(self, topic: str) -> None:
        """A topic was deleted: nobody waits for it any more."""
        self._answer_soon(self._held.release_topic(topic))
        if self._broadcasts is not None:
            self._broadcasts.forget_topic(topic)

    def peer_closed(self, peer: Peer) -> None:
        """A connection ended: its held pulls are dropped."""
        self._held.forget_peer(peer)

    def _answer_soon(self, woken: Sequence[HeldPull]) -> None:
        if woken:
            if not self._woken:
                self._defer(self._answer_woken)
            self._woken += woken

    def _answer_woken(self) -> None:
        """Answer some; the others in the next turns, so that nobody else waits for all of them."""
        woken = [self._woken.popleft() for _ in range(min(len(self._woken), WOKEN_PER_TURN))]
        if self._woken:
            self._defer(self._answer_woken)
        for pull in woken:
            self._run_again(pull)

    def _run_again(self, pull: HeldPull) -> None:
        """The whole pull once more; this time it is answered whatever it finds."""
        if not pull.peer.is_open:
            return
        request = pull.request
        try:
            reply = self._execute(pull.peer, request, pull.header, first=False)
        except Exception as exc:  # noqa: BLE001 - the topic or group may be gone; the peer hears
            reply = error_reply(pull.peer, request, exc)
        if reply is not None:
            pull.peer.reply(request, reply)

    # -- reading --------------------------------------------------------------------------------

    def _execute(
        self, peer: Peer, request: Command, header: PullMessageRequestHeader, *, first: bool
    ) -> Reply:
        now_ms = self._clock.time_ms()
        plan = self._checks.check(header, now_ms)
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        offset = header.queue_offset
        if first and header.sys_flag & PullSysFlag.COMMIT_OFFSET:
            # A replay would commit what the consumer said before it waited (B-35).
            self._commit(header, now_ms)
        broadcasts = self._broadcasts
        puller = None if broadcasts is None else broadcasts.puller(peer, header)
        moved_to = self._offsets.take_reset(group, topic, queue_id)
        if moved_to is None and broadcasts is not None and puller is not None:
            moved_to = broadcasts.init_offset(header, puller)
        if moved_to is not None:
            result = GetResult(
                GetStatus.OFFSET_RESET,
                moved_to,
                self._store.min_offset(topic, queue_id),
                self._store.max_offset(topic, queue_id),
            )
        else:
            result = self._store.get_message(
                topic,
                queue_id,
                offset,
                header.max_msg_nums,
                max_bytes=header.max_msg_bytes,
                accept=plan.accept,
            )
        self._offsets.note_pull(group, topic, queue_id, result.next_begin_offset)
        code = response_code(result.status, offset)
        if broadcasts is not None and puller is not None:
            pulled = result.next_begin_offset if code == MOVED else offset
            broadcasts.note(header, puller, pulled, self._clock.monotonic())
        if code == NOT_FOUND and first and header.sys_flag & PullSysFlag.SUSPEND:
            self._hold(HeldPull(peer, request, header, plan.subscription, self._deadline(header)))
            return None
        if code == MOVED and self._on_offset_moved is not None:
            self._on_offset_moved(header, result.next_begin_offset)
        self._stats.note_get(result.count, result.size_bytes, self._clock.monotonic())
        answer = PullMessageResponseHeader(
            suggest_which_broker_id=suggested_broker_id(
                plan.group,
                slow=result.suggest_pulling_from_slave,
                slave_read_enable=self._slave_read_enable,
            ),
            next_begin_offset=result.next_begin_offset,
            min_offset=result.min_offset,
            max_offset=result.max_offset,
        )
        body = result.records if code == FOUND else b""
        return request.reply(answer, body, code=code, remark=result.status.name)

    def _commit(self, header: PullMessageRequestHeader, now_ms: int) -> None:
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        if self._offsets.pending_reset(group, topic, queue_id) is None:
            self._offsets.commit(group, topic, queue_id, header.commit_offset, now_ms)

    def _deadline(self, header: PullMessageRequestHeader) -> float:
        held_ms = header.suspend_timeout_millis if self._long_polling else self._short_polling_ms
        return self._clock.monotonic() + max(0, held_ms) / 1000

    def _hold(self, pull: HeldPull) -> None:
        if pull.request.is_oneway:
            return
        # The frame's bytes stay alive with the request; the header is all that is needed of it.
        pull.request.ext = None
        pull.request.body = b""
        self._held.hold(pull)
        if self.on_hold is not None:
            self.on_hold()
