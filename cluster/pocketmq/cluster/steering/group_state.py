"""The state of a consumer group at one time, and sentences about what it still lacks. Pure.

`missing_queues` and `missing_messages` return a sentence for the report of a failing test, or an
empty string when nothing is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from pocketmq.protocol.bodies.clients import ConsumerConnection, ConsumerRunningInfo
from pocketmq.protocol.body import parse_mq_key
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.validation import RETRY_PREFIX
from pocketmq.runtime.words import counted

_SHOWN = 4
"""Maximum queues that a sentence names; more are only counted."""


@dataclass(frozen=True, slots=True)
class MemberState:
    """One client of the group, as it describes itself in GET_CONSUMER_RUNNING_INFO (307)."""

    client_id: str
    subscriptions: Mapping[str, str]
    """Topic -> tag expression."""
    offsets: Mapping[MessageQueue, int]
    """Its queues, each with the offset of its first unconsumed message; -1 if it consumed none."""

    @classmethod
    def of(cls, client_id: str, info: ConsumerRunningInfo) -> Self:
        """Made from the member's answer."""
        return cls(
            client_id,
            {data.topic: data.sub_string for data in info.subscription_set},
            {
                parse_mq_key(key): held.commit_offset
                for key, held in info.mq_table.items()
                # A dropped queue is moving to another member.
                if not held.droped
            },
        )


@dataclass(frozen=True, slots=True)
class GroupState:
    """Members, queues and offsets of one group."""

    group: str
    members: tuple[MemberState, ...] = ()
    silent: tuple[str, ...] = ()
    """Connected clients that did not answer which queues they own."""
    broadcasting: bool = False
    ends: Mapping[MessageQueue, int] = field(default_factory=dict)
    """Each queue of the subscribed topics, with the offset behind its last message."""
    committed: Mapping[MessageQueue, int] = field(default_factory=dict)
    """Offsets committed to brokers."""

    def missing_queues(self, members: int | None) -> str:
        """What is missing until every queue has an owner, and every member its queues.

        Args:
            members: How many members there must be; None: at least one.
        """
        found = len(self.members)
        # A silent member may own queues that seem to be without owner.
        if found < (members or 1) or self.silent:
            return self._members_sentence(members)
        queues = self._queues()
        if not queues:
            return f"{self._members_sentence(members)}; no topic that they subscribe to has a route"
        if self.broadcasting:
            return self._broadcast_gaps(queues)
        owners = {
            queue: [each.client_id for each in self.members if queue in each.offsets]
            for queue in queues
        }
        ownerless = [queue for queue in queues if not owners[queue]]
        shared = [queue for queue in queues if len(owners[queue]) > 1]
        idle = [
            each.client_id for each in self.members if not any(q in each.offsets for q in queues)
        ]
        # With more members than queues some have none, which is no fault.
        too_few = len(idle) > max(0, found - len(queues))
        if not ownerless and not shared and not too_few:
            return ""
        verb = "has" if found == 1 else "have"
        parts = [f"{found - len(idle)} of {counted(found, 'member')} {verb} queues"]
        if ownerless:
            parts.append(f"no member has {_listed(ownerless)}")
        if shared:
            parts.append(f"two members have {_listed(shared)}")
        return f"group {self.group}: " + "; ".join([*parts, *self._clashes()])

    def missing_messages(self) -> str:
        """Which messages of the group's queues are not consumed yet."""
        if not self.members:
            return self._members_sentence(None)
        behind = {}
        for queue, end in self.ends.items():
            owners = [each.offsets[queue] for each in self.members if queue in each.offsets]
            reached = min(owners) if owners else -1
            # A member's memory may be ahead of its last commit, or behind a former owner's commit.
            reached = max(reached, self.committed.get(queue, -1), 0)
            if reached < end:
                behind[queue] = end - reached
        if not behind:
            return ""
        where = ", ".join(f"{count} in {_name(queue)}" for queue, count in _first(behind.items()))
        more = f" and {counted(len(behind) - _SHOWN, 'more queue')}" if len(behind) > _SHOWN else ""
        total = sum(behind.values())
        noun = "message is" if total == 1 else "messages are"
        sentence = f"group {self.group}: {total} {noun} not consumed ({where}{more})"
        return "; ".join([sentence, *self._clashes()])

    def _queues(self) -> list[MessageQueue]:
        # Queues of retry topics do not matter to a test.
        return [queue for queue in sorted(self.ends) if not queue.topic.startswith(RETRY_PREFIX)]

    def _members_sentence(self, wanted: int | None) -> str:
        found = len(self.members) + len(self.silent)
        of = "" if wanted is None else f" of {wanted}"
        noun = "member" if (wanted or found) == 1 else "members"
        silent = (
            f"; {', '.join(self.silent)} did not say which queues it has" if self.silent else ""
        )
        return f"group {self.group}: {found}{of} {noun} connected{silent}"

    def _broadcast_gaps(self, queues: list[MessageQueue]) -> str:
        gaps = [
            f"{each.client_id} lacks {_listed(lacking)}"
            for each in self.members
            if (lacking := [queue for queue in queues if queue not in each.offsets])
        ]
        return f"group {self.group}: " + "; ".join(gaps) if gaps else ""

    def _clashes(self) -> Iterable[str]:
        """Topics to which members subscribe differently: they then miss messages of each other."""
        topics = sorted({topic for each in self.members for topic in each.subscriptions})
        for topic in topics:
            by_expression: dict[str | None, list[str]] = {}
            for each in self.members:
                by_expression.setdefault(each.subscriptions.get(topic), []).append(each.client_id)
            if len(by_expression) > 1:
                told = " and ".join(
                    f"{', '.join(ids)} to {'nothing' if expression is None else repr(expression)}"
                    for expression, ids in by_expression.items()
                )
                yield f"members subscribe differently to {topic}: {told}"


def client_ids(connections: Mapping[str, ConsumerConnection]) -> list[str]:
    """The clients that are connected to any broker, sorted."""
    return sorted(
        {each.client_id for found in connections.values() for each in found.connection_set}
    )


def _listed(queues: list[MessageQueue]) -> str:
    more = f" and {len(queues) - _SHOWN} more" if len(queues) > _SHOWN else ""
    return ", ".join(_name(queue) for queue in queues[:_SHOWN]) + more


def _first(items: Iterable[tuple[MessageQueue, int]]) -> list[tuple[MessageQueue, int]]:
    return sorted(items)[:_SHOWN]


def _name(queue: MessageQueue) -> str:
    return f"{queue.topic} {queue.broker_name}/{queue.queue_id}"
