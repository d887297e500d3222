"""Fills a configuration dataclass from where its values may come.

A value comes from the first of: command-line flag `--listen-port`, environment variable
`POCKETMQ_BROKER_LISTEN_PORT`, TOML `[broker] listen_port`, RocketMQ's `broker.conf`
(`listenPort=10911`), the default. `options.py` tells how an option is declared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pocketmq.runtime.configuration.java_properties import parse_properties
from pocketmq.runtime.configuration.options import (
    OptionDescription,
    describe,
    env_prefix,
    section_of,
)
from pocketmq.runtime.configuration.toml_keys import (
    read_options,
    read_toml,
    refuse_slip,
    unknown_key,
)
from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.files.durable_file import backup_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Loaded(Generic[T]):
    """A configuration and where each of its values came from."""

    config: T
    origins: Mapping[str, str]
    """Field -> `flag --x`, `environment POCKETMQ_X`, `<file> x`, or `default`."""


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
    # Strongest source first: the first value found wins, even an empty text.
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
            # A value that was found had its `~` expanded by `value_of`.
            if isinstance(each.default, Path):
                values[each.name] = each.default.expanduser()

    try:
        config = config_class(**values)
    except ValueError as exc:  # raised by a class's own __post_init__ checks
        raise ConfigError(section, str(exc)) from exc
    return Loaded(config, origins)


def options_file(chosen: Path | None, started_with: str | None) -> Path | None:
    """The file that takes what tools change (O-8).

    Args:
        chosen: By option `config_store_path`.
        started_with: The `-c` file of the process; it is taken where none was chosen.
    """
    return Path(started_with) if chosen is None and started_with is not None else chosen


def unknown_names(
    config_classes: Sequence[type[Any]], env: Mapping[str, str], broker_conf: Path | None = None
) -> list[str]:
    """Names in the environment and in `broker.conf` that no option has; worth a warning.

    No error, because RocketMQ's files name many options that mean nothing here. A class may have
    `replaced`, a table of such names; what it says about one stands behind it in brackets.

    Args:
        config_classes: All classes that the process loads.
        env: Looked through for names that begin like one of a class's own.
        broker_conf: The properties file, if one was given.
    """
    options = [each for config_class in config_classes for each in describe(config_class)]
    prefixes = tuple(env_prefix(section_of(config_class)) for config_class in config_classes)
    known_env = {each.env for each in options}
    known_conf = {each.rocketmq_name for each in options}
    properties = read_properties(broker_conf) if broker_conf is not None else {}
    replaced: dict[str, str] = {}
    for config_class in config_classes:
        replaced |= getattr(config_class, "replaced", {})
    return [
        *(name for name in sorted(env) if name.startswith(prefixes) and name not in known_env),
        *(
            f"{name} ({replaced[name]})" if name in replaced else name
            for name in properties
            if name not in known_conf
        ),
    ]


def _convert(value: Any, each: OptionDescription, origin: str) -> Any:
    try:
        return each.value_of(value)
    except ValueError as exc:
        # A password must not stand in an error line, which may be logged.
        shown = "the value" if each.secret else repr(value)
        raise ConfigError(each.name, f"{shown} is not {exc}", origin=origin) from exc


# -- files --------------------------------------------------------------------------------------


def read_properties(path: Path) -> dict[str, str]:
    """Keys and values of a Java properties file such as RocketMQ's `broker.conf`.

    A process that was killed while it kept changed options may have left only the file's `.bak`,
    which is read then (`durable_file.DurableFile`).

    Raises:
        ConfigError: The file cannot be read.
    """
    return parse_properties(read_options(_present(path) or path))


def all_in(path: Path | None) -> dict[str, str]:
    """All that a properties file holds; nothing where there is none."""
    return {} if path is None or _present(path) is None else read_properties(path)


def _present(path: Path) -> Path | None:
    """The file, or its `.bak` where there is only that; None for neither."""
    return next((each for each in (path, backup_of(path)) if each.exists()), None)


def _toml_table(
    path: Path, section: str, options: Sequence[OptionDescription]
) -> Mapping[str, Any]:
    table = read_toml(path)
    for part in section.split("."):
        # A missing table is fine: the file may be for other roles. A misspelt one is refused.
        if part not in table:
            refuse_slip(path, section, part, [n for n, v in table.items() if isinstance(v, dict)])
        inner: Any = table.get(part, {})
        if not isinstance(inner, dict):
            raise ConfigError(str(path), f"[{section}] must be a table")
        table = inner
    names = {each.name for each in options}
    for name, value in table.items():
        if name not in names and not isinstance(value, dict):  # a table is another section
            raise unknown_key(path, section, name, names)
    return table
