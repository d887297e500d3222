"""The pages on codes and headers, made from the declarations in `protocol/`; see `generate.py`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import inspect

from pocketmq.operation.control import requests as control
from pocketmq.operation.faults import requests as faults
from pocketmq.protocol import headers
from pocketmq.protocol.codes import ClientErrorCode, LanguageCode, RequestCode, ResponseCode
from pocketmq.protocol.header import REQUEST_HEADERS
from pocketmq.protocol.scalars import INT16_MAX, INT32_MAX, INT64_MAX

_MADE = "Made by `make docs` from the declarations; do not edit."
_WIDTHS = {INT16_MAX: "int16", INT32_MAX: "int32", INT64_MAX: "int64"}


def codes_page() -> str:
    """Every request, response, client and language code."""
    tables = (
        (
            "Requests",
            RequestCode,
            "One without a header is not implemented: it is answered with code 3.",
        ),
        ("Responses", ResponseCode, "Every one of them fits int16, as Go clients need."),
        ("Errors of our own client", ClientErrorCode, "These never travel."),
        ("Languages", LanguageCode, "The `language` field of a header."),
    )
    lines = ["# Codes", "", _MADE]
    for title, codes, remark in tables:
        lines += ["", f"## {title}", "", remark, ""]
        with_header = codes is RequestCode
        lines += ["| code | name | meaning | since |" + (" header |" if with_header else "")]
        lines += ["|---|---|---|---|" + ("---|" if with_header else "")]
        for code in sorted(codes):
            row = f"| {int(code)} | `{code.name}` | {_cell(code.meaning)} | {code.since} |"
            if with_header:
                cls = REQUEST_HEADERS.get(code)
                row += f" [{cls.__name__}](headers.md#{_anchor(code)}) |" if cls else " |"
            lines.append(row)
    return "\n".join([*lines, ""])


def headers_page() -> str:
    """Every declared header with its fields, and the structured bodies that go with it."""
    assert all((headers, control, faults))  # importing them has filled REQUEST_HEADERS
    lines = [
        "# Headers and bodies",
        "",
        _MADE,
        "",
        "Names are those on the wire. JSON (0) and RocketMQ binary (1) carry every value as text,",
        "msgpack (77) carries it typed. Where a default is given the field may be missing.",
    ]
    bodies: dict[str, type[Any]] = {}
    for code, cls in sorted(REQUEST_HEADERS.items()):
        lines += ["", f"## {_title(code)}", "", _summary(cls), "", *_fields(cls, "request")]
        if cls.RESPONSE is not None:
            lines += ["", *_fields(cls.RESPONSE, "answer")]
        for what, body in (("Body", cls.BODY), ("Body of the answer", cls.RESPONSE_BODY)):
            if body is not None:
                bodies |= {found.__name__: found for found in _structs(body)}
                lines += ["", f"{what}: [{body.__name__}](#{body.__name__.lower()})."]
    lines += [
        "",
        "# Bodies",
        "",
        "Structured bodies are JSON with encodings 0 and 1, msgpack with 77.",
    ]
    for name, body in sorted(bodies.items()):
        lines += ["", f"## {name}", "", _summary(body), "", *_fields(body, "")]
    return "\n".join([*lines, ""])


def _title(code: int) -> str:
    return f"{RequestCode(code).name} {int(code)}"


def _anchor(code: int) -> str:
    return _title(code).lower().replace(" ", "-")


def _summary(cls: type[Any]) -> str:
    return (cls.__doc__ or "").strip().splitlines()[0]


def _fields(cls: type[Any], what: str) -> Iterator[str]:
    """A table of the fields, or a word that there are none."""
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType)
    if not info.fields:
        yield f"The {what} has no fields."
        return
    yield f"| {what or 'field'} | type | default |"
    yield "|---|---|---|"
    for field in info.fields:
        yield f"| `{field.encode_name}` | {_type(field.type)} | {_default(field)} |"


def _default(field: inspect.Field) -> str:
    if field.required:
        return "required"
    default = field.default
    if default is msgspec.NODEFAULT:
        if field.default_factory is msgspec.NODEFAULT:  # msgspec.UNSET: not written
            return ""
        default = field.default_factory()
    match default:
        case None:
            return ""
        case bool():
            return "`true`" if default else "`false`"
        case msgspec.Struct():
            return "empty"
        case str():
            return f'`"{default}"`'
        case _:
            return f"`{default!r}`" if default or default == 0 else "empty"


def _type(kind: inspect.Type) -> str:
    match kind:
        case inspect.UnionType(types=kinds):
            return " or ".join(
                _type(each) for each in kinds if not isinstance(each, inspect.NoneType)
            )
        case inspect.IntType(le=highest):
            return _WIDTHS.get(highest or INT64_MAX, "int64")
        case inspect.StrType():
            return "text"
        case inspect.BoolType():
            return "bool"
        case inspect.FloatType():
            return "float"
        case inspect.LiteralType(values=words):
            return ", ".join(f"`{word}`" for word in words)
        case inspect.ListType(item_type=item) | inspect.SetType(item_type=item):
            return f"list of {_type(item)}"
        case inspect.FrozenSetType(item_type=item):
            return f"list of {_type(item)}"
        case inspect.DictType(key_type=key, value_type=value):
            return f"map of {_type(key)} to {_type(value)}"
        case inspect.StructType(cls=cls):
            return f"[{cls.__name__}](#{cls.__name__.lower()})"
    raise NotImplementedError(f"no words for {kind!r}")


def _structs(cls: type[Any]) -> Iterator[type[Any]]:
    """A body and every struct inside it."""
    seen: dict[type[Any], None] = {}
    todo: list[inspect.Type] = [inspect.type_info(cls)]
    while todo:
        kind = todo.pop()
        if isinstance(kind, inspect.StructType):
            if kind.cls in seen:
                continue
            seen[kind.cls] = None
            todo += [field.type for field in kind.fields]
        todo += _inside(kind)
    yield from seen


def _inside(kind: inspect.Type) -> Iterable[inspect.Type]:
    match kind:
        case inspect.UnionType(types=kinds):
            return kinds
        case inspect.ListType(item_type=item) | inspect.SetType(item_type=item):
            return (item,)
        case inspect.FrozenSetType(item_type=item):
            return (item,)
        case inspect.DictType(key_type=key, value_type=value):
            return (key, value)
    return ()


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
