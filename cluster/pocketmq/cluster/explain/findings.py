"""Finds problems of a consumer group in what brokers and members answered about it. Pure.

    facts = GroupFacts(state=GroupState("billing"))
    findings(facts)    -> [Finding("no member is connected, ...", "start a consumer of ...")]

Each check is a function of the facts; the most important finding comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from pocketmq.cluster.steering.group_state import GroupState
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.subscription import TAG, SubscriptionData
from pocketmq.protocol.messages.validation import dlq_topic, is_retry, retry_topic
from pocketmq.runtime.words import counted


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem, or a fact worth knowing, and what to do."""

    problem: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """The input of the checks."""

    state: GroupState
    subscriptions: Mapping[str, Mapping[str, SubscriptionData]] = field(default_factory=dict)
    """Client id -> topic -> the member's subscription."""
    sdks: Mapping[str, str] = field(default_factory=dict)
    """Client id of RocketMQ 5's SDKs -> which SDK, and at which proxy; they own no queues."""
    same_id: Mapping[str, int] = field(default_factory=dict)
    """Client id -> number of its connections, if more than one."""
    without_route: tuple[str, ...] = ()
    """Subscribed topics without a route."""
    unreadable: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Topic -> brokers on which it has no read permission."""
    disabled_at: tuple[str, ...] = ()
    """Brokers on which the group's consumption is disabled."""
    refused_at: Mapping[str, str] = field(default_factory=dict)
    """Broker -> what it finds wrong with the group's name, as the end of a sentence."""
    not_made_at: tuple[str, ...] = ()
    """Brokers that lack the group and make none by themselves."""
    last_tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Topic -> tags of its last messages; an empty string for a message without a tag."""
    unlocked: Mapping[MessageQueue, str] = field(default_factory=dict)
    """Queue -> the orderly member that owns it without having locked it."""
    in_order: bool = False
    """Whether members consume in order, so that a queue is theirs only with its lock."""
    dead_letters: int = 0
    retrying: int = 0
    """Unconsumed messages in the retry topic."""
    clock_stands: bool = False
    """Whether the cluster is on a manual clock, which only moves by command."""


Check = Callable[[GroupFacts], Iterator[Finding]]


def findings(facts: GroupFacts) -> list[Finding]:
    """All findings; empty when there is no problem."""
    return [finding for check in _CHECKS for finding in check(facts)]


def _nobody(facts: GroupFacts) -> Iterator[Finding]:
    state = facts.state
    somebody = state.members or state.silent or facts.sdks
    # A refused group has no members for that reason, which has its own finding.
    if not (somebody or facts.refused_at or facts.not_made_at):
        yield Finding(
            "no member is connected, so nothing is consumed",
            f"start a consumer of group {state.group}; one that ended without unregistering still "
            "counts as a member for up to 120 s",
        )


def _refused(facts: GroupFacts) -> Iterator[Finding]:
    # Grouped by reason, as several brokers may refuse the same name.
    brokers: dict[str, list[str]] = {}
    for broker, reason in sorted(facts.refused_at.items()):
        brokers.setdefault(reason, []).append(broker)
    for reason, names in brokers.items():
        yield Finding(
            f"members get no message and no error from {', '.join(names)}: the group's name "
            f"{reason} (B-40)",
            "use a name within that limit, of the characters a-z A-Z 0-9 _ - % |",
        )
    if facts.not_made_at:
        yield Finding(
            f"members get no message and no error from {', '.join(facts.not_made_at)}: the group "
            "does not exist there, and autoCreateSubscriptionGroup is false (B-40)",
            f"make it: pocketmq group create {facts.state.group}",
        )


def _silent(facts: GroupFacts) -> Iterator[Finding]:
    for client_id in facts.state.silent:
        yield Finding(
            f"{client_id} is connected and does not answer, but keeps its queues",
            "it is suspended (a debugger, SIGSTOP, a blocked loop) or is another kind of client; "
            "after 120 s without a heartbeat its queues go to the others",
        )


def _disabled(facts: GroupFacts) -> Iterator[Finding]:
    if facts.disabled_at:
        yield Finding(
            f"consumption is disabled on {', '.join(facts.disabled_at)} (consumeEnable is false)",
            "enable it: mqadmin updateSubGroup -s true",
        )


def _routes(facts: GroupFacts) -> Iterator[Finding]:
    for topic in facts.without_route:
        yield Finding(
            f"topic {topic} has no route, so no member can own its queues",
            f"create it with `pocketmq topic create {topic}`, or start its broker; members look "
            "for it every 30 s",
        )
    for topic, brokers in facts.unreadable.items():
        yield Finding(
            f"topic {topic} has no read permission (4) on {', '.join(brokers)}",
            "give it permission 6: mqadmin updateTopicPerm -p 6; if no topic may be read there, "
            "the broker itself is closed: `pocketmq config set brokerPermission=6`",
        )


def _same_id(facts: GroupFacts) -> Iterator[Finding]:
    for client_id, count in facts.same_id.items():
        yield Finding(
            f"{counted(count, 'connection')} use the client id {client_id}: each counts itself as "
            "the same member, so they have the same queues and consume everything twice",
            "give each client a different instance name",
        )


def _clashes(facts: GroupFacts) -> Iterator[Finding]:
    members = facts.subscriptions
    for topic in sorted(
        # Every member subscribes to the retry topic in the same way.
        {topic for each in members.values() for topic in each if not is_retry(topic)}
    ):
        told: dict[str, list[str]] = {}
        for client_id, each in sorted(members.items()):
            data = each.get(topic)
            told.setdefault("nothing" if data is None else data.sub_string, []).append(client_id)
        # Different texts may match the same tags, but RocketMQ compares texts too.
        if len(told) > 1:
            who = "; ".join(f"{', '.join(ids)} to {what}" for what, ids in told.items())
            yield Finding(
                f"members subscribe differently to {topic} ({who}): all of them share its queues, "
                "so messages that a queue's owner does not subscribe to are consumed by no member",
                "give every member of a group the same subscription, or each its own group",
            )


def _ownerless(facts: GroupFacts) -> Iterator[Finding]:
    # The text of `group_state` without the group's name, which the heading already has.
    missing = facts.state.missing_queues(None).removeprefix(f"group {facts.state.group}: ")
    if not facts.state.members or "no member has" not in missing:
        return
    # For orderly consumers a queue without its lock counts as nobody's.
    if facts.in_order:
        yield Finding(
            f"{missing}: they consume in order, and another client holds the lock of the queue, "
            "unless the next rebalance (20 s) has yet to come",
            "a lock expires 60 s after its client was killed or froze; "
            f"`pocketmq connections --group {facts.state.group}` shows who is there",
        )
    else:
        yield Finding(
            missing,
            "wait for the next rebalance (20 s); if it stays so, members disagree about who is in "
            "the group: see `pocketmq group show`",
        )


def _idle(facts: GroupFacts) -> Iterator[Finding]:
    state = facts.state
    # In a broadcasting group every member owns all queues.
    if state.broadcasting:
        return
    queues = [queue for queue in state.ends if not is_retry(queue.topic)]
    idle = sorted(each.client_id for each in state.members if not each.offsets.keys() & set(queues))
    if len(state.members) <= len(queues) and "no member has" in state.missing_queues(None):
        return  # there are queues for it
    if idle and queues:
        yield Finding(
            f"{', '.join(idle)} {'has' if len(idle) == 1 else 'have'} no queue: "
            f"{counted(len(queues), 'queue')} for {counted(len(state.members), 'member')}",
            "a queue has one owner at a time; give the topic more queues, or start fewer members",
        )


def _mixed(facts: GroupFacts) -> Iterator[Finding]:
    owners = sorted(
        each.client_id
        for each in facts.state.members
        if any(queue.queue_id >= 0 for queue in each.offsets)  # who pops has all queues as -1
    )
    if facts.sdks and owners:
        sdks = "; ".join(f"{each}, {sdk}" for each, sdk in sorted(facts.sdks.items()))
        yield Finding(
            f"members that pop ({sdks}) share the group with members that pull "
            f"({', '.join(owners)}): a message may be consumed by both",
            "give clients of the gRPC proxy a group of their own",
        )


def _past_end(facts: GroupFacts) -> Iterator[Finding]:
    state = facts.state
    for queue, end in sorted(state.ends.items()):
        committed = state.committed.get(queue, -1)
        # Without a commit it is -1, which is never past the end.
        if committed > end:
            yield Finding(
                f"{queue.topic} {queue.broker_name}/{queue.queue_id} ends at {end}, and the group "
                f"goes on at {committed}: messages before that are never consumed",
                f"the topic was created again, or its store was lost; `pocketmq group reset "
                f"{state.group} {queue.topic} --to start`",
            )


def _tags(facts: GroupFacts) -> Iterator[Finding]:
    wanted: dict[str, SubscriptionData] = {}
    for each in facts.subscriptions.values():
        wanted.update(each)
    for topic, tags in sorted(facts.last_tags.items()):
        data = wanted.get(topic)
        # Only brokers evaluate SQL expressions.
        if data is None or not tags or data.expression_type != TAG:
            continue
        # One match is enough to show that the tags are not the problem.
        if not any(data.matches_tag(tag or None) for tag in tags):
            seen = ", ".join(sorted({tag or "none" for tag in tags}))
            yield Finding(
                f"none of the last {counted(len(tags), 'message')} of {topic} has a tag that "
                f"{data.sub_string} matches; they have: {seen}",
                "compare the tags of producer and consumer, letter by letter; messages that no "
                "member subscribes to are skipped and not kept for later",
            )


def _locks(facts: GroupFacts) -> Iterator[Finding]:
    for queue, client_id in sorted(facts.unlocked.items()):
        yield Finding(
            f"{client_id} consumes in order and has no lock of {queue.topic} "
            f"{queue.broker_name}/{queue.queue_id}",
            "another client holds it: a lock expires 60 s after a client ended without unlocking",
        )


def _later(facts: GroupFacts) -> Iterator[Finding]:
    group = facts.state.group
    if facts.retrying:
        yield Finding(
            f"{counted(facts.retrying, 'message')} failed and "
            f"{'waits' if facts.retrying == 1 else 'wait'} in {retry_topic(group)}",
            "each try has a longer delay than the one before: 10 s, 30 s, 1 min, ... 2 h",
        )
    if facts.dead_letters:
        yield Finding(
            f"{counted(facts.dead_letters, 'message')} failed too often and "
            f"{'is' if facts.dead_letters == 1 else 'are'} in {dlq_topic(group)}",
            f"no member consumes them there; read them with `pocketmq message tail "
            f"'{dlq_topic(group)}' --from start`, remove the cause, send them again with "
            f"`pocketmq message resend {group}`",
        )
    if facts.clock_stands:
        yield Finding(
            "the cluster is on a manual clock: retries, delays and heartbeats wait for it",
            "`pocketmq clock advance 10` moves it",
        )


_CHECKS: tuple[Check, ...] = (
    _refused, _nobody, _silent, _disabled, _routes, _same_id, _clashes, _mixed, _ownerless,
    _past_end,
    _tags, _locks, _idle, _later,
)  # fmt: skip
