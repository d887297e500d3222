"""The largest requests that a declaration and the budget allow, of the shapes that cost the most.

for label, command in largest(PullMessageRequestHeader, known, budget): ...
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import count, cycle, islice
from typing import Any

import msgspec
from msgspec import inspect

from pocketmq.protocol.body import encode_body
from pocketmq.protocol.budget import Budget
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.header import Header
from pocketmq.protocol.messages.batch import encode_batch
from pocketmq.protocol.messages.message import Message

SPARE_BYTES = 4096
"""Of a header, for its other fields."""

SHAPES: Mapping[str, str] = {
    "one word": "x",
    "tags": "ab||",
    "properties": "k\x01v\x02",
    "texts in a list": '"a",',
    "words": "a b ",
    "lines": "brokerPermission=6\n",
    "parentheses": "(",
    "conditions": "a=1 OR ",
    "digits": "9",
    "parts": "1 ",
    "semicolons": "a:1;",
    "parents": "../",
}
"""What a long text is made of, again and again."""

NUMBERS = (-(2**63), -(2**31), -1, 2**31 - 1, 2**63 - 1)


def largest(
    cls: type[Header], known: Mapping[str, object], budget: Budget, shapes: int = len(SHAPES)
) -> Iterator[tuple[str, Command]]:
    """Requests of a header class, each with one part as large as it may be.

    Args:
        cls: declares header and body.
        known: by field name, what there is: a topic, a group.
        budget: how long headers and bodies may be.
        shapes: how many of `SHAPES` each text gets, in turn.
    """
    encodings, turns = count(), cycle(SHAPES.items())

    def command(fields: Mapping[str, object], body: bytes | msgspec.Struct = b"") -> Command:
        # Typed fields, as msgpack carries them, unless a value does not fit its declaration.
        encoding = list(Encoding)[next(encodings) % 3]
        data = encode_body(body, encoding) if isinstance(body, msgspec.Struct) else body
        try:
            header: Header | Mapping[str, object] = cls.from_fields(fields)
        except Exception:  # noqa: BLE001 - then the text itself
            header = fields
        return Command(cls.CODE, header, data, opaque=1, encoding=encoding, version=479)

    base = dict(_base(cls, known))
    body = _body(cls, budget)
    yield "as it is", command(base, body)
    room = budget.header_bytes - SPARE_BYTES
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType)
    for field in info.fields:
        if _holds(field.type, inspect.StrType):
            for shape, unit in islice(turns, shapes):
                for kinds in _kinds(info, field.name):
                    text = unit * (room // len(unit))
                    yield (
                        f"{field.name}: {shape}",
                        command(base | kinds | {field.encode_name: text}, body),
                    )
        elif _holds(field.type, inspect.IntType):
            for number in NUMBERS:
                yield f"{field.name}={number}", command(base | {field.encode_name: number}, body)
    for label, large in _bodies(cls, known, budget):
        yield label, command(base, large)


def _kinds(info: inspect.StructType, name: str) -> list[dict[str, object]]:
    """Fields that decide how another one is read."""
    names = {field.name: field.encode_name for field in info.fields}
    if name == "subscription":
        return [{names["expression_type"]: kind} for kind in ("TAG", "SQL92")]
    if name == "exp":
        return [{names["exp_type"]: kind} for kind in ("TAG", "SQL92")]
    return [{}]


def _base(cls: type[Header], known: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType)
    for field in info.fields:
        if field.name in known:
            yield field.encode_name, known[field.name]
        elif field.required:
            yield field.encode_name, _least(field.type, known)


def _holds(kind: inspect.Type, wanted: type[inspect.Type]) -> bool:
    kinds = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    return any(isinstance(each, wanted) for each in kinds)


def _least(kind: inspect.Type, known: Mapping[str, object], nth: int = 0) -> Any:
    """A small value; the nth differs from others where it can."""
    match kind:
        case inspect.StrType():
            return f"n{nth}"
        case inspect.IntType():
            return nth % 2**31
        case inspect.BoolType():
            return bool(nth % 2)
        case inspect.FloatType():
            return float(nth)
        case inspect.UnionType(types=kinds):
            return _least(next(k for k in kinds if not isinstance(k, inspect.NoneType)), known, nth)
        case inspect.EnumType(cls=enum):
            return next(iter(enum))
        case inspect.LiteralType(values=words):
            return words[0]
        case inspect.StructType(cls=cls, fields=parts):
            return cls(
                **{
                    part.name: known.get(part.name, _least(part.type, known, nth))
                    if nth == 0
                    else _least(part.type, known, nth)
                    for part in parts
                    if part.required or _is_plain(part.type)
                }
            )
        case inspect.ListType() | inspect.SetType() | inspect.FrozenSetType():
            return []
        case inspect.DictType():
            return {}
    return None


def _is_plain(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.StrType | inspect.IntType)


def _body(cls: type[Header], budget: Budget) -> bytes | msgspec.Struct:
    if cls.BODY is None:
        return b""
    made: msgspec.Struct = _least(inspect.type_info(cls.BODY), {})
    return made


@cache
def _raw_bodies() -> dict[str, bytes]:
    """Of requests whose body is bytes."""
    most = 4 * 1024 * 1024
    empty, tagged = encode_batch([Message("t", b"")]), encode_batch([Message("t", b"", tags="a")])
    return {
        "a body": b"x" * most,
        "a body of lines": b"brokerPermission=6\n" * (most // 19),
        "a body of tiny messages": empty * (most // len(empty)),
        "a batch of tags": tagged * (most // len(tagged)),
    }


def _bodies(
    cls: type[Header], known: Mapping[str, object], budget: Budget
) -> Iterator[tuple[str, bytes | msgspec.Struct]]:
    if cls.BODY is None:
        yield from _raw_bodies().items()
        return
    is_registration = cls.CODE == RequestCode.REGISTER_BROKER
    most = budget.registration_bytes if is_registration else budget.body_bytes
    info = inspect.type_info(cls.BODY)
    assert isinstance(info, inspect.StructType)
    for path in _collections(info):
        small, large = (len(encode_body(_grown(info, path, n), Encoding.JSON)) for n in (10, 110))
        most_items = max(1, (most - small) * 100 // max(1, large - small))
        yield f"{'.'.join(path)} of {most_items}", _grown(info, path, most_items)
    for shape in ("[", '{"a":', "[[],", '{"a":1},'):
        yield f"a body of {shape}", (shape * (most // len(shape))).encode()
    yield "a body of keys", ("{" + ",".join(f"{n}:1" for n in range(most // 9)) + "}").encode()


def _collections(info: inspect.StructType, deep: int = 0) -> Iterator[tuple[str, ...]]:
    for field in info.fields:
        kind = field.type
        kinds = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
        for each in kinds:
            if isinstance(
                each, inspect.ListType | inspect.SetType | inspect.FrozenSetType | inspect.DictType
            ):
                yield (field.name,)
                item = each.value_type if isinstance(each, inspect.DictType) else each.item_type
                if isinstance(item, inspect.StructType) and deep < 2:
                    yield from ((field.name, *rest) for rest in _collections(item, deep + 1))
            elif isinstance(each, inspect.StructType) and deep < 2:
                yield from ((field.name, *rest) for rest in _collections(each, deep + 1))


def _grown(info: inspect.StructType, path: tuple[str, ...], size: int) -> msgspec.Struct:
    """An instance whose collection at `path` has `size` entries."""
    made: msgspec.Struct = _struct_with(info, path, size)
    return made


def _struct_with(info: inspect.StructType, path: tuple[str, ...], size: int) -> Any:
    made = _least(info, {})
    [field] = [each for each in info.fields if each.name == path[0]]
    kinds = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
    kind = next(each for each in kinds if not isinstance(each, inspect.NoneType))
    return msgspec.structs.replace(made, **{field.name: _grown_value(kind, path[1:], size)})


def _grown_value(kind: inspect.Type, rest: tuple[str, ...], size: int) -> Any:
    if isinstance(kind, inspect.StructType):
        return _struct_with(kind, rest, size)
    assert isinstance(
        kind, inspect.ListType | inspect.SetType | inspect.FrozenSetType | inspect.DictType
    )
    item = kind.value_type if isinstance(kind, inspect.DictType) else kind.item_type
    if rest:
        values = [_struct_with(item, rest, size)] if isinstance(item, inspect.StructType) else []
    else:
        values = [_least(item, {}, n + 1) for n in range(size)]
    if isinstance(kind, inspect.DictType):
        keys = [_least(kind.key_type, {}, n) for n in range(len(values))]
        return dict(zip(keys, values, strict=True))
    if isinstance(kind, inspect.ListType):
        return values
    return frozenset(values) if isinstance(kind, inspect.FrozenSetType) else set(values)
