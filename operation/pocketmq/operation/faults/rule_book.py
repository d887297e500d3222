"""Which rule fires at a call: the rules of one role, with their counts. Pure.

A request that leaves a role is looked at only by rules that `lose` it; one that arrives, by all.
Requests of PocketMQ's own (30001 and up) are never touched: by them rules are set and cleared.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

import pocketmq.protocol.headers  # noqa: F401 - fills REQUEST_HEADERS, by which names are read
from pocketmq.operation.events.roles import FaultFired
from pocketmq.operation.events.sink import NO_EVENTS, EventSink
from pocketmq.operation.faults.rule import (
    CLIENTS,
    NETWORK_DEEDS,
    OTHERS,
    FaultRule,
    Firing,
)
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.header import REQUEST_HEADERS

NO_STREAMS: Final[Mapping[str, Sequence[str]]] = {}

MOST_FIRINGS = 1000
"""Kept for who asks; older ones are forgotten."""

FIRST_OWN_CODE = int(RequestCode.GET_CLOCK)
LAST_OWN_CODE = 32_767

ROLE_CODES = frozenset(
    {
        int(RequestCode.REGISTER_BROKER),
        int(RequestCode.UNREGISTER_BROKER),
        int(RequestCode.BROKER_HEARTBEAT),
        int(RequestCode.QUERY_DATA_VERSION),
        int(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET),
        int(RequestCode.EXCHANGE_BROKER_HA_INFO),
        int(RequestCode.GET_ALL_CONSUMER_OFFSET),
        int(RequestCode.GET_ALL_DELAY_OFFSET),
    }
)
"""By these a role knows another from a client. Raft's messages are PocketMQ's own, and pass."""


class RuleBook:
    """The rules that concern one role.

    Args:
        role: Its name, until it is told that rules call it otherwise.
        now_ms: Its protocol time.
        events: Told of each rule that fires.
    """

    def __init__(self, role: str, now_ms: Callable[[], int], events: EventSink = NO_EVENTS) -> None:
        self._events = events
        self.role = role
        self.firings: deque[Firing] = deque(maxlen=MOST_FIRINGS)
        self.fired = 0
        """How often any rule fired."""
        self.is_armed = False
        """Whether any rule looks at connections; while none does, they cost nothing."""
        self.cut_addresses: frozenset[str] = frozenset()
        """Addresses of roles that this one is parted from."""
        self.cuts_clients = False
        self._now_ms = now_ms
        self._network: list[_Armed] = []
        self._disk: list[_Armed] = []
        self._listeners: dict[Callable[[], None], None] = {}

    # -- rules ------------------------------------------------------------------------------

    def replace(
        self,
        rules: Iterable[FaultRule],
        addresses: Mapping[str, str],
        *,
        streams: Mapping[str, Sequence[str]] = NO_STREAMS,
        role: str = "",
    ) -> None:
        """Take these rules from now on; a rule that was there before keeps its counts.

        Args:
            rules: Those of other roles are passed over.
            addresses: Of all roles by name, for partitions.
            streams: Further addresses of roles by name, such as where slaves follow them.
            role: Name of this role in the rules; empty: as before.
        """
        self.role = role or self.role
        # Compare whole rules and not ids: a rule that was changed counts from 0 again.
        known = {each.rule: each for each in (*self._network, *self._disk)}
        network: list[_Armed] = []
        disk: list[_Armed] = []
        cut: set[str] = set()
        for rule in rules:
            # A partition concerns both ends, whatever `role` says; other rules are for one role.
            if rule.do == "partition":
                cut |= self._parted_by(rule, addresses)
            elif rule.role in (None, self.role):
                armed = known.get(rule) or _Armed(rule, self.role)
                (network if rule.do in NETWORK_DEEDS else disk).append(armed)
        self._network, self._disk = network, disk
        self.cuts_clients = CLIENTS in cut
        self.cut_addresses = frozenset(
            [addresses[name] for name in cut if name in addresses]
            + [each for name in cut for each in streams.get(name, ())]
        )
        self.is_armed = bool(network or cut)
        # Iterate over a copy: a line that the new rules reset removes its listener.
        for listener in list(self._listeners):
            listener()

    def counts(self) -> dict[str, int]:
        """How often each rule fired here, by id."""
        return {each.rule.id: each.fired for each in (*self._network, *self._disk)}

    def since(self, number: int) -> list[Firing]:
        """Firings after that one, oldest first."""
        return [each for each in self.firings if each.number > number]

    def listen(self, listener: Callable[[], None]) -> None:
        """Call it whenever the rules change, until `unlisten`."""
        self._listeners[listener] = None

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Take `listen` back."""
        self._listeners.pop(listener, None)

    @property
    def has_disk_rules(self) -> bool:
        """Whether a call of the disk may meet a rule."""
        return bool(self._disk)

    def fills_disk(self) -> bool:
        """Whether a `disk-full` holds for every call."""
        return bool(self._disk) and any(
            # A rule with a count lets some calls pass, so the disk does not look full.
            each.rule.do == "disk-full" and each.rule.nth is None and each.rule.times is None
            for each in self._disk
        )

    def _parted_by(self, rule: FaultRule, addresses: Mapping[str, str]) -> set[str]:
        """From whom a partition parts this role."""
        sides = (str(rule.role), str(rule.other))
        for here, there in (sides, sides[::-1]):
            if here == self.role:
                # All that have an address now; a role that joins later comes with the next set of
                # rules.
                return set(addresses) - {self.role} if there == OTHERS else {there}
        # A rule that names this role was found above; otherwise the role may be one of OTHERS.
        for here, there in (sides, sides[::-1]):
            if here == OTHERS:
                return {there}
        return set()

    # -- calls ------------------------------------------------------------------------------

    def meets(self, request: Command, *, leaves: bool) -> FaultRule | None:
        """The first rule that fires at a request.

        Args:
            request: What passes.
            leaves: It leaves the role; else it arrives.
        """
        # Rules are set and cleared over the same port, and must always get through.
        if not self._network or is_own(request.code):
            return None
        names: _Names | None = None
        for armed in self._network:
            rule = armed.rule
            # Only `lose` acts where a request leaves: both ends may have the same rule.
            if leaves and rule.do != "lose":
                continue
            codes = rule.codes
            if codes is not None and request.code not in codes:
                continue
            # Headers are read only for rules that ask for names, as this is done for each request.
            if rule.topic is not None or rule.group is not None:
                names = names or _Names(request)
                if not names.fit(rule):
                    continue
            if armed.fires():
                # The report has the names even if the rule does not ask for them.
                names = names or _Names(request)
                self._note(rule, code=request.code, topic=names.topic, group=names.group)
                return rule
        return None

    def meets_disk(self, operation: str, path: str) -> FaultRule | None:
        """The first rule that fires at a call of the disk."""
        for armed in self._disk:
            rule = armed.rule
            # On a slow disk only syncs take time; writes do not wait.
            operations = _SYNCS if rule.do == "slow-fsync" else _WRITES
            if operation in operations and armed.fires():
                self._note(rule, path=path)
                return rule
        return None

    def _note(
        self,
        rule: FaultRule,
        *,
        code: int | None = None,
        topic: str | None = None,
        group: str | None = None,
        path: str | None = None,
    ) -> None:
        self.fired += 1
        firing = Firing(
            self.fired, rule.id, rule.do, self.role, self._now_ms(), code, topic, group, path
        )
        self.firings.append(firing)
        if self._events.is_on:
            self._events.emit(
                FaultFired(
                    *self._events.stamp(),
                    rule=rule.id,
                    do=rule.do,
                    role=self.role,
                    code=code,
                    topic=topic,
                    group=group,
                    path=path,
                )
            )


