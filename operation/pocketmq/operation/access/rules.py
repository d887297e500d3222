"""The rules of one subject, and which of them decides (Y-45, Y-47).

A policy is Custom or Default, and each has entries: a resource, actions, addresses, and Allow or
Deny. Of the entries that match a request the first in this order decides: a typed resource before
`*`; a literal name, then a prefix, then all; a longer prefix before a shorter one; Deny before
Allow. Default entries are looked at only where no Custom entry matches.

So it is in RocketMQ from 5.4.0 on. 5.3 has another order, by a comparator that contradicts itself:
a shorter prefix first, Allow before Deny, and of a literal name and a prefix whichever its sort
happens to put first. So the sort is Java's.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, TypeVar

from pocketmq.operation.access.resources import Pattern, Resource, ResourceType

T = TypeVar("T")


class Action(Enum):
    """What a request does; the value is the name in requests."""

    UNKNOWN = "Unknown"
    ALL = "All"
    ANY = "Any"
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class Decision(Enum):
    """What an entry says."""

    ALLOW = "Allow"
    DENY = "Deny"


class PolicyType(Enum):
    """Default entries count only where no Custom one matches."""

    CUSTOM = "Custom"
    DEFAULT = "Default"


EnumT = TypeVar("EnumT", bound=Enum)


def named(kind: type[EnumT], name: str | None) -> EnumT | None:
    """The member of that name, whatever its case; None if there is none."""
    if name is None:
        return None
    return next((each for each in kind if each.value.lower() == name.lower()), None)


@dataclass(frozen=True, slots=True)
class Need:
    """What a request does to one resource; one of the actions has to be allowed."""

    resource: Resource
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One rule."""

    resource: Resource
    actions: tuple[Action, ...]
    decision: Decision
    source_ips: tuple[str, ...] = ()
    """Addresses or networks (`10.0.0.0/8`) of clients; empty: all."""

    def matches(self, need: Need, source_ip: str | None) -> bool:
        """Whether it is about that.

        Raises:
            ValueError: the rule has a network, and `source_ip` is no address.
        """
        return (
            self.resource.matches(need.resource)
            and self._has(need.actions)
            and self._is_for(source_ip)
        )

    def _is_for(self, source_ip: str | None) -> bool:
        if not self.source_ips:
            return True
        if source_ip is None:  # it may be any: whoever hides it gets no right by that
            return self.decision is Decision.DENY
        return any(_in_range(source_ip, each) for each in self.source_ips)

    def _has(self, wanted: Sequence[Action]) -> bool:
        # An entry without actions grants nothing, not even ANY.
        if not self.actions:
            return False
        if Action.ANY in wanted:
            return True
        # A need without actions is never granted, not even by ALL.
        return bool(wanted) and (
            Action.ALL in self.actions or not set(wanted).isdisjoint(self.actions)
        )


class _Places:
    """Where the entries are that may be about a resource: a heartbeat has thousands of needs, and
    a user thousands of rules, so nobody looks at all of one for each of the other.

    Args:
        entries: Of a policy.
    """

    __slots__ = ("_all", "_lengths", "_literal", "_prefixed")

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._all: dict[ResourceType, list[int]] = {}
        self._literal: dict[tuple[ResourceType, str | None], list[int]] = {}
        self._prefixed: dict[tuple[ResourceType, str], list[int]] = {}
        self._lengths: dict[ResourceType, set[int]] = {}
        for place, entry in enumerate(entries):
            about = entry.resource
            # Rules for all resources of a type are few and need no index.
            if about.type is ResourceType.ANY or about.pattern is Pattern.ANY:
                self._all.setdefault(about.type, []).append(place)
            elif about.pattern is Pattern.LITERAL:
                self._literal.setdefault((about.type, about.name), []).append(place)
            else:
                prefix = about.name or ""
                self._prefixed.setdefault((about.type, prefix), []).append(place)
                # Only prefixes of lengths that occur are looked up, instead of every beginning of a
                # name.
                self._lengths.setdefault(about.type, set()).add(len(prefix))

    def of(self, resource: Resource) -> list[int]:
        """Places in order of all entries whose resource is, or has, a literal one."""
        kind, name = resource.type, resource.name
        found = [
            *self._all.get(ResourceType.ANY, ()),
            *(self._all.get(kind, ()) if kind is not ResourceType.ANY else ()),
            *self._literal.get((kind, name), ()),
        ]
        # Only a literal rule can be about something without a name.
        if name is not None:
            for length in self._lengths.get(kind, ()):
                if length <= len(name):
                    found += self._prefixed.get((kind, name[:length]), ())
        # The order of the entries decides between equal ones, and the tables have lost it.
        found.sort()
        return found


