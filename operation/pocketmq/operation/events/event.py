"""`Event`: the base of all events, and what each of them says of itself. Pure.

An event's name is its class's in kebab case (`message-stored`). As JSON it is one flat object that
begins with its name:

    {"event":"pull-held","at_ms":1795369348837,"by":"broker-a","seq":12,"real_us":51833,...}

What has its default value is left out. Where events of several roles are put together, they are
ordered by `real_us`, which is one clock for all processes of a machine; those of one role by `seq`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

import msgspec

WORD = re.compile(r"(?<!^)(?=[A-Z])")


def _kebab(class_name: str) -> str:
    return WORD.sub("-", class_name).lower()


class Event(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="event", tag=_kebab
):
    """Base of all events."""

    RULE: ClassVar[str | None] = None
    """Of docs/rules, where the event shows one."""

    at_ms: int
    """Protocol time where it happened: on a manual clock many events have the same."""
    by: str
    """Who says it: the name of a role, a client id, or `cluster`."""
    seq: int
    """Number among the events of `by`, from 1; begins again when it is started again."""
    real_us: int
    """Real microseconds of the machine since some moment; in a simulation, virtual ones."""

    @classmethod
    def name(cls) -> str:
        """As in JSON: `message-stored`."""
        return _kebab(cls.__name__)

    @classmethod
    def field_names(cls) -> Iterator[str]:
        """The names of the fields that it has beside those of `Event`."""
        return iter(cls.__struct_fields__[len(Event.__struct_fields__) :])
