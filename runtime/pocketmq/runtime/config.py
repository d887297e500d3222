"""Options declared once: value, origin, help and file names all follow from a dataclass field.

    @dataclass(frozen=True, kw_only=True)
    class BrokerConfig:
        section: ClassVar[str] = "broker"
        listen_port: int = option(10911, help="Port to listen on.", rocketmq_name="listenPort")

A value comes from the first of: command-line flag `--listen-port`, environment variable
`POCKETMQ_BROKER_LISTEN_PORT`, TOML `[broker] listen_port`, RocketMQ's `broker.conf`
(`listenPort=10911`), the default.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import enum
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from pocketmq.runtime.errors import ConfigError

T = TypeVar("T")

_MARK = "pocketmq.option"

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


@dataclass(frozen=True, slots=True)
class _Declared:
    help: str
    unit: str
    rule: str
    rocketmq_name: str | None
    secret: bool


def option(
    default: Any,
    *,
    help: str,
    unit: str = "",
    rule: str = "",
    rocketmq_name: str | None = None,
    secret: bool = False,
) -> Any:
    """Declare a field of a configuration dataclass.

    Args:
        default: Its value when nobody gives one; a list or dict is copied for each instance.
        help: One line for `--help` and the reference page.
        unit: `ms`, `s`, `bytes`; empty where there is none.
        rule: Id in the behaviour sheet from which the default comes.
        rocketmq_name: Key in `broker.conf`; by default the field in camel case.
        secret: Its value is shown nowhere.
    """
    declared = {_MARK: _Declared(help, unit, rule, rocketmq_name, secret)}
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
    choices: tuple[str, ...]
    """The allowed words, for an enum or Literal."""
    annotation: Any
    """The field's resolved type."""


@dataclass(frozen=True, slots=True)
class Loaded(Generic[T]):
    """A configuration and where each of its values came from."""

    config: T
    origins: Mapping[str, str]
    """Field -> `flag --x`, `environment POCKETMQ_X`, `<file> x`, or `default`."""


def section_of(config_class: type[Any]) -> str:
    """The class's `section`: TOML table (dots nest) and part of the environment names."""
    section = getattr(config_class, "section", None)
    if not isinstance(section, str) or not section:
        raise TypeError(f"{config_class.__name__} needs `section: ClassVar[str]`")
    return section


def describe(config_class: type[Any]) -> list[OptionDescription]:
    """The options of a configuration dataclass, in the order of declaration."""
    section = section_of(config_class)
    hints = typing.get_type_hints(config_class)
    descriptions = []
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
        descriptions.append(
            OptionDescription(
                name=field.name,
                flag="--" + field.name.replace("_", "-"),
                env=f"{_env_prefix(section)}{field.name.upper()}",
                toml=f"{section}.{field.name}",
                rocketmq_name=declared.rocketmq_name or _camel(field.name),
                type_name=_type_name(annotation),
                default=default,
                unit=declared.unit,
                help=declared.help,
                rule=declared.rule,
                secret=declared.secret,
                choices=_choices(annotation),
                annotation=annotation,
            )
        )
    return descriptions


def load(
    config_class: type[T],
    flags: Mapping[str, Any],
    env: Mapping[str, str],
    toml_path: Path | None = None,
    *,
    broker_conf: Path | None = None,
) -> Loaded[T]:
    """Fill `config_class` from flags, environment, files and defaults, in this order.

    Args:
        config_class: A dataclass whose fields were made by `option`.
        flags: By field name; None means not given. Names of other classes are ignored, so that
            one command line can fill several.
        env: Usually `os.environ`.
        toml_path: A file whose table `[<section>]` holds values by field name.
        broker_conf: A RocketMQ properties file.

    Raises:
        ConfigError: A file cannot be read, a value has the wrong type, or TOML names an option
            that does not exist.
    """
    options = describe(config_class)
    section = section_of(config_class)
    table = _toml_table(toml_path, section, options) if toml_path is not None else {}
    properties = read_properties(broker_conf) if broker_conf is not None else {}

    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for each in options:
        for origin, found in (
            (f"flag {each.flag}", flags.get(each.name)),
            (f"environment {each.env}", env.get(each.env)),
            (f"{toml_path} {each.toml}", table.get(each.name)),
            (f"{broker_conf} {each.rocketmq_name}", properties.get(each.rocketmq_name)),
        ):
            if found is not None:
                values[each.name] = _convert(found, each, origin)
                origins[each.name] = origin
                break
        else:
            origins[each.name] = "default"
            if isinstance(each.default, Path):
                values[each.name] = each.default.expanduser()

    try:
        config = config_class(**values)
    except ValueError as exc:  # raised by a class's own __post_init__ checks
        raise ConfigError(section, str(exc)) from exc
    return Loaded(config, origins)


