"""What rights are about: topics, groups and clusters, by name, by prefix, or all of them (Y-47).

*                  everything
Topic:orders       one topic
Topic:order*       those whose names begin so; what comes after the first star does not count
Group:*            all consumer groups
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

STAR: Final = "*"
RETRY: Final = "%RETRY%"


class ResourceType(Enum):
    """Kinds of things; the value is the name in requests."""

    UNKNOWN = "Unknown"
    ANY = "Any"
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"


class Pattern(Enum):
    """How a resource of a rule names things."""

    LITERAL = "literal"
    PREFIXED = "prefixed"
    ANY = "any"


_TYPES: Final = {each.value.lower(): each for each in ResourceType}


@dataclass(frozen=True, slots=True)
class Resource:
    """What a rule is about, or what a request needs; the latter is always literal."""

    type: ResourceType
    name: str | None
    pattern: Pattern = Pattern.LITERAL

    @classmethod
    def parse(cls, key: str | None) -> Resource | None:
        """The resource of a text; None if its type is no type."""
        if key is None or not key.strip():
            return None
        if key == STAR:
            return cls(ResourceType.ANY, None, Pattern.ANY)
        type_name, _, name = key.partition(":")
        kind = _TYPES.get(type_name.lower())
        if kind is None:
            return None
        # Before the prefixes: `*` alone would be the empty prefix.
        if name == STAR:
            return cls(kind, None, Pattern.ANY)
        if name.endswith(STAR):
            # RocketMQ cuts at the first star.
            return cls(kind, name.partition(STAR)[0], Pattern.PREFIXED)
        return cls(kind, name)

    @property
    def key(self) -> str:
        """The text of it, as RocketMQ writes it."""
        if self.type is ResourceType.ANY:
            return STAR
        end = {Pattern.ANY: STAR, Pattern.LITERAL: "", Pattern.PREFIXED: STAR}[self.pattern]
        # Java writes "null" if a request names nothing.
        name = "null" if self.name is None and self.pattern is Pattern.LITERAL else self.name or ""
        return f"{self.type.value}:{name}{end}"

    def matches(self, other: Resource) -> bool:
        """Whether a rule about this is one about that literal resource."""
        if self.type is ResourceType.ANY:
            return True
        if self.type is not other.type:
            return False
        if self.pattern is Pattern.ANY:
            return True
        if self.pattern is Pattern.LITERAL:
            # A request without a name matches a rule without one, and no prefix.
            return self.name == other.name
        return other.name is not None and other.name.startswith(self.name or "")


def topic(name: str | None) -> Resource:
    """One topic."""
    return Resource(ResourceType.TOPIC, name)


def group(name: str | None) -> Resource:
    """One group, which may be named by its retry topic."""
    # Consumers use their retry topic like a topic, but the right to it is the group's.
    if name is not None and name.startswith(RETRY):
        name = name.removeprefix(RETRY)
    return Resource(ResourceType.GROUP, name)


def is_retry(name: object) -> bool:
    """Whether that is the name of a retry topic, which counts as its group."""
    return isinstance(name, str) and name.startswith(RETRY)
