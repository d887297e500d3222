"""What recordings show: each function finds the events at which something can be seen. Pure."""

# ruff: noqa: SIM102 - the outer condition says which events, the inner one what is special of them

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from pocketmq.operation.events import AnyEvent
from pocketmq.operation.events.groups import (
    Allocated,
    MemberJoined,
    MemberLeft,
    MemberNotified,
    QueuesLocked,
    Rebalanced,
)
from pocketmq.operation.events.messages import (
    MessageConsumed,
    MessageDead,
    MessagePulled,
    MessageSentBack,
    MessageStored,
    OffsetCommitted,
    PullHeld,
    PullWoken,
    SendAnswered,
    StoreFlushed,
)
from pocketmq.operation.events.roles import (
    BrokerForgotten,
    BrokerRegistered,
    MasterElected,
    RoleChanged,
    RoleStarted,
    RoleStopped,
    TroubleBegan,
)

CUT_US = 20_000_000
"""A master is elected at the latest so long after the old one was cut off."""

Events = Sequence[AnyEvent]
Finding = Iterator[AnyEvent]
"""The events at which it can be seen."""

Place = tuple[str, str, int, int]
"""(group or topic, broker, queue, offset)"""


def answered_before_flushed(events: Events) -> Finding:
    """SEND_OK comes while the message is in the page cache only."""
    stored: dict[str, MessageStored] = {}
    flushed: dict[str, int] = defaultdict(int)
    for event in events:
        if isinstance(event, MessageStored) and event.unique_key:
            stored[event.unique_key] = event
        elif isinstance(event, StoreFlushed):
            flushed[event.broker] = event.physical_to
        elif isinstance(event, SendAnswered) and event.status == "SEND_OK":
            message = stored[event.unique_key]
            # The message begins after the flushed part, so it is only in the page cache.
            if message.physical_offset >= flushed[event.broker]:
                yield event


def flushed_late(events: Events) -> Finding:
    """The log is flushed half a second or more after a message was stored."""
    waiting: dict[str, int] = {}
    for event in events:
        if isinstance(event, MessageStored):
            # The first waiting message decides how long the flush took.
            waiting.setdefault(event.broker, event.real_us)
        elif isinstance(event, StoreFlushed):
            if event.real_us - waiting.pop(event.broker, event.real_us) >= 500_000:
                yield event


def consumed_twice(events: Events) -> Finding:
    """One message is consumed by two clients."""
    seen: dict[Place, str] = {}
    for event in events:
        # Later attempts are retries after a failure.
        if isinstance(event, MessageConsumed) and event.status == "success" and not event.attempt:
            place = (event.group, event.broker, event.queue, event.offset)
            if seen.setdefault(place, event.client_id) != event.client_id:
                yield event


def twice_after_a_death(events: Events) -> Finding:
    """Messages that a dead client had consumed come again."""
    dead: set[str] = set()
    seen: dict[Place, str] = {}
    for event in events:
        if isinstance(event, RoleStopped) and event.how == "ended":
            dead.add(event.role)
        elif isinstance(event, RoleStarted):
            # A client that returned under its name is alive again.
            dead.discard(event.role)
        elif isinstance(event, MessageConsumed) and event.status == "success" and not event.attempt:
            place = (event.group, event.broker, event.queue, event.offset)
            if seen.setdefault(place, event.client_id) in dead:
                yield event


def each_computes(events: Events) -> Finding:
    """Every member computes its own queues from the same lists."""
    found: dict[tuple[str, tuple[str, ...], tuple[str, ...]], set[str]] = defaultdict(set)
    for event in events:
        if isinstance(event, Allocated):
            lists = (event.topic, tuple(event.queues), tuple(event.members))
            found[lists].add(event.client_id)
            # Only when all members have computed with the same lists.
            if len(event.members) > 1 and found[lists] == set(event.members):
                yield event


def storm(events: Events) -> Finding:
    """Queues change hands for the third time within 30 s."""
    moved: list[int] = []
    for event in events:
        if isinstance(event, Rebalanced) and event.lost:
            moved.append(event.real_us)
            if len(moved) >= 3 and event.real_us - moved[-3] < 30_000_000:
                yield event


def owners_differ(events: Events) -> Finding:
    """For a while a queue has two owners."""
    owned: dict[tuple[str, str], set[str]] = {}
    for event in events:
        if isinstance(event, RoleStopped):
            # A dead client owns nothing, so the next owner is not a second one.
            for key in [each for each in owned if each[1] == event.role]:
                del owned[key]
        elif isinstance(event, Rebalanced):
            owned[event.group, event.client_id] = set(event.queues)
            for (group, client_id), queues in owned.items():
                if group == event.group and client_id != event.client_id:
                    if queues.intersection(event.queues):
                        yield event


