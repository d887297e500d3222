"""The keys of a TOML file of options: which there are, and an error for one that nobody uses.

A key that is dropped in silence is worse than a start that is refused: the user believes that it
acts. So a command reads a file whole, or says in one line which key it has no use for.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pocketmq.runtime.configuration.options import describe, section_of
from pocketmq.runtime.errors import ConfigError

Key = tuple[str, str]
"""Section and field."""

_SLIP: Final = 0.82
"""How alike two names are that differ by a letter or two."""


def read_options(path: Path) -> str:
    """The text of a file of options, TOML or properties.

    Raises:
        ConfigError: It cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as exc:
        raise ConfigError(str(path), f"cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(
            str(path), f"the file is not valid UTF-8 text; its first wrong byte is byte {exc.start}"
        ) from exc


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a file.

    Raises:
        ConfigError: It cannot be read, or is no TOML.
    """
    try:
        return tomllib.loads(read_options(path))
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(str(path), f"is no valid TOML: {exc}") from exc


def refuse_unused(
    path: Path,
    config_classes: Sequence[type[Any]],
    command: str,
    *,
    chosen: Mapping[Key, str] | None = None,
    idle: Mapping[Key, str] | None = None,
    more_advice: str = "",
) -> None:
    """Refuse a file with a key that a command does not use.

    Args:
        path: The file.
        config_classes: All that the command reads from it, its own first. What only a role reads
            whose table is not among them is used by nobody.
        command: As the user types it.
        chosen: Options of these classes for which the command chooses the value itself; what says
            so elsewhere, such as `[cluster] host`, or the empty text.
        idle: Options of these classes that have no effect beside others that were given, and why.
        more_advice: For who gives it a table of another command.

    Raises:
        ConfigError: There is one; or the file cannot be read.
    """
    chosen = chosen or {}
    idle = idle or {}
    known = {
        section_of(each): [option.name for option in describe(each)] for each in config_classes
    }
    # An option that only another role reads is of no use here, unless that role's table is read,
    # too.
    of_others: dict[Key, Sequence[str]] = {
        (section_of(each), option.name): option.roles
        for each in config_classes
        for option in describe(each)
        if option.roles and known.keys().isdisjoint(option.roles)
    }
    refused = chosen.keys() | of_others.keys() | idle.keys()
    for section, name in _keys(read_toml(path), known):
        if name in known.get(section, ()) and (section, name) not in refused:
            continue
        # Reached for the first unused key only: the error below ends the loop.
        usable = {
            table: [each for each in names if (table, each) not in refused]
            for table, names in known.items()
        }
        if not section:
            raise _in_no_table(path, name, usable, command)
        if section not in known:
            slip = difflib.get_close_matches(section, known, n=1, cutoff=_SLIP)
            meant = f"did you mean [{slip[0]}]? " if slip else ""
            tables = ", ".join(f"[{each}]" for each in known)
            raise ConfigError(
                f"[{section}]" + (f" {name}" if name else ""),
                f"`{command}` reads no such table",
                origin=str(path),
                advice=f"{meant}it knows the tables {tables}" + ("" if slip else more_advice),
            )
        if (section, name) in chosen:
            elsewhere = chosen[section, name]
            wanted = f"write {elsewhere} instead" if elsewhere else "leave it out"
            problem = f"`{command}` chooses it"
        elif (section, name) in idle:
            wanted = "leave it out"
            problem = f"has no effect with `{command}`: {idle[section, name]}"
        elif (section, name) in of_others:
            wanted = "leave it out"
            problem = (
                f"is for a {' or a '.join(of_others[section, name])}, and `{command}` runs none"
            )
        else:
            wanted, problem = "", f"is unknown to `{command}`"
        raise unknown_key(path, section, name, usable[section], problem=problem, advice=wanted)


def unknown_key(
    path: Path,
    section: str,
    name: str,
    names: Iterable[str],
    *,
    problem: str = "is unknown",
    advice: str = "",
) -> ConfigError:
    """The error for a key that its table does not have; it lists those that it has."""
    known = sorted(names)
    if not advice:
        close = difflib.get_close_matches(name, known, n=1)
        advice = f"did you mean {close[0]}?" if close else f"[{section}] has no such option"
    return ConfigError(
        name,
        problem,
        origin=f"{path} [{section}]",
        advice=f"{advice}; [{section}] knows {', '.join(known)}",
    )


def refuse_slip(path: Path, section: str, wanted: str, names: Sequence[str]) -> None:
    """A table that is nearly named as the one that is missing; others are for other roles."""
    close = difflib.get_close_matches(wanted, names, n=1, cutoff=_SLIP)
    if close:
        problem = f"[{close[0]}] is no section"
        raise ConfigError(str(path), problem, advice=f"did you mean [{section}]?")


def _in_no_table(
    path: Path, name: str, usable: Mapping[str, Sequence[str]], command: str
) -> ConfigError:
    having = [section for section, names in usable.items() if name in names]
    first = (having or list(usable))[0]
    close = difflib.get_close_matches(name, usable[first], n=1)
    meant = f"; did you mean {close[0]}?" if close and not having else ""
    return ConfigError(
        name,
        f"is in no table, so `{command}` does not use it",
        origin=str(path),
        advice=f"write it below [{first}]{meant}; "
        f"[{first}] knows {', '.join(sorted(usable[first]))}",
    )


def _keys(
    table: Mapping[str, Any], known: Mapping[str, object], section: str = ""
) -> Iterator[Key]:
    """Section and name of each key; a table without any has the empty name."""
    # An empty unknown table is as useless as an unknown key, so it is reported, too.
    if section and not table and section not in known:
        yield section, ""
    for name, value in table.items():
        inner = f"{section}.{name}" if section else name
        if isinstance(value, dict):  # no option is a table
            yield from _keys(value, known, inner)
        else:
            yield section, name
