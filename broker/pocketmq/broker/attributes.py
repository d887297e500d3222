"""Attributes of topics and groups: named values of 5.x that tools add and remove (E-29, V-3)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Final

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.scalars import MESSAGE_TYPE
from pocketmq.runtime.profile.broker import BrokerProfile

PRIORITY: Final = "PRIORITY"
"""The value of `message.type` whose queues are priorities (V-1)."""
PRIORITY_FACTOR: Final = "priority.factor"
"""Of a group: percent of its pops that read queues by priority (V-3)."""


class AttributeRules:
    """Which attributes there are, and what each may be.

    Args:
        values: name to the texts that it may be. None, as in 4.9: there are no attributes, and a
            request's are ignored.
        fixed: names of those that can only be given to what is made.
    """

    def __init__(
        self, values: Mapping[str, tuple[str, ...] | range] | None, fixed: Container[str] = ()
    ) -> None:
        self._values = values
        self._fixed = fixed

    def changed(self, current: Mapping[str, str] | None, changes: Iterable[str]) -> dict[str, str]:
        """The attributes after changes that are written `+key=value` or `-key`.

        Args:
            current: those of what is changed; None of what is made.
            changes: as the request has them.

        Raises:
            RequestRefusedError: one is written otherwise, unknown, cannot have the value, or
                cannot be changed now.
        """
        if self._values is None:
            return {}
        attributes = dict(current or {})
        for change in changes:
            sign, rest = change[:1], change[1:]
            key, _, value = rest.partition("=")
            if sign not in ("+", "-") or key not in self._values:
                known = ", ".join(self._values) or "none"
                raise self._refused(
                    f"attribute {change!r} is unknown or has a wrong form; write +key=value or "
                    f"-key with one of these keys: {known}"
                )
            if current is not None and key in self._fixed:
                raise self._refused(f"attribute {key} can be set only when its topic is created")
            if sign == "-":
                if current is None or key not in current:
                    raise self._refused(f"attribute {key} cannot be deleted, because it is not set")
                attributes.pop(key, None)
            else:
                self._check(key, self._values[key], value)
                attributes[key] = value
        return attributes

    def _check(self, key: str, allowed: tuple[str, ...] | range, value: str) -> None:
        if isinstance(allowed, range):
            if not (value.isascii() and value.isdecimal() and int(value[:12]) in allowed):
                raise self._refused(
                    f"attribute {key} must be a number from {allowed.start} to "
                    f"{allowed.stop - 1}, but is {value}"
                )
        elif value not in allowed:
            raise self._refused(
                f"attribute {key} must be one of {', '.join(allowed)}, but is {value}"
            )

    def _refused(self, remark: str) -> RequestRefusedError:
        # In 5.x every failure in there is an exception that says so.
        return RequestRefusedError(ResponseCode.SYSTEM_ERROR, remark)


_IGNORED = AttributeRules(None)


def topic_attributes(profile: BrokerProfile) -> AttributeRules:
    """What topics may have: the values that this broker carries out (E-62)."""
    if not profile.attributes_are_read:
        return _IGNORED
    types: tuple[str, ...] = ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED")
    return AttributeRules(
        {
            MESSAGE_TYPE: (*types, PRIORITY) if profile.message_priorities else types,
            "queue.type": ("SimpleCQ",),
            "cleanup.policy": ("DELETE",),
        },
        fixed=("queue.type", "cleanup.policy"),
    )


def group_attributes(profile: BrokerProfile) -> AttributeRules:
    """What groups may have (E-65)."""
    if not profile.attributes_are_read:
        return _IGNORED
    return AttributeRules({PRIORITY_FACTOR: range(101)} if profile.message_priorities else {})
