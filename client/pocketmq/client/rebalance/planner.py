"""The rebalance decision: events in, instructions out (C-22..C-30).

Pure: no socket, no clock, no task. Somebody else finds out which queues a topic has and who is in
the group, tells the planner, and carries out what it answers, one instruction after the other,
telling the planner what came of each. One round for one topic:

    TopicSeen(queues, members)          what do we own that is not ours any more?
        -> DropQueue ...                    stop it, write its offset down, unlock it
    QueueReleased / QueueHeld ...       when the last is answered: what is ours that we lack?
        -> LockQueues                       orderly only: ask the broker first
    QueuesLocked(granted)
        -> FindStartOffset ...              at which offset does the group continue in this queue?
    StartFound / StartUnknown ...
        -> StartPulling                     one for each queue found
        -> AssignmentChanged                when the last is answered, if anything changed

Example: `c1` owns q0 to q3 of topic T, then `c2` joins. AVG gives each of them two.

    in    TopicSeen(T, [q0 q1 q2 q3], [c1 c2])
    out   DropQueue(q2), DropQueue(q3)          claims dropped: nothing more is consumed
    in    QueueReleased(q2)                     offset written down
    in    QueueReleased(q3)
    out   AssignmentChanged(T, all, [q0 q1])    c2, which plans at the same time, takes q2 and q3

Nothing is lost by stopping half-way: every round begins with what is really owned, and a queue
that could not be locked or whose start is unknown is simply tried again in the next round.

The planner remembers each decision with the strategy's arithmetic: `story()` answers the question
"why did I get these queues?".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from pocketmq.client.rebalance.claims import Claim, Claims
from pocketmq.protocol.allocation.steps import (
    AssignmentChanged,
    DropForeignQueue,
    DropQueue,
    Event,
    FindStartOffset,
    Instruction,
    LockQueues,
    QueueHeld,
    QueueReleased,
    QueuesLocked,
    RebalanceSoon,
    StartFound,
    StartPulling,
    StartUnknown,
    SubscriptionsAre,
    TopicAssigned,
    TopicSeen,
)
from pocketmq.protocol.allocation.strategy import (
    AllocateMessageQueueStrategy,
    explain,
    sorted_client_ids,
    sorted_queues,
)
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.words import counted

STORY_LENGTH: Final = 100


# -- the history of decisions ---------------------------------------------------------------------


@dataclass(slots=True)
class Decision:
    """One round for one topic, in words."""

    at: float
    """The caller's seconds."""
    topic: str
    why: str
    """The strategy's arithmetic, or what was missing."""
    assigned: tuple[MessageQueue, ...]
    gave_up: list[tuple[MessageQueue, str]] = field(default_factory=list)
    took: list[tuple[MessageQueue, int]] = field(default_factory=list)
    lacking: list[tuple[MessageQueue, str]] = field(default_factory=list)
    """Ours, but not had yet."""

    @property
    def is_news(self) -> bool:
        """Whether the round changed anything, or failed to."""
        return bool(self.gave_up or self.took or self.lacking)

    def __str__(self) -> str:
        lines = [f"{self.at:.3f} s  {self.topic}: {self.why}"]
        lines += [f"    gave up {_short(queue)}: {reason}" for queue, reason in self.gave_up]
        lines += [f"    took {_short(queue)} from offset {offset}" for queue, offset in self.took]
        lines += [f"    lacks {_short(queue)}: {reason}" for queue, reason in self.lacking]
        if self.assigned:
            lines.append(f"    mine: {', '.join(map(_short, self.assigned))}")
        return "\n".join(lines)


@dataclass(slots=True)
class _Round:
    """The unanswered instructions of one topic's round."""

    decision: Decision
    all_queues: tuple[MessageQueue, ...]
    assigned: tuple[MessageQueue, ...]
    releasing: set[MessageQueue] = field(default_factory=set)
    starting: set[MessageQueue] = field(default_factory=set)
    changed: bool = False