@dataclass(frozen=True, slots=True)
class Policy:
    """Entries of one type, in the order in which they were made."""

    type: PolicyType
    entries: tuple[Entry, ...] = ()
    _places: _Places = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # A frozen dataclass can be set only like this.
        object.__setattr__(self, "_places", _Places(self.entries))

    def matching(self, need: Need, source_ip: str | None) -> list[Entry]:
        """The entries that are about a need, in their order.

        Raises:
            ValueError: one has a network, and `source_ip` is no address.
        """
        found = (self.entries[place] for place in self._places.of(need.resource))
        return [each for each in found if each.matches(need, source_ip)]

    def with_entries(self, entries: Iterable[Entry]) -> Policy:
        """The same with these: one about a resource that it has replaces that one."""
        merged = list(self.entries)
        places: dict[Resource, int] = {}
        for at, old in enumerate(merged):
            # If a resource occurs twice, its first entry is replaced.
            places.setdefault(old.resource, at)
        for new in entries:
            at = places.setdefault(new.resource, len(merged))
            # An index at the end appends; any other one replaces.
            merged[at : at + 1] = [new]
        return replace(self, entries=tuple(merged))


@dataclass(frozen=True, slots=True)
class Acl:
    """All rules of one subject."""

    subject: str
    """`User:name`."""
    policies: tuple[Policy, ...] = field(default=())

    @property
    def count(self) -> int:
        """How many rules there are; one for several addresses counts as so many."""
        entries = (entry for policy in self.policies for entry in policy.entries)
        return sum(max(1, len(each.source_ips)) for each in entries)

    def of(self, kind: PolicyType) -> Policy | None:
        """The policy of a type."""
        return next((each for each in self.policies if each.type is kind), None)

    def with_policies(self, policies: Iterable[Policy]) -> Acl:
        """The same with these entries; none of another resource is lost."""
        merged = list(self.policies)
        for new in policies:
            at = next((i for i, old in enumerate(merged) if old.type is new.type), None)
            if at is None:
                merged.append(new)
            else:
                merged[at] = merged[at].with_entries(new.entries)
        return replace(self, policies=tuple(merged))

    def without(self, kind: PolicyType, resource: Resource) -> Acl:
        """The same without the entry about a resource; a policy without entries goes."""
        kept = []
        for each in self.policies:
            if each.type is kind:
                # Compare whole resources: a literal and a prefixed one may have the same name.
                entries = tuple(rule for rule in each.entries if rule.resource != resource)
                if entries:
                    kept.append(replace(each, entries=entries))
            else:
                kept.append(each)
        return replace(self, policies=tuple(kept))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a need, and why."""

    is_allowed: bool
    reason: str
    """As RocketMQ's refusal ends; of what is allowed, what allows it."""
    entry: Entry | None = None
    """The one that decides."""
    matching: tuple[Entry, ...] = ()
    """All that match, in the order in which they were asked."""
    policy: PolicyType | None = None


def decide(
    acl: Acl | None, need: Need, source_ip: str | None, *, longest_prefix_first: bool
) -> Verdict:
    """Whether a normal user may.

    Args:
        acl: The user's rules.
        need: One of what the request needs.
        source_ip: The client's address, without the port. None: it is not known, and of the rules
            with addresses those that deny match, and those that allow do not.
        longest_prefix_first: As from 5.4.0 on, with Deny before Allow; else 5.3's order.

    Raises:
        ValueError: a rule has a network, and `source_ip` is no address.
    """
    # The custom rules decide if one of them matches; only otherwise the default rules are asked.
    for policy in (acl and acl.of(PolicyType.CUSTOM), acl and acl.of(PolicyType.DEFAULT)):
        if not policy:
            continue
        matching = policy.matching(need, source_ip)
        if matching:
            order = _compare if longest_prefix_first else _compare_as_5_3_3
            ordered = tuple(java_sorted(matching, order))
            # Only the first entry decides: a Deny after it does not count.
            entry = ordered[0]
            if entry.decision is Decision.DENY:
                return Verdict(False, "the decision is deny.", entry, ordered, policy.type)
            return Verdict(True, "the decision is allow.", entry, ordered, policy.type)
    return Verdict(False, "no matched policies.")