def nothing_to_own(events: Events) -> Finding:
    """A member computes that no queue is left for it."""
    for event in events:
        if (
            isinstance(event, Allocated)
            and not event.own
            and event.queues
            # Topics of retries and dead letters have a percent sign.
            and "%" not in event.topic
        ):
            yield event


def consistent_hash(events: Events) -> Finding:
    """A group shares queues by consistent hash, and its hash ring is drawn."""
    for event in events:
        if isinstance(event, Allocated) and "HASH" in event.strategy and len(event.members) > 1:
            yield event


def told_of_a_death(events: Events) -> Finding:
    """A connection closes, and the remaining members are told at once."""
    left: dict[str, MemberLeft] = {}
    for event in events:
        if isinstance(event, MemberLeft) and event.how == "closed":
            # The last client that closed its connection here: its group's members are notified
            # within moments.
            left[event.broker] = event
        elif isinstance(event, MemberNotified) and event.broker in left:
            if event.real_us - left[event.broker].real_us < 100_000:
                yield event


def expired(events: Events) -> Finding:
    """A nameserver forgets a broker after 120 s of silence."""
    for event in events:
        if isinstance(event, BrokerForgotten) and event.how == "expired":
            yield event


def nameserver_new(events: Events) -> Finding:
    """Brokers register again with a restarted nameserver."""
    ended = False
    for event in events:
        if isinstance(event, RoleStopped) and event.role.startswith("n"):
            ended = True
        elif isinstance(event, BrokerRegistered) and ended:
            yield event


def without_nameserver(events: Events) -> Finding:
    """Messages are sent and stored while no nameserver runs."""
    ended = False
    for event in events:
        if isinstance(event, RoleStopped) and event.role in ("nameserver", "ns"):
            ended = True
        elif isinstance(event, RoleStarted) and event.role in ("nameserver", "ns"):
            ended = False
        elif isinstance(event, SendAnswered) and ended and event.status == "SEND_OK":
            yield event


def locked(events: Events) -> Finding:
    """A queue is locked for its owner before it is consumed."""
    for event in events:
        if isinstance(event, QueuesLocked) and event.queues:
            yield event


def refused_lock(events: Events) -> Finding:
    """A member does not get a lock that another member holds."""
    for event in events:
        if isinstance(event, QueuesLocked) and event.refused:
            yield event


def suspended(events: Events) -> Finding:
    """A message fails again and again, and its queue stands still."""
    failed: dict[Place, int] = defaultdict(int)
    for event in events:
        if isinstance(event, MessageConsumed) and event.status == "suspend":
            place = (event.group, event.broker, event.queue, event.offset)
            failed[place] += 1
            # The first failure is normal; the second one shows that the queue is blocked.
            if failed[place] > 1:
                yield event


def sent_back(events: Events) -> Finding:
    """A failed message is sent back with delay level 3 or more."""
    for event in events:
        if isinstance(event, MessageSentBack) and event.delay_level >= 3:
            yield event


def waits_for_its_retry(events: Events) -> Finding:
    """A message is stored in SCHEDULE_TOPIC_XXXX, and later in the retry topic."""
    waiting: set[str] = set()
    for event in events:
        if isinstance(event, MessageStored) and event.unique_key:
            if event.topic == "SCHEDULE_TOPIC_XXXX":
                waiting.add(event.unique_key)
            elif event.topic.startswith("%RETRY%") and event.unique_key in waiting:
                yield event


def dead_letter(events: Events) -> Finding:
    """A message has used up its tries."""
    for event in events:
        if isinstance(event, MessageDead):
            yield event


def offsets_stay(events: Events) -> Finding:
    """A group without members gets a member, and goes on at its offset."""
    members: dict[str, set[str]] = defaultdict(set)
    committed: dict[tuple[str, str, str, int], int] = {}
    returned: set[str] = set()
    for event in events:
        if isinstance(event, MemberJoined):
            # The group has offsets but no members, so it comes back.
            if not members[event.group] and any(key[0] == event.group for key in committed):
                returned.add(event.group)
            members[event.group].add(event.client_id)
        elif isinstance(event, MemberLeft):
            members[event.group].discard(event.client_id)
        elif isinstance(event, OffsetCommitted):
            committed[event.group, event.topic, event.broker, event.queue] = event.offset
        elif isinstance(event, MessagePulled) and event.group in returned:
            place = (event.group, event.topic, event.broker, event.queue)
            # The first pull starts exactly at the committed offset.
            if committed.get(place) == event.offset:
                yield event