class RebalancePlanner:
    """The queues of one consumer, and what to do about the difference to its share.

    Args:
        group: Consumer group.
        client_id: The own id in the list of members.
        strategy: Shares queues out (A-10 and the following).
        broadcasting: Every member gets every queue; nobody is asked for members (C-23).
        orderly: Queues must be locked before they are pulled (C-25.3).
        passive: Whether a queue that was not pulled for 120 s is taken anew (C-25.2, L-7).
    """

    def __init__(
        self,
        group: str,
        client_id: str,
        strategy: AllocateMessageQueueStrategy,
        *,
        broadcasting: bool = False,
        orderly: bool = False,
        passive: bool = True,
    ) -> None:
        self.group = group
        self.client_id = client_id
        self.strategy = strategy
        self.claims = Claims()
        """The queues we own, and those on their way out that an orderly listener still holds."""
        self.decisions: deque[Decision] = deque(maxlen=STORY_LENGTH)
        """Rounds that changed something, the latest last."""
        self.broadcasting = broadcasting
        self.needs_lock = orderly and not broadcasting
        """Whether queues must be locked before they are pulled."""
        self._passive = passive
        self._rounds: dict[str, _Round] = {}
        self._balanced: dict[str, bool] = {}

    # -- reading --------------------------------------------------------------------------------

    @property
    def is_balanced(self) -> bool:
        """Whether the last round of each topic ended with exactly the assigned queues (C-28)."""
        return all(self._balanced.values())

    def owned(self, topic: str | None = None) -> list[MessageQueue]:
        """Queues that are ours and not on their way out, sorted."""
        return self.claims.owned(topic)

    def story(self, topic: str | None = None) -> str:
        """The last decisions in words, oldest first."""
        return "\n".join(
            str(decision) for decision in self.decisions if topic in (None, decision.topic)
        )

    # -- events ---------------------------------------------------------------------------------

    def on(self, event: Event, now: float) -> list[Instruction]:
        """Take an event; the instructions are to be carried out in their order.

        Args:
            event: What was found out, or what came of an instruction.
            now: Monotonic seconds.

        Raises:
            AllocationError: from the strategy; the assignment stays as it is (C-24).
        """
        match event:
            case TopicSeen():
                return self._topic_seen(event, now)
            case TopicAssigned(topic, queues, why):
                mine = tuple(sorted_queues(queues))
                return self._begin(Decision(now, topic, why, mine), mine, now)
            case QueueReleased(queue):
                self.claims.release(queue)
                return self._released(queue, now, changed=True)
            case QueueHeld(queue):
                self.claims.release_refused(queue)
                return self._released(queue, now, changed=False)
            case QueuesLocked(topic, granted):
                return self._locked(self._rounds[topic], granted)
            case StartFound(queue, offset):
                return self._start_found(queue, offset, now)
            case StartUnknown(queue):
                round_ = self._rounds[queue.topic]
                round_.decision.lacking.append((queue, "its start offset is not known"))
                return self._start_settled(round_, queue)
            case SubscriptionsAre(topics):
                return self._truncate(topics)

    def take(self, queue: MessageQueue, now: float) -> Claim:
        """Own a queue outside a round, because the application says so (L-2)."""
        return self.claims.take(queue, now)

    def forget(self, queue: MessageQueue) -> None:
        """Give a queue up outside a round (C-43, C-70); it is taken anew in the next one."""
        if self.claims.release(queue):
            self._balanced[queue.topic] = False

    def forget_all(self) -> None:
        """Give all queues up (C-71)."""
        for claim in self.claims:
            self.claims.release(claim.queue)

    # -- inside ---------------------------------------------------------------------------------

    # behaviours 8, 13, 15, 40 and 65
    def _topic_seen(self, seen: TopicSeen, now: float) -> list[Instruction]:
        """Queues and members are known: sort them (A-1), ask the strategy, and give up what is not
        ours any more; then take what is missing (C-25)."""
        topic = seen.topic
        if seen.queues is None or (seen.members is None and not self.broadcasting):
            # Half a view is no view: everything stays as it is (C-24).
            return []
        all_queues = tuple(sorted_queues(seen.queues))
        members = tuple(sorted_client_ids(seen.members or ()))
        if self.broadcasting:
            assigned: tuple[MessageQueue, ...] = all_queues
            why = f"broadcasting: all {counted(len(all_queues), 'queue')}"
        else:
            self._balanced[topic] = False  # unless the strategy answers
            mine = self.strategy.allocate(self.group, self.client_id, all_queues, members)
            assigned = tuple(dict.fromkeys(mine or ()))  # duplicates collapse
            why = explain(self.strategy, self.client_id, all_queues, members)
        decision = Decision(now, topic, why, assigned)
        return self._begin(decision, all_queues, now)

    def _begin(
        self, decision: Decision, all_queues: tuple[MessageQueue, ...], now: float
    ) -> list[Instruction]:
        topic, assigned = decision.topic, decision.assigned
        round_ = self._rounds[topic] = _Round(decision, all_queues, assigned)
        wanted = set(assigned)
        drops: list[Instruction] = []
        for claim in self.claims.of_topic(topic):
            queue = claim.queue
            if queue not in wanted:
                reason = "it belongs to another member now"
            elif self._passive and claim.is_pull_expired(now):
                reason = f"it was not pulled for {now - claim.last_pull_at:.0f} s"
            elif claim.dropped and not claim.correcting:
                reason = "its listener was still running in the last round"
            else:
                continue
            self.claims.drop(queue)
            round_.releasing.add(queue)
            decision.gave_up.append((queue, reason))
            drops.append(DropQueue(queue, reason))
        return drops or self._take_missing(round_, now)

    def _released(self, queue: MessageQueue, now: float, *, changed: bool) -> list[Instruction]:
        round_ = self._rounds[queue.topic]
        round_.changed |= changed
        round_.releasing.discard(queue)
        return [] if round_.releasing else self._take_missing(round_, now)

    # behaviour 17
    def _take_missing(self, round_: _Round, now: float) -> list[Instruction]:
        """Find the queues that are ours and not owned, and begin to take them (C-25.3)."""
        missing = tuple(queue for queue in round_.assigned if queue not in self.claims)
        if not missing:
            return self._end(round_)
        if self.needs_lock:
            return [LockQueues(round_.decision.topic, missing)]
        return self._find_starts(round_, missing)

    def _locked(self, round_: _Round, granted: Collection[MessageQueue]) -> list[Instruction]:
        ours: list[MessageQueue] = []
        refused = False
        for queue in round_.assigned:
            if queue in self.claims:
                continue
            if queue in granted:
                ours.append(queue)
            else:
                refused = True
                round_.decision.lacking.append((queue, "another member holds its lock"))
        instructions: list[Instruction] = [RebalanceSoon()] if refused else []
        return instructions + (self._find_starts(round_, ours) if ours else self._end(round_))

    def _find_starts(self, round_: _Round, queues: Iterable[MessageQueue]) -> list[Instruction]:
        starts: list[Instruction] = []
        for queue in queues:
            round_.starting.add(queue)
            starts.append(FindStartOffset(queue))
        return starts

    # behaviour 30
    def _start_found(self, queue: MessageQueue, offset: int, now: float) -> list[Instruction]:
        """Claim a queue whose start offset is known, and have it pulled from there (C-25.4)."""
        round_ = self._rounds[queue.topic]
        self.claims.take(queue, now, locked=self.needs_lock)
        round_.changed = True
        round_.decision.took.append((queue, offset))
        return [StartPulling(queue, offset), *self._start_settled(round_, queue)]

    def _start_settled(self, round_: _Round, queue: MessageQueue) -> list[Instruction]:
        round_.starting.discard(queue)
        return [] if round_.starting else self._end(round_)

    def _end(self, round_: _Round) -> list[Instruction]:
        topic = round_.decision.topic
        del self._rounds[topic]
        self._balanced[topic] = set(self.owned(topic)) == set(round_.assigned)
        if round_.decision.is_news:
            self.decisions.append(round_.decision)
        if not round_.changed:
            return []
        return [AssignmentChanged(topic, round_.all_queues, tuple(self.owned(topic)))]

    # behaviour 5
    def _truncate(self, topics: Collection[str]) -> list[Instruction]:
        foreign: list[Instruction] = []
        wanted = frozenset(topics)
        for queue in [claim.queue for claim in self.claims if claim.queue.topic not in wanted]:
            self.claims.release(queue)
            foreign.append(DropForeignQueue(queue))
        for topic in [topic for topic in self._balanced if topic not in wanted]:
            del self._balanced[topic]
        return foreign


def _short(queue: MessageQueue) -> str:
    return f"{queue.broker_name}:{queue.queue_id}"