_SYNCS = frozenset({"sync", "sync_directory"})
_WRITES = frozenset(
    {"create_file", "resize_file", "reserve", "write_file", "write_text", "make_directory"}
)


class _Armed:
    """A rule and how far it has counted."""

    def __init__(self, rule: FaultRule, role: str) -> None:
        self.rule = rule
        self.fired = 0
        self._seen = 0
        # Not by its id, which tells how many rules there were before; other rules of one seed
        # differ in what they say.
        drawn = msgspec.json.encode(msgspec.structs.replace(rule, id=""), order="deterministic")
        self._random = random.Random(f"{role} {drawn.decode()}")

    def fires(self) -> bool:
        """Count a call that fits; whether the rule fires at it."""
        rule = self.rule
        self._seen += 1
        # `nth` alone means exactly that call.
        most = rule.times if rule.times is not None else (1 if rule.nth is not None else None)
        if self._seen < (rule.nth or 1) or (most is not None and self.fired >= most):
            return False
        # Draw only for calls that may fire, so that the random series does not depend on other
        # calls.
        if rule.probability < 1 and self._random.random() >= rule.probability:
            return False
        self.fired += 1
        return True


class _Names:
    """Topic and group that a request is about, as far as it says them."""

    def __init__(self, request: Command) -> None:
        self.topic: str | None = None
        self.group: str | None = None
        kind = REQUEST_HEADERS.get(request.code)
        if kind is None:
            return
        try:
            # The processor reads the header again; rules are for tests, so this may cost.
            header = request.header(kind)
        except BadRequestError:
            return  # the processor says what is wrong with it
        self.topic = getattr(header, "topic", None)
        # Headers name the group differently.
        for name in ("consumer_group", "producer_group", "group", "group_name"):
            if (group := getattr(header, name, None)) is not None:
                self.group = str(group)
                return

    def fit(self, rule: FaultRule) -> bool:
        """Whether a rule's topic and group are these."""
        return (rule.topic is None or rule.topic == self.topic) and (
            rule.group is None or rule.group == self.group
        )


def is_own(code: int) -> bool:
    """Whether a request is PocketMQ's own."""
    return FIRST_OWN_CODE <= code <= LAST_OWN_CODE