def consumed_and_kept(events: Events) -> Finding:
    """Another group later pulls messages that one group consumed."""
    done: dict[Place, str] = {}
    for event in events:
        if isinstance(event, MessageConsumed) and event.status == "success" and not event.attempt:
            place = (event.topic, event.broker, event.queue, event.offset)
            if done.setdefault(place, event.group) != event.group:
                yield event


def one_log(events: Events) -> Finding:
    """Messages of different queues follow each other in one log."""
    last: dict[str, MessageStored] = {}
    for event in events:
        if isinstance(event, MessageStored):
            before = last.get(event.broker)
            # Directly one after the other in the broker's log.
            if before and before.physical_offset + before.size == event.physical_offset:
                if (before.topic, before.queue) != (event.topic, event.queue):
                    yield event
            last[event.broker] = event


def filtered(events: Events) -> Finding:
    """The broker leaves messages with other tags out of an answer."""
    for event in events:
        if isinstance(event, MessagePulled) and event.end is not None:
            # Fewer messages than offsets: the others had other tags.
            if event.count < event.end - event.offset:
                yield event


def held(events: Events) -> Finding:
    """A pull is held, and answered when a message arrives."""
    waiting: dict[str, int] = {}
    for event in events:
        if isinstance(event, PullHeld):
            waiting[event.peer] = event.real_us
        elif isinstance(event, PullWoken) and event.trigger == "arrived" and event.peer in waiting:
            yield event


def where_it_begins(events: Events) -> Finding:
    """The first pull of a group that has no offset yet."""
    known: set[tuple[str, str, str, int]] = set()
    for event in events:
        if isinstance(event, (MessagePulled, PullHeld)) and not event.topic.startswith("%RETRY%"):
            queue = (event.group, event.topic, event.broker, event.queue)
            if queue not in known:
                yield event
            known.add(queue)


def half(events: Events) -> Finding:
    """A half message is stored out of sight, and later in its topic."""
    halves: set[str] = set()
    for event in events:
        if isinstance(event, MessageStored) and event.unique_key:
            if event.topic == "RMQ_SYS_TRANS_HALF_TOPIC":
                halves.add(event.unique_key)
            elif event.unique_key in halves and not event.topic.startswith("RMQ_SYS"):
                yield event


def decided_late(events: Events) -> Finding:
    """The outcome of a half message is known only after the broker asked for it."""
    halves: dict[str, int] = {}
    for event in events:
        if isinstance(event, MessageStored) and event.unique_key:
            if event.topic == "RMQ_SYS_TRANS_HALF_TOPIC":
                halves.setdefault(event.unique_key, event.real_us)
            elif event.unique_key in halves and not event.topic.startswith("RMQ_SYS"):
                # The broker checks no half messages younger than 6 s.
                if event.real_us - halves[event.unique_key] > 6_000_000:
                    yield event


def elected(events: Events) -> Finding:
    """A replica ends, and the controllers agree on another master."""
    ended: set[str] = set()
    for event in events:
        if isinstance(event, RoleStopped) and event.role.startswith("a"):
            ended.add(event.role)
        # Epoch 1 is the first election, before which nobody has ended.
        elif isinstance(event, MasterElected) and event.epoch > 1 and ended:
            yield event


def two_masters(events: Events) -> Finding:
    """Another master is elected while the old master is cut off and still runs."""
    master, cut_at, stopped = "", -CUT_US, False
    for event in events:
        if isinstance(event, TroubleBegan) and event.kind in ("links cut", "machines cut off"):
            cut_at = event.real_us
        elif isinstance(event, RoleStopped):
            stopped = stopped or event.role == master
        elif isinstance(event, RoleChanged) and event.role.endswith("SYNC_MASTER"):
            was_cut = event.real_us - cut_at < CUT_US
            # The former master was cut off a short time ago, but has not ended.
            if master not in ("", event.by) and was_cut and not stopped:
                yield event
            master, stopped = event.by, False


def held_back(events: Events) -> Finding:
    """An unfinished message holds the committed offset back; later messages are done."""
    done: dict[tuple[str, str, str, int], int] = defaultdict(int)
    for event in events:
        if isinstance(event, MessageConsumed) and event.status == "success" and not event.attempt:
            queue = (event.group, event.topic, event.broker, event.queue)
            done[queue] = max(done[queue], event.offset + 1)
        elif isinstance(event, OffsetCommitted):
            queue = (event.group, event.topic, event.broker, event.queue)
            # Smaller than a later message that is done: an earlier one holds the offset back.
            if event.offset < done[queue]:
                yield event