def unknown_names(
    config_classes: Sequence[type[Any]], env: Mapping[str, str], broker_conf: Path | None = None
) -> list[str]:
    """Names in the environment and in `broker.conf` that no option has; worth a warning.

    No error, because RocketMQ's files name many options that mean nothing here.

    Args:
        config_classes: All classes that the process loads.
        env: Looked through for names that begin like one of a class's own.
        broker_conf: The properties file, if one was given.
    """
    options = [each for config_class in config_classes for each in describe(config_class)]
    prefixes = tuple(_env_prefix(section_of(config_class)) for config_class in config_classes)
    known_env = {each.env for each in options}
    known_conf = {each.rocketmq_name for each in options}
    properties = read_properties(broker_conf) if broker_conf is not None else {}
    return [
        *(name for name in sorted(env) if name.startswith(prefixes) and name not in known_env),
        *(name for name in properties if name not in known_conf),
    ]


# -- command lines ------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser, *config_classes: type[Any]) -> None:
    """Give `parser` one flag per option; an absent flag yields None, so that `load` looks on."""
    for config_class in config_classes:
        group = parser.add_argument_group(section_of(config_class))
        for each in describe(config_class):
            text = each.help.replace("%", "%%") + _default_text(each).replace("%", "%%")
            inner, _ = _optional(each.annotation)
            if inner is bool:
                group.add_argument(
                    each.flag,
                    dest=each.name,
                    action=argparse.BooleanOptionalAction,
                    default=None,
                    help=text,
                )
            else:
                group.add_argument(
                    each.flag,
                    dest=each.name,
                    default=None,
                    metavar=each.type_name.upper() if not each.choices else None,
                    choices=each.choices or None,
                    help=text,
                )


def as_flags(config: Any) -> list[str]:
    """Command-line arguments that make a child process load an equal configuration.

    Only values that differ from the default are named.
    """
    arguments = []
    for each in describe(type(config)):
        value = getattr(config, each.name)
        if value == each.default:
            continue
        if isinstance(value, bool):
            arguments.append(each.flag if value else "--no-" + each.flag[2:])
        else:
            arguments.append(f"{each.flag}={as_text(value)}")
    return arguments


def as_text(value: Any) -> str:
    """A value as it is written in flags, environment variables and `broker.conf`."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case enum.Enum():
            return str(value.value)
        case list() | tuple() | set() | frozenset():
            return ";".join(as_text(item) for item in value)
        case _:
            return str(value)


# -- files --------------------------------------------------------------------------------------


def read_properties(path: Path) -> dict[str, str]:
    """Keys and values of a Java properties file such as RocketMQ's `broker.conf`.

    Understands comments (`#`, `!`), the separators `=`, `:` and white space, lines continued by a
    backslash, and the escapes `\\t \\n \\r \\f \\\\ \\uXXXX`.

    Raises:
        ConfigError: The file cannot be read.
    """
    return dict(_properties(_read_text(path)))


def _properties(text: str) -> Iterator[tuple[str, str]]:
    lines = iter(text.splitlines())
    for raw in lines:
        line = raw.lstrip()
        if not line or line[0] in "#!":
            continue
        while _continues(line):
            line = line[:-1] + next(lines, "").lstrip()
        end = 0
        while end < len(line) and line[end] not in "=: \t\f":
            end += 2 if line[end] == "\\" else 1
        key, rest = line[:end], line[end:].lstrip(" \t\f")
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(" \t\f")
        yield _unescape(key), _unescape(rest)


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char != "\\" or at == len(text):
            out.append(char)
            continue
        escaped = text[at]
        at += 1
        if escaped == "u":
            digits = text[at : at + 4]
            try:
                out.append(chr(int(digits, 16)))
            except ValueError:
                raise ConfigError(f"\\u{digits}", "four hex digits must follow \\u") from None
            at += 4
        else:
            out.append({"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(escaped, escaped))
    return "".join(out)


def _toml_table(
    path: Path, section: str, options: Sequence[OptionDescription]
) -> Mapping[str, Any]:
    try:
        table: dict[str, Any] = tomllib.loads(_read_text(path))
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(str(path), f"is no valid TOML: {exc}") from exc
    for part in section.split("."):
        inner: Any = table.get(part, {})
        if not isinstance(inner, dict):
            raise ConfigError(str(path), f"[{section}] must be a table")
        table = inner
    names = {each.name for each in options}
    for name, value in table.items():
        if name not in names and not isinstance(value, dict):  # a table is another section
            close = difflib.get_close_matches(name, names, n=1)
            advice = f"did you mean {close[0]}?" if close else f"[{section}] has no such option"
            raise ConfigError(name, "is unknown", origin=f"{path} [{section}]", advice=advice)
    return table


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as exc:
        raise ConfigError(str(path), f"cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(str(path), f"is not UTF-8 text (byte {exc.start})") from exc


# -- types --------------------------------------------------------------------------------------


def _convert(value: Any, each: OptionDescription, origin: str) -> Any:
    try:
        return _as_type(value, each.annotation)
    except ValueError as exc:
        shown = "the value" if each.secret else repr(value)
        raise ConfigError(each.name, f"{shown} is not {exc}", origin=origin) from exc


def _as_type(value: Any, annotation: Any) -> Any:
    """`value` as `annotation` wants it; ValueError's text completes "... is not"."""
    inner, optional = _optional(annotation)
    if optional and isinstance(value, str) and value.strip().lower() in ("", "none", "null"):
        return None
    origin = typing.get_origin(inner)
    if origin is Literal:
        return _one_of(value, {as_text(word): word for word in typing.get_args(inner)})
    if origin in (tuple, list):
        item = typing.get_args(inner)[0]
        parts = value.split(";") if isinstance(value, str) else value
        if not isinstance(parts, (list, tuple)):
            raise ValueError("a list, or text separated by ';'")
        parts = [part.strip() if isinstance(part, str) else part for part in parts]
        return origin(_as_type(part, item) for part in parts if part != "")
    if isinstance(inner, type) and issubclass(inner, enum.Enum):
        if isinstance(value, inner):
            return value
        return _one_of(value, {as_text(member): member for member in inner})
    return _scalar(value, inner)


