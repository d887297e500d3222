"""Options declared once: value, origin, help and file names all follow from a dataclass field.

    @dataclass(frozen=True, kw_only=True)
    class BrokerConfig:
        section: ClassVar[str] = "broker"
        listen_port: int = option(10911, help="Port to listen on.", rocketmq_name="listenPort")

`config.load` fills such a class, `flags.add_arguments` gives its options to a command line.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any

from pocketmq.runtime.configuration.option_types import as_type, choices, type_name

_MARK = "pocketmq.option"


@dataclass(frozen=True, slots=True)
class _Declared:
    help: str
    unit: str
    rule: str
    rocketmq_name: str | None
    secret: bool
    live: bool
    within: tuple[float, float] | None
    clamped: tuple[float, float] | None
    roles: tuple[str, ...]


def option(
    default: Any,
    *,
    help: str,
    unit: str = "",
    rule: str = "",
    rocketmq_name: str | None = None,
    secret: bool = False,
    live: bool = False,
    within: tuple[float, float] | None = None,
    clamped: tuple[float, float] | None = None,
    roles: tuple[str, ...] = (),
) -> Any:
    """Declare a field of a configuration dataclass.

    Args:
        default: Its value when nobody gives one; a list or dict is copied for each instance.
        help: One line for `--help` and the reference page.
        unit: `ms`, `s`, `bytes`, `%`; empty where there is none. A whole number of percent cannot
            be written as a fraction of 1.
        rule: Id of the rule in docs/rules/ from which the default comes.
        rocketmq_name: Key in `broker.conf`; by default the field in camel case.
        secret: Its value is shown nowhere.
        live: A change acts at once in a running process; else after a restart.
        within: The least and the greatest number that it may be.
        clamped: Any number may be given, and one outside counts as the nearest of these two where
            RocketMQ does so; who reads the value asks `clamped`.
        roles: Who reads it, of those that take its class; empty: all of them.
    """
    declared = {
        _MARK: _Declared(help, unit, rule, rocketmq_name, secret, live, within, clamped, roles)
    }
    if isinstance(default, (list, dict, set)):
        return dataclasses.field(default_factory=lambda: type(default)(default), metadata=declared)
    return dataclasses.field(default=default, metadata=declared)


@dataclass(frozen=True, slots=True)
class OptionDescription:
    """All that help texts, reference pages and parsers need to know of one option."""

    name: str
    """The field."""
    flag: str
    """`--listen-port`."""
    env: str
    """`POCKETMQ_BROKER_LISTEN_PORT`."""
    toml: str
    """`broker.listen_port`."""
    rocketmq_name: str
    """Key in `broker.conf`."""
    type_name: str
    default: Any
    unit: str
    help: str
    rule: str
    secret: bool
    live: bool
    """A change acts at once in a running process."""
    within: tuple[float, float] | None
    """The least and the greatest number allowed."""
    clamped: tuple[float, float] | None
    """A number outside counts as the nearest of these."""
    roles: tuple[str, ...]
    """Who reads it, of those that take its class; empty: all of them."""
    choices: tuple[str, ...]
    """The allowed words, for an enum or Literal."""
    annotation: Any
    """The field's resolved type."""

    def value_of(self, found: Any) -> Any:
        """What a flag, a variable or a file says, as the field's type.

        Raises:
            ValueError: it cannot be; the text completes "... is not".
        """
        if self.unit == "%" and self.annotation is int:
            _refuse_fraction(found)
        value = as_type(found, self.annotation)
        if self.within is not None and isinstance(value, (int, float)):
            least, most = self.within
            if not least <= value <= most:
                bound = f"up to {most:g}" if most != inf else "or more"
                raise ValueError(f"{least:g} {bound}")
        return value


def clamped(config: Any, name: str) -> int:
    """The number that an option counts as: its value, moved into its `clamped`."""
    bounds = next(each.clamped for each in describe(type(config)) if each.name == name)
    assert bounds is not None, name
    return int(min(max(getattr(config, name), bounds[0]), bounds[1]))


def _refuse_fraction(found: Any) -> None:
    """0.9 or 1.0 for 90 or 100 %, which would count as 0 or 1 %.

    Raises:
        ValueError: with the number to write.
    """
    text = str(found).strip()
    if "." not in text:
        return
    try:
        number = float(text)
    except ValueError:
        return
    percent = round(number * 100 if abs(number) <= 1 else number)
    raise ValueError(f"a whole number of percent: write {percent}")


def section_of(config_class: type[Any]) -> str:
    """The class's `section`: TOML table (dots nest) and part of the environment names."""
    section = getattr(config_class, "section", None)
    if not isinstance(section, str) or not section:
        raise TypeError(f"{config_class.__name__} needs `section: ClassVar[str]`")
    return section


def describe(config_class: type[Any]) -> tuple[OptionDescription, ...]:
    """The options of a configuration dataclass, in the order of declaration."""
    made = _descriptions.get(config_class)
    if made is None:
        made = _descriptions[config_class] = tuple(_describe(config_class))
    return made


_descriptions: dict[type[Any], tuple[OptionDescription, ...]] = {}
"""Made once for each class: its type hints take milliseconds to resolve."""


def _describe(config_class: type[Any]) -> Iterator[OptionDescription]:
    section = section_of(config_class)
    hints = typing.get_type_hints(config_class)
    for field in dataclasses.fields(config_class):
        declared: _Declared | None = field.metadata.get(_MARK)
        if declared is None:
            continue
        default = (
            field.default_factory()
            if field.default_factory is not dataclasses.MISSING
            else field.default
        )
        annotation = hints[field.name]
        yield OptionDescription(
            name=field.name,
            flag="--" + field.name.replace("_", "-"),
            env=f"{env_prefix(section)}{field.name.upper()}",
            toml=f"{section}.{field.name}",
            rocketmq_name=declared.rocketmq_name or _camel(field.name),
            type_name=type_name(annotation),
            default=default,
            unit=declared.unit,
            help=declared.help,
            rule=declared.rule,
            secret=declared.secret,
            live=declared.live,
            within=declared.within,
            clamped=declared.clamped,
            roles=declared.roles,
            choices=choices(annotation),
            annotation=annotation,
        )


def env_prefix(section: str) -> str:
    """How the names of a section's environment variables begin."""
    return f"POCKETMQ_{section.upper().replace('.', '_')}_"


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
