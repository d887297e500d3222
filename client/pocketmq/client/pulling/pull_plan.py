"""When a queue is pulled next, how, and what an answer means (C-36, C-37, C-40..C-43).

Pure. The pull service asks `before_pull`, sends what `pull_header` builds, and acts on
`read_answer`.

    before a pull, in this order            then
    queue dropped                           never again
    consumer not running                    after 1000 ms
    consumer suspended                      after 1000 ms
    more than 1000 messages cached          after 50 ms
    more than 100 MiB cached                after 50 ms
    concurrent: offsets span over 2000      after 50 ms
    orderly: queue not locked               after 1000 ms
    orderly: locked for the first time      find the start offset anew, then pull
    subscription gone                       after 1000 ms

    answer                                  then
    FOUND (0)                               hand over, pull again at once
    NO_NEW_MSG (19), NO_MATCHED_MSG (20)    take the next offset, pull again at once
    OFFSET_ILLEGAL (21)                     drop the queue, correct the offset (C-43)
    FLOW_CONTROL (215)                      again after 20 ms
    anything else                           again after 1000 ms
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from pocketmq.client.pulling.process_queue import ProcessQueue
from pocketmq.client.rebalance.claims import Claim
from pocketmq.protocol.bodies.route import MASTER_ID
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.headers.pull import PullMessageRequestHeader
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.subscription import SubscriptionData
from pocketmq.protocol.scalars import INT32_MAX, PullSysFlag
from pocketmq.runtime.profile import Profile

FLOW_CONTROL_DELAY_MS: Final = 50
SUSPENDED_DELAY_MS: Final = 1_000
EXCEPTION_DELAY_MS: Final = 1_000
"""`pullTimeDelayMillsWhenException` since 4.6.0."""
BROKER_FLOW_CONTROL_DELAY_MS: Final = 20
BROKER_SUSPEND_MAX_MS: Final = 15_000
"""For how long a broker may hold a pull (B-70)."""
OVERDUE_MS: Final = BROKER_SUSPEND_MAX_MS + 1_000
"""After which a pull that is not answered makes its broker suspect."""
PULL_BATCH_BYTES: Final = 262_144
CONSUMER_TIMEOUT_WHEN_SUSPEND_MS: Final = 30_000


@dataclass(slots=True, eq=False)
class PullRequest:
    """The one pull that a queue always has: waiting, under way, or about to be repeated."""

    process_queue: ProcessQueue
    next_offset: int
    previously_locked: bool = False
    """Orderly: whether the start offset was looked up under the lock."""
    suggested_broker_id: int = MASTER_ID
    """What the last answer suggested (C-38)."""
    waits_for: str = ""
    """Why it was last postponed, for logs."""
    queue: MessageQueue = field(init=False)
    """Which queue is pulled."""
    claim: Claim = field(init=False)
    """That the queue is ours."""

    def __post_init__(self) -> None:
        self.queue, self.claim = self.process_queue.queue, self.process_queue.claim

    def __str__(self) -> str:
        return f"pull of {self.queue} from {self.next_offset}"


@dataclass(slots=True, frozen=True, kw_only=True)
class CacheLimits:
    """Flow control; comparisons are strict (C-36)."""

    threshold_for_queue: int = 1_000
    """Messages."""
    threshold_size_for_queue_mib: int = 100
    max_span: int = 2_000
    """Between the largest and the smallest cached offset; concurrent only."""


class Step(Enum):
    """What to do with a pull request."""

    PULL = "pull"
    WAIT = "wait"
    FORGET = "forget"
    FIND_START = "find start"
    """Look the start offset up again, then pull."""


class BeforePull(NamedTuple):
    """A step and, for WAIT, for how long and why."""

    step: Step
    delay_ms: int = 0
    reason: str = ""


_PULL: Final = BeforePull(Step.PULL)
_FORGET: Final = BeforePull(Step.FORGET)
_FIND_START: Final = BeforePull(Step.FIND_START)
_NOT_RUNNING: Final = BeforePull(Step.WAIT, EXCEPTION_DELAY_MS, "the consumer does not run")
_SUSPENDED: Final = BeforePull(Step.WAIT, SUSPENDED_DELAY_MS, "the consumer is suspended")
_NOT_LOCKED: Final = BeforePull(Step.WAIT, EXCEPTION_DELAY_MS, "the queue is not locked")
_NO_SUBSCRIPTION: Final = BeforePull(Step.WAIT, EXCEPTION_DELAY_MS, "the subscription is gone")
_MANY: Final = BeforePull(Step.WAIT, FLOW_CONTROL_DELAY_MS, "too many messages are cached")
_LARGE: Final = BeforePull(Step.WAIT, FLOW_CONTROL_DELAY_MS, "too many bytes are cached")
_WIDE: Final = BeforePull(Step.WAIT, FLOW_CONTROL_DELAY_MS, "a slow message holds the queue up")


def before_pull(
    request: PullRequest,
    limits: CacheLimits,
    *,
    running: bool,
    suspended: bool,
    orderly: bool,
    subscribed: bool,
) -> BeforePull:
    """Whether a queue may be pulled now (C-36).

    Args:
        request: The queue's pull.
        limits: Flow control.
        running: Whether the consumer runs.
        suspended: Whether it pauses.
        orderly: Whether the queue needs a lock.
        subscribed: Whether its topic is still subscribed.
    """
    buffer, claim = request.process_queue, request.claim
    # The order is RocketMQ's: of several reasons the first decides how long to wait (C-36).
    if claim.dropped:
        return _FORGET
    if not running:
        return _NOT_RUNNING
    if suspended:
        return _SUSPENDED
    if buffer.count > limits.threshold_for_queue:
        return _MANY
    if buffer.body_mib > limits.threshold_size_for_queue_mib:
        return _LARGE
    if not orderly:
        # One slow message holds up the committed offset, and after a crash everything after it
        # comes again, so the span is bounded. An orderly run has one batch at a time and no span.
        if buffer.span > limits.max_span:
            return _WIDE
    elif not claim.locked:
        return _NOT_LOCKED
    # Another member may have consumed while the queue was not locked: go on where that one stopped.
    elif not request.previously_locked:
        return _FIND_START
    if not subscribed:
        return _NO_SUBSCRIPTION
    return _PULL


def pull_header(
    request: PullRequest,
    group: str,
    subscription: SubscriptionData,
    *,
    commit_offset: int,
    max_msg_nums: int,
    post_subscription: bool,
    broker_id: int,
    max_msg_bytes: int | None = None,
) -> PullMessageRequestHeader:
    """The request itself (C-37).

    Args:
        request: The queue and where to go on.
        group: Consumer group.
        subscription: Its version is sent always, its text only with `post_subscription`.
        commit_offset: Rides along when it is positive.
        max_msg_nums: Messages wanted.
        post_subscription: Send the subscription instead of relying on the heartbeat's.
        broker_id: Of the broker that is asked; a slave takes no offsets.
        max_msg_bytes: Bytes wanted (5.x).
    """
    sys_flag = PullSysFlag.SUSPEND
    # Pulls from a master also commit offsets, so that a crash repeats little.
    if commit_offset > 0 and broker_id == MASTER_ID:
        sys_flag |= PullSysFlag.COMMIT_OFFSET
    if post_subscription:
        sys_flag |= PullSysFlag.SUBSCRIPTION
    return PullMessageRequestHeader(
        consumer_group=group,
        topic=request.queue.topic,
        queue_id=request.queue.queue_id,
        queue_offset=request.next_offset,
        max_msg_nums=max_msg_nums,
        sys_flag=sys_flag,
        commit_offset=max(0, commit_offset),
        suspend_timeout_millis=BROKER_SUSPEND_MAX_MS,
        sub_version=subscription.sub_version,
        subscription=subscription.sub_string if post_subscription else None,
        expression_type=subscription.expression_type if post_subscription else None,
        max_msg_bytes=max_msg_bytes,
        bname=request.queue.broker_name,
    )


def all_bytes(profile: Profile) -> int | None:
    """How many bytes a pull by hand says that it wants: no limit, or in 4.9 nothing (E-22)."""
    return INT32_MAX if profile.client.pull_names_max_bytes else None


class PullStatus(Enum):
    """What an answer to a pull means (C-40)."""

    FOUND = "found"
    NO_NEW_MSG = "no new message"
    NO_MATCHED_MSG = "no matched message"
    OFFSET_ILLEGAL = "offset illegal"


STATUS_BY_CODE: Final = {
    int(ResponseCode.SUCCESS): PullStatus.FOUND,
    int(ResponseCode.PULL_NOT_FOUND): PullStatus.NO_NEW_MSG,
    int(ResponseCode.PULL_RETRY_IMMEDIATELY): PullStatus.NO_MATCHED_MSG,
    int(ResponseCode.PULL_OFFSET_MOVED): PullStatus.OFFSET_ILLEGAL,
}


def delay_after_code_ms(code: int) -> int:
    """When to pull again after an answer that is an error (C-40)."""
    if code == ResponseCode.FLOW_CONTROL:
        return BROKER_FLOW_CONTROL_DELAY_MS
    return EXCEPTION_DELAY_MS
