"""Which groups something is known of in a topic, and in which topics of a group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class TopicGroups:
    """Pairs of topic and group that are found by either. Every operation on a pair is O(1)."""

    _groups_of_topic: dict[str, set[str]] = field(default_factory=dict, init=False)
    _topics_of_group: dict[str, set[str]] = field(default_factory=dict, init=False)

    def add(self, topic: str, group: str) -> None:
        """Know the pair; harmless when it is known."""
        self._groups_of_topic.setdefault(topic, set()).add(group)
        self._topics_of_group.setdefault(group, set()).add(topic)

    def discard(self, topic: str, group: str) -> None:
        """Forget the pair; harmless when it is not known."""
        _discard(self._groups_of_topic, topic, group)
        _discard(self._topics_of_group, group, topic)

    def groups_of(self, topic: str) -> Iterable[str]:
        """The groups that are known in a topic."""
        return self._groups_of_topic.get(topic, ())

    def topics_of(self, group: str) -> Iterable[str]:
        """The topics that are known of a group."""
        return self._topics_of_group.get(group, ())


def _discard(table: dict[str, set[str]], key: str, member: str) -> None:
    members = table.get(key)
    if members is not None:
        members.discard(member)
        if not members:
            del table[key]
