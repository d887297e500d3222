"""The types that an option may have: text as a value, a value as text, and what help calls them.

str, int, float, bool, Path, an enum, a `Literal`; a tuple or list of one of them; each `| None`.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


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


def as_type(value: Any, annotation: Any) -> Any:
    """`value` as `annotation` wants it; ValueError's text completes "... is not"."""
    inner, optional = unwrap_optional(annotation)
    # These texts let a flag or a variable unset an optional value.
    if optional and isinstance(value, str) and value.strip().lower() in ("", "none", "null"):
        return None
    origin = typing.get_origin(inner)
    if origin is Literal:
        return _one_of(value, {as_text(word): word for word in typing.get_args(inner)})
    if origin in (tuple, list):
        item = typing.get_args(inner)[0]
        # TOML brings a list; flags, variables and `broker.conf` bring one text.
        parts = value.split(";") if isinstance(value, str) else value
        if not isinstance(parts, (list, tuple)):
            raise ValueError("a list, or text separated by ';'")
        parts = [part.strip() if isinstance(part, str) else part for part in parts]
        # A `;` at the end makes no empty item.
        return origin(as_type(part, item) for part in parts if part != "")
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
        # For Python True is the number 1; `port = true` is a slip.
        if isinstance(value, bool):
            raise ValueError("a number")
        # `int` would silently cut 1.5 to 1.
        if wanted is int and isinstance(value, float) and not value.is_integer():
            raise ValueError("a whole number")
        try:
            return wanted(value.strip().replace("_", "") if isinstance(value, str) else value)
        except (ValueError, TypeError):
            raise ValueError("a whole number" if wanted is int else "a number") from None
    if wanted is str:
        # `name = 5` in TOML is a number and meant as text.
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


def unwrap_optional(annotation: Any) -> tuple[Any, bool]:
    """The type without `None`, and whether None was allowed."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        inner = [arg for arg in typing.get_args(annotation) if arg is not types.NoneType]
        if len(inner) != 1:
            raise TypeError(f"options of type {annotation!r} are not supported")
        return inner[0], True
    return annotation, False


def choices(annotation: Any) -> tuple[str, ...]:
    """The words of an enum or Literal; none for other types."""
    inner, _ = unwrap_optional(annotation)
    if typing.get_origin(inner) is Literal:
        return tuple(as_text(word) for word in typing.get_args(inner))
    if isinstance(inner, type) and issubclass(inner, enum.Enum):
        return tuple(as_text(member) for member in inner)
    return ()


def type_name(annotation: Any) -> str:
    """The type as help texts and reference pages call it."""
    inner, _ = unwrap_optional(annotation)
    if choices(annotation):
        return "choice"
    if typing.get_origin(inner) in (tuple, list):
        return f"{type_name(typing.get_args(inner)[0])};..."
    names = {str: "text", int: "int", float: "float", bool: "bool", Path: "path"}
    return names.get(inner, getattr(inner, "__name__", str(inner)))