def java_sorted(items: Sequence[T], compare: Callable[[T, T], int]) -> list[T]:
    """The items as Java's `List.sort` leaves them, also where `compare` contradicts itself.

    That is TimSort's way with less than 32; more would never match one request in earnest, and
    Java may then refuse such a comparator.
    """
    done = list(items)
    if len(done) < 2:
        return done
    run = 2  # how many at the start are in order, or in reverse
    if compare(done[1], done[0]) < 0:
        # Strictly descending, so that equal elements keep their order.
        while run < len(done) and compare(done[run], done[run - 1]) < 0:
            run += 1
        done[:run] = reversed(done[:run])
    else:
        while run < len(done) and compare(done[run], done[run - 1]) >= 0:
            run += 1
    # Binary insertion, step by step as Java: with a comparator that contradicts itself the result
    # depends on which pairs are compared.
    for start in range(run, len(done)):
        pivot = done[start]
        left, right = 0, start
        while left < right:
            middle = (left + right) >> 1
            if compare(pivot, done[middle]) < 0:
                right = middle
            else:
                left = middle + 1
        del done[start]
        done.insert(left, pivot)
    return done


_RANK: Final = {Pattern.LITERAL: 0, Pattern.PREFIXED: 1, Pattern.ANY: 2}


def _compare(one: Entry, other: Entry) -> int:
    a, b = one.resource, other.resource
    order = _by_type(a, b)
    if order is None:
        order = _RANK[a.pattern] - _RANK[b.pattern]
        if not order and a.pattern is Pattern.PREFIXED:
            order = len(b.name or "") - len(a.name or "")
    return order or _is_allow(one) - _is_allow(other)


def _compare_as_5_3_3(one: Entry, other: Entry) -> int:
    a, b = one.resource, other.resource
    order = _by_type(a, b)
    if order is None:
        order = 0
        if a.pattern is not b.pattern:
            # As in RocketMQ 5.3.3, ANY on the left compares as equal, and any other pattern on the
            # left as smaller: both orders of a pair are possible.
            order = 0 if a.pattern is Pattern.ANY else -1  # it never looks at the other
        elif a.pattern is Pattern.PREFIXED:
            order = len(a.name or "") - len(b.name or "")
    if order:
        return order
    # Deny goes last here; from 5.4.0 on it goes first.
    if one.decision is Decision.DENY:
        return 1
    return -1 if other.decision is Decision.DENY else 0


def _is_allow(entry: Entry) -> int:
    return int(entry.decision is Decision.ALLOW)


def _by_type(a: Resource, b: Resource) -> int | None:
    """None where both have one type."""
    if a.type is b.type:
        return None
    if b.type is ResourceType.ANY:
        return -1
    # Two specific types never match the same need.
    return 1 if a.type is ResourceType.ANY else 0


def is_address_or_network(text: str) -> bool:
    """Whether a rule may name that."""
    try:
        if "/" in text:
            host, _, bits = text.partition("/")
            # The host may have bits set after the prefix, as in RocketMQ; `ip_network` would refuse
            # them.
            return 0 <= int(bits) <= ipaddress.ip_address(host).max_prefixlen
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _in_range(ip: str, network: str) -> bool:
    host, slash, bits = network.partition("/")
    if not slash:
        return ip == network
    start = _address(host)
    # As in RocketMQ: more bits than an address of IPv4 has, which `::ffff:10.0.0.0/104` names, are
    # all of them, so that the rule is for one address.
    rest = max(0, start.max_prefixlen - int(bits))
    # As in RocketMQ, addresses are compared as numbers, even those of different families.
    return int(_address(ip)) >> rest == int(start) >> rest


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address of IPv4 also where it is written as one of IPv6, as Java's InetAddress has it.

    Otherwise `::ffff:10.0.0.0/24` would begin with zeros, and be for every client of IPv4.

    Raises:
        ValueError: it is none.
    """
    found = ipaddress.ip_address(text)
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped
    return found