def _scalar(value: Any, wanted: Any) -> Any:
    if wanted is bool:
        if isinstance(value, bool):
            return value
        word = str(value).strip().lower()
        if word not in _TRUE | _FALSE:
            raise ValueError("true or false")
        return word in _TRUE
    if wanted in (int, float):
        if isinstance(value, bool):
            raise ValueError("a number")
        if wanted is int and isinstance(value, float) and not value.is_integer():
            raise ValueError("a whole number")
        try:
            return wanted(value.strip().replace("_", "") if isinstance(value, str) else value)
        except (ValueError, TypeError):
            raise ValueError("a whole number" if wanted is int else "a number") from None
    if wanted is str:
        if not isinstance(value, (str, int, float)):
            raise ValueError("text")
        return as_text(value)
    if wanted is Path:
        if not isinstance(value, (str, Path)):
            raise ValueError("a path")
        return Path(value).expanduser()
    raise TypeError(f"options of type {wanted!r} are not supported")


def _one_of(value: Any, words: Mapping[str, Any]) -> Any:
    word = as_text(value).strip()
    for known, meant in words.items():
        if word.lower() == known.lower():  # broker.conf writes SYNC_FLUSH, flags write sync_flush
            return meant
    raise ValueError("one of " + ", ".join(words))


def _optional(annotation: Any) -> tuple[Any, bool]:
    """The type without `None`, and whether None was allowed."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        inner = [arg for arg in typing.get_args(annotation) if arg is not types.NoneType]
        if len(inner) != 1:
            raise TypeError(f"options of type {annotation!r} are not supported")
        return inner[0], True
    return annotation, False


def _choices(annotation: Any) -> tuple[str, ...]:
    inner, _ = _optional(annotation)
    if typing.get_origin(inner) is Literal:
        return tuple(as_text(word) for word in typing.get_args(inner))
    if isinstance(inner, type) and issubclass(inner, enum.Enum):
        return tuple(as_text(member) for member in inner)
    return ()


def _type_name(annotation: Any) -> str:
    inner, _ = _optional(annotation)
    if _choices(annotation):
        return "choice"
    if typing.get_origin(inner) in (tuple, list):
        return f"{_type_name(typing.get_args(inner)[0])};..."
    names = {str: "text", int: "int", float: "float", bool: "bool", Path: "path"}
    return names.get(inner, getattr(inner, "__name__", str(inner)))


def _default_text(each: OptionDescription) -> str:
    if each.default is None or each.default in ("", (), []):
        return ""
    unit = f" {each.unit}" if each.unit else ""
    return f" [default: {as_text(each.default)}{unit}]"


def _env_prefix(section: str) -> str:
    return f"POCKETMQ_{section.upper().replace('.', '_')}_"


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
