"""Options of a running process: what they are now, and changes that tools ask for (O-2 to O-8).

A change is text in the form of `broker.conf`. A value is checked by its option's declaration. Some
options act at once, the others after a restart: `text` shows and the file keeps them all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pocketmq.runtime.configuration.java_properties import parse_properties
from pocketmq.runtime.configuration.option_types import as_text
from pocketmq.runtime.configuration.options import OptionDescription, describe
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.signals import Signal

T = TypeVar("T")

NOTHING: Mapping[str, str] = {}
_UNDECIDED = ("", "0")

SHOWN = 10
"""So many keys are named in a remark."""


class ProtectedOptionError(PocketMQError):
    """A key that nobody may change from outside (CVE-2023-33246)."""


@dataclass(frozen=True, slots=True)
class OptionChange:
    """What became of the keys of a change."""

    applied: tuple[str, ...] = ()
    """They act now."""
    at_restart: tuple[str, ...] = ()
    """They act when the process is started with the file."""
    refused: tuple[str, ...] = ()
    """Not changed, each with its reason."""

    @property
    def remark(self) -> str | None:
        """What whoever asked should know; None when everything acts now."""
        parts = []
        if self.refused:
            parts.append("not changed: " + _listed(self.refused))
        if self.at_restart:
            parts.append("only after a restart with this file: " + _listed(self.at_restart))
        return "; ".join(parts) or None


class LiveOptions:
    """The present values of some configurations.

    Args:
        configs: as they are at the start; each is replaced as a whole when a value changes. Options
            declared as `live` act at once.
        protected: RocketMQ's names of options that may not be changed.
        others: what else stands in the file, and is kept there: options of RocketMQ that have no
            meaning here.
    """

    def __init__(
        self,
        *configs: Any,
        protected: Collection[str] = (),
        others: Mapping[str, str] | None = None,
    ) -> None:
        self.changes = 0
        """How many were taken."""
        self.changed: Signal[[frozenset[str]]] = Signal()
        """(RocketMQ's names): these act now with new values."""
        self._protected = frozenset(protected)
        self.by_class: dict[type[Any], Any] = {type(config): config for config in configs}
        """The values that act now, to be read only; `current` is the same with a type."""
        self._saved = dict(self.by_class)
        """With the values that act after a restart."""
        self._known = {
            each.rocketmq_name: (cls, each)
            for cls in self.by_class
            for each in describe(cls)
            if not each.secret
        }
        # These may include secrets: the file keeps them, but no tool is shown them.
        self._others = {key: text for key, text in (others or {}).items() if key not in self._known}

    def current(self, config_class: type[T]) -> T:
        """The values that act now."""
        config: T = self.by_class[config_class]
        return config

    def text(
        self, *, decided: Mapping[str, str] = NOTHING, facts: Mapping[str, str] = NOTHING
    ) -> str:
        """Lines `key=value`, sorted; options without a value are left out (O-2).

        Args:
            decided: What the process chose where the option leaves the choice to it: where it has
                no value, or is 0 or less.
            facts: Shown whatever an option says, and for keys that are no option.
        """
        shown = dict(self._texts())
        for key, text in decided.items():
            if shown.get(key, "") in _UNDECIDED or shown[key].startswith("-"):
                shown[key] = text
        return "".join(f"{key}={text}\n" for key, text in sorted((shown | dict(facts)).items()))

    def file_text(self) -> str:
        """The same as a properties file, with what else stood in it."""
        texts = sorted([*self._texts(), *self._others.items()])
        return "".join(f"{key}={_escaped(text)}\n" for key, text in texts)

    def update(self, body: bytes) -> OptionChange:
        """Take over what can be; keys that are unknown or have a wrong value stay as they are.

        Raises:
            ProtectedOptionError: one key may not be changed, and nothing was.
            ConfigError: this is no properties text.
            UnicodeDecodeError: nor is it UTF-8.
        """
        wanted = parse_properties(body.decode())
        forbidden = sorted(self._protected.intersection(wanted))
        if forbidden:
            raise ProtectedOptionError(", ".join(forbidden))
        self.changes += 1
        applied: list[str] = []
        at_restart: list[str] = []
        refused: list[str] = []
        for key, text in wanted.items():
            known = self._known.get(key)
            if known is None:
                refused.append(f"{key} (no such option)")
                continue
            problem = self._change(*known, text.strip())
            if problem is not None:
                refused.append(f"{key} ({problem})")
            else:
                (applied if known[1].live else at_restart).append(key)
        # Emit once for all keys: a listener may read several that belong together.
        if applied:
            self.changed.emit(frozenset(applied))
        return OptionChange(tuple(applied), tuple(at_restart), tuple(refused))

    def _change(self, cls: type[Any], each: OptionDescription, text: str) -> str | None:
        """Why the value cannot be taken; None when it was."""
        # A line break would write another key into the file.
        if not text.isprintable():
            return "one line of printable text, please"
        try:
            change = {each.name: each.value_of(text)}
            saved = replace(self._saved[cls], **change)
            # Both first: a value may fit what acts after a restart, and not what acts now.
            live = replace(self.by_class[cls], **change) if each.live else self.by_class[cls]
        except (ValueError, PocketMQError) as exc:
            return f"{text[:100]!r} is not {exc}"
        self._saved[cls], self.by_class[cls] = saved, live
        return None

    def _texts(self) -> list[tuple[str, str]]:
        values = (
            (key, getattr(self._saved[cls], each.name))
            for key, (cls, each) in sorted(self._known.items())
        )
        return [(key, as_text(value)) for key, value in values if value is not None]


def _listed(words: tuple[str, ...]) -> str:
    more = len(words) - SHOWN
    return ", ".join(words[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\")
