"""PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361): read, or wait for messages (B-55 to B-74).

A pull names a queue and an offset. The consumer decides where it goes on, so the broker keeps no
position for it between two pulls. Of a queue that holds messages 10 to 19:

    from   answer                            goes on at
    12     SUCCESS (0), messages 12 to 19    20
    20     nothing new: held, if it may be   20
    3      PULL_OFFSET_MOVED (21)            10: what was before is deleted
    25     PULL_OFFSET_MOVED (21)            20: there never was such a message
    12     PULL_RETRY_IMMEDIATELY (20)       20: none of them has its tag

A pull may be held when its sysFlag has SUSPEND. If no message comes in time, the answer is
PULL_NOT_FOUND (19), and the consumer pulls again from 20.

`PullReader` reads and answers; `PullProcessor` takes the requests, and has those wait that found
nothing new. A pull that was woken is read `again`, with all its checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.holding.held_requests import HeldRequests
from pocketmq.broker.offsets.consumer_offsets import ConsumerOffsetManager
from pocketmq.broker.overload.overload import Overload, Work
from pocketmq.broker.pulling.broadcast_offsets import BroadcastOffsets
from pocketmq.broker.pulling.pull_checks import (
    FOUND,
    MOVED,
    NOT_FOUND,
    HeldPull,
    PullChecks,
    SlaveReads,
    response_code,
)
from pocketmq.broker.pulling.pull_reports import PullReports
from pocketmq.broker.stats.broker_stats import BrokerStats
from pocketmq.broker.store import GetResult, GetStatus, QueueReads
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from pocketmq.protocol.messages.subscription import SubscriptionData
from pocketmq.protocol.scalars import PullSysFlag
from pocketmq.runtime.clock import Clock

Hold: TypeAlias = Callable[[Peer, Command, PullMessageRequestHeader, SubscriptionData], None]
"""(peer, request, its header, what it subscribes to): let a pull wait."""

BYTES_PER_CHAR = 70
"""About what a character of a subscription takes once it is parsed: tags, hashes, their sets."""

_NO_REPORTS = PullReports()


class PullReader:
    """Answers pulls from the store.

    Args:
        reads: read from.
        checks: whether a group may read a queue.
        offsets: takes commits that pulls carry; holds resets that wait for a pull.
        stats: counts.
        clock: stamps commits.
        slave_reads: what a slave answers, and who is sent to one.
        reports: told what became of pulls.
        broadcasts: pull offsets of broadcasting groups' members; 4.9 does not track
            them (B-36).
        tells_sys_flags: answers carry the system flags of topic and group; those of 4.9
            do not.
    """

    def __init__(
        self,
        reads: QueueReads,
        checks: PullChecks,
        offsets: ConsumerOffsetManager,
        stats: BrokerStats,
        clock: Clock,
        slave_reads: SlaveReads,
        *,
        reports: PullReports = _NO_REPORTS,
        broadcasts: BroadcastOffsets | None = None,
        tells_sys_flags: bool = True,
    ) -> None:
        self._reads = reads
        self._checks = checks
        self._offsets = offsets
        self._stats = stats
        self._clock = clock
        self._slave_reads = slave_reads
        self._reports = reports
        self._broadcasts = broadcasts
        self._tells_sys_flags = tells_sys_flags

    def read(
        self,
        peer: Peer,
        request: Command,
        header: PullMessageRequestHeader,
        hold: Hold | None,
    ) -> Reply:
        """Answer a pull.

        Args:
            peer: who pulls.
            request: what to answer.
            header: of the request.
            hold: takes a pull that found nothing new and is willing to wait; the answer is None
                then. None when the pull has waited already.

        Raises:
            RequestRefusedError: with the code of the first check that failed.
        """
        now_ms = self._clock.time_ms()
        # Before topic and group are looked for: a slave that answers nothing says so first.
        self._slave_reads.check()
        plan = self._checks.check(header, now_ms)
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        offset = header.queue_offset
        carries = hold is not None and header.sys_flag & PullSysFlag.COMMIT_OFFSET
        if carries and self._slave_reads.takes_offset:
            # Run again after waiting, it would commit an offset from before the wait (B-35).
            self._commit(header, now_ms)
        broadcasts, puller, members = self._broadcasts, None, plan.members
        # Offsets are noted only for broadcasting groups and for pulls through a proxy.
        if broadcasts is not None and (
            header.request_source or (members is not None and members.is_broadcasting)
        ):
            puller = broadcasts.puller(peer, header, members)
        # A reset comes before what the client asks for. Taken, not looked at: it moves one pull,
        # and the client goes on from there.
        moved_to = self._offsets.take_reset(group, topic, queue_id)
        if moved_to is None and broadcasts is not None and puller is not None:
            moved_to = broadcasts.init_offset(header, puller)
        began_at = self._clock.monotonic()
        if moved_to is not None:
            result = GetResult(
                GetStatus.OFFSET_RESET,
                moved_to,
                self._reads.min_offset(topic, queue_id),
                self._reads.max_offset(topic, queue_id),
            )
        else:
            result = self._reads.get_message(
                topic,
                queue_id,
                offset,
                header.max_msg_nums,
                max_bytes=header.max_msg_bytes,
                accept=plan.filter.accept,
                accept_record=plan.filter.accept_record,
                record_weight=plan.filter.weight,
            )
        verdict = self._slave_reads.verdict(
            response_code(result.status, offset),
            offset,
            result.next_begin_offset,
            plan.group,
            slow=result.suggest_pulling_from_slave,
        )
        code = verdict.code
        # This is a statistic, and not the group's progress (B-35).
        self._offsets.note_pull(group, topic, queue_id, verdict.next_begin_offset)
        if broadcasts is not None and puller is not None:
            # A client that was moved pulls next from its new offset.
            pulled = result.next_begin_offset if code == MOVED else offset
            broadcasts.note(header, puller, pulled, self._clock.monotonic())
        # Held before it is counted: it is counted when it is answered.
        if code == NOT_FOUND and hold is not None and header.sys_flag & PullSysFlag.SUSPEND:
            if self._reports.events.is_on:
                self._reports.held(peer, header)
            hold(peer, request, header, plan.subscription)
            return None
        # 4.9 stores a message about each offset that it moves (B-65).
        if code == MOVED and self._reports.moved is not None:
            self._reports.moved.note(header, result.next_begin_offset)
        done_at = self._clock.monotonic()
        self._stats.note_get(
            topic, group, result.count, result.size_bytes, done_at, done_at - began_at
        )
        answer = PullMessageResponseHeader(
            suggest_which_broker_id=verdict.suggested_id,
            next_begin_offset=verdict.next_begin_offset,
            min_offset=result.min_offset,
            max_offset=result.max_offset,
            topic_sys_flag=plan.topic.topic_sys_flag if self._tells_sys_flags else None,
            group_sys_flag=plan.group.group_sys_flag if self._tells_sys_flags else None,
        )
        if code == FOUND and self._reports.events.is_on:
            self._reports.found(peer, header, result)
        # Other codes have no body: they only say where to continue (B-59).
        body = result.records if code == FOUND else b""
        return request.reply(answer, body, code=code, remark=result.status.name)

    def again(self, pull: HeldPull) -> Reply:
        """Answer a pull that has waited; it does not wait once more."""
        return self.read(pull.peer, pull.request, pull.header, None)

    def _commit(self, header: PullMessageRequestHeader, now_ms: int) -> None:
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        # Ignore the commit while a reset is pending: the client does not know of the reset yet.
        if self._offsets.pending_reset(group, topic, queue_id) is None:
            self._offsets.commit(group, topic, queue_id, header.commit_offset, now_ms)


class PullProcessor:
    """Answers pulls, and holds those that found nothing new.

    Args:
        reader: answers.
        held: the pulls that wait.
        overload: refuses what has waited too long.
        clock: measures how long pulls are held.
        options: the broker's, as they are now: for how long a pull is held.
    """

    def __init__(
        self,
        reader: PullReader,
        held: HeldRequests[HeldPull],
        overload: Overload,
        clock: Clock,
        options: Callable[[], BrokerConfig],
    ) -> None:
        self._reader = reader
        self._held = held
        self._overload = overload
        self._clock = clock
        self._options = options

    @handles(RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
    def pull(self, peer: Peer, request: Command) -> Reply:
        """The messages from an offset on; None when the pull is held."""
        self._overload.check(Work.PULL)
        header = request.header(PullMessageRequestHeader)
        return self._reader.read(peer, request, header, self._hold)

    def _hold(
        self,
        peer: Peer,
        request: Command,
        header: PullMessageRequestHeader,
        subscription: SubscriptionData,
    ) -> None:
        options = self._options()
        # Without long polling the broker's own short time applies, whatever the client asked
        # (B-70).
        held_ms = (
            header.suspend_timeout_millis
            if options.long_polling_enable
            else options.short_polling_time_ms
        )
        deadline_at = self._clock.monotonic() + max(0, held_ms) / 1000
        self._held.hold(
            HeldPull(peer, request, header, subscription, deadline_at),
            # The memory that the request keeps: the header's texts and the parsed subscription.
            BYTES_PER_CHAR * len(subscription.sub_string) + header.text_bytes,
        )
