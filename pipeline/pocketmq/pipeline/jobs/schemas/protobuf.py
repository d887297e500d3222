"""Protobuf bodies by the text of a `.proto` file: read here, since `protoc` is no Python package.

Read is what registries hold: one file of syntax proto3 (or proto2 without groups and extensions)
whose imports, if any, are Google's own types.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from typing import Any, Final

from pocketmq.pipeline.jobs.schemas.decoders import BadBodyError, Decoder
from pocketmq.runtime.errors import CallerError, MissingToolError

SCALARS: Final = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7,
    "bool": 8, "string": 9, "bytes": 12, "uint32": 13, "sfixed32": 15, "sfixed64": 16,
    "sint32": 17, "sint64": 18,
}  # fmt: skip
"""Name -> number of the type in a descriptor."""

_MESSAGE, _ENUM = 11, 14
_OPTIONAL, _REQUIRED, _REPEATED = 1, 2, 3
_TOKEN: Final = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|(?P<token>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[\w.]+|[-+]?[\w.]+|.)""",
    re.DOTALL,
)


class _Words:
    """The tokens of a file, one after the other."""

    def __init__(self, text: str) -> None:
        found = (match.group("token") for match in _TOKEN.finditer(text))
        self._words = [word for word in found if word]
        self._at = 0

    def peek(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def take(self, wanted: str = "") -> str:
        word = self.peek()
        if not word or (wanted and word != wanted):
            raise CallerError(
                f"no .proto file: {word or 'its end'!r} where {wanted or 'more'} is due"
            )
        self._at += 1
        return word

    def skip_statement(self) -> None:
        """To behind the next `;`, or behind a block."""
        depth = 0
        while True:
            word = self.take()
            depth += (word == "{") - (word == "}")
            if depth == 0 and word in (";", "}"):
                return

    def skip_options(self) -> None:
        """A list in brackets, if there is one."""
        if self.peek() == "[":
            while self.take() != "]":
                pass


def file_descriptor(text: str) -> Any:
    """The descriptor of a `.proto` file.

    Raises:
        CallerError: It is none, or uses what is not read.
        MissingToolError: `protobuf` is not installed.
    """
    if importlib.util.find_spec("google.protobuf") is None:
        raise MissingToolError("protobuf", "Protobuf bodies", "pip install 'pocketmq[schema]'")
    from google.protobuf import descriptor_pb2

    words = _Words(text)
    file = descriptor_pb2.FileDescriptorProto(name="schema.proto", syntax="proto2")
    while words.peek():
        word = words.take()
        if word == "syntax":
            words.take("=")
            file.syntax = words.take()[1:-1]
            words.take(";")
        elif word == "package":
            file.package = words.take()
            words.take(";")
        elif word == "import":
            name = words.take()
            name = words.take() if name in ("public", "weak") else name
            if not name[1:].startswith("google/protobuf/"):
                raise CallerError(f"the .proto file imports {name}; only Google's types are read")
            file.dependency.append(name[1:-1])
            words.take(";")
        elif word == "message":
            _message(words, file.message_type.add(), file.syntax)
        elif word == "enum":
            _enum(words, file.enum_type.add())
        elif word in ("option", "service", "extend"):
            words.skip_statement()
        elif word != ";":
            raise CallerError(f"no .proto file: {word!r} at the top")
    if file.syntax == "proto2":
        file.ClearField("syntax")
    _resolve(file)
    return file


def _message(words: _Words, message: Any, syntax: str) -> None:
    message.name = words.take()
    words.take("{")
    while (word := words.take()) != "}":
        if word == "message":
            _message(words, message.nested_type.add(), syntax)
        elif word == "enum":
            _enum(words, message.enum_type.add())
        elif word == "oneof":
            message.oneof_decl.add(name=words.take())
            words.take("{")
            while (kind := words.take()) != "}":
                if kind == "option":
                    words.skip_statement()
                elif kind != ";":
                    _field(words, message, kind, _OPTIONAL).oneof_index = (
                        len(message.oneof_decl) - 1
                    )
        elif word in ("option", "reserved", "extensions", "extend", "group"):
            words.skip_statement()
        elif word == "map":
            _map(words, message)
        elif word in ("repeated", "required", "optional"):
            label = {"repeated": _REPEATED, "required": _REQUIRED, "optional": _OPTIONAL}[word]
            _field(words, message, words.take(), label)
        elif word != ";":
            _field(words, message, word, _OPTIONAL)


def _field(words: _Words, message: Any, kind: str, label: int) -> Any:
    field = message.field.add(name=words.take(), label=label)
    words.take("=")
    field.number = int(words.take(), 0)
    words.skip_options()
    words.take(";")
    _set_type(field, kind)
    return field


def _set_type(field: Any, kind: str) -> None:
    if kind in SCALARS:
        field.type = SCALARS[kind]
    else:
        field.type_name = kind  # a message or an enum: `_resolve` finds out


def _map(words: _Words, message: Any) -> None:
    words.take("<")
    key = words.take()
    words.take(",")
    value = words.take()
    words.take(">")
    field = _field(words, message, "int32", _REPEATED)
    name = "".join(part.capitalize() for part in field.name.split("_")) + "Entry"
    entry = message.nested_type.add(name=name)
    entry.options.map_entry = True
    _set_type(entry.field.add(name="key", number=1, label=_OPTIONAL), key)
    _set_type(entry.field.add(name="value", number=2, label=_OPTIONAL), value)
    field.ClearField("type")
    field.type_name = name


def _enum(words: _Words, enum: Any) -> None:
    enum.name = words.take()
    words.take("{")
    while (word := words.take()) != "}":
        if word in ("option", "reserved"):
            words.skip_statement()
        elif word != ";":
            words.take("=")
            enum.value.add(name=word, number=int(words.take(), 0))
            words.skip_options()
            words.take(";")


def _resolve(file: Any) -> None:
    """Give fields of messages and enums their type and whole name, from the inside out."""
    root = f".{file.package}" if file.package else ""
    kinds: dict[str, int] = {}

    def name_all(scope: str, holder: Any, nested: str) -> None:
        for enum in holder.enum_type:
            kinds[f"{scope}.{enum.name}"] = _ENUM
        for message in getattr(holder, nested):
            kinds[f"{scope}.{message.name}"] = _MESSAGE
            name_all(f"{scope}.{message.name}", message, "nested_type")

    def visit(scope: str, message: Any) -> None:
        for field in message.field:
            if not field.type_name:
                continue
            wanted = field.type_name
            for place in _scopes(scope):
                if f"{place}.{wanted.lstrip('.')}" in kinds:
                    field.type_name = f"{place}.{wanted.lstrip('.')}"
                    field.type = kinds[field.type_name]
                    break
            else:
                if not wanted.lstrip(".").startswith("google.protobuf."):
                    raise CallerError(f"the .proto file has no type {wanted!r} for {field.name}")
                field.type_name, field.type = "." + wanted.lstrip("."), _MESSAGE
        for inner in message.nested_type:
            visit(f"{scope}.{inner.name}", inner)

    name_all(root, file, "message_type")
    for message in file.message_type:
        visit(f"{root}.{message.name}", message)


def _scopes(scope: str) -> Iterator[str]:
    while scope:
        yield scope
        scope = scope.rpartition(".")[0]
    yield ""


def protobuf_decoder(text: str, message: str = "") -> Decoder:
    """Decodes the bodies of a message of a `.proto` file; its first one without a name.

    Raises:
        CallerError: The file has no such message, or cannot be read.
        MissingToolError: `protobuf` is not installed.
    """
    file = file_descriptor(text)
    from google.protobuf import (
        descriptor_pool,
        json_format,
        message_factory,
    )
    from google.protobuf.message import DecodeError

    if not file.message_type:
        raise CallerError("the .proto file has no message")
    pool = descriptor_pool.DescriptorPool()
    for name in file.dependency:
        module = importlib.import_module(name.replace("/", ".").removesuffix(".proto") + "_pb2")
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    try:
        pool.AddSerializedFile(file.SerializeToString())
        whole = message or file.message_type[0].name
        if file.package and not whole.startswith(f"{file.package}."):
            whole = f"{file.package}.{whole}"
        made = message_factory.GetMessageClass(pool.FindMessageTypeByName(whole))
    except (KeyError, TypeError) as exc:
        raise CallerError(f"the .proto file cannot be used: {exc}") from exc

    def decode(body: bytes) -> dict[str, Any]:
        found = made()
        try:
            found.ParseFromString(body)
        except DecodeError as exc:
            raise BadBodyError(f"no {whole}: {exc}") from exc
        fields: dict[str, Any] = json_format.MessageToDict(
            found, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
        return fields

    return decode
