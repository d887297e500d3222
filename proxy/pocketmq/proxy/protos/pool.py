"""Descriptors and classes of the tables, in a `DescriptorPool` of our own.

protobuf's default pool has one file for each name in it. A second file of the package
`apache.rocketmq.v2` in there ends `import rocketmq`, RocketMQ's own Python SDK, with "duplicate
symbol", and tests run it in one process with a cluster. So nothing of ours is entered there.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.duration_pb2 import DESCRIPTOR as DURATION
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP

from pocketmq.proxy.protos.enums import PACKAGE_ENUMS, Policy, ServingStatus
from pocketmq.proxy.protos.shapes import (
    ANSWERED_BY_STREAM,
    MESSAGES,
    PACKAGE,
    SERVICE,
    STREAM,
    TOOL_PACKAGES,
    UNARY,
)

FILE: Final = "pocketmq/rocketmq_v2.proto"

_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "float": _FIELD.TYPE_FLOAT,
    "int32": _FIELD.TYPE_INT32,
    "int64": _FIELD.TYPE_INT64,
    "bool": _FIELD.TYPE_BOOL,
    "string": _FIELD.TYPE_STRING,
    "bytes": _FIELD.TYPE_BYTES,
}
_ENUMS: Final = {each.__name__ for each in PACKAGE_ENUMS} | {
    "OffsetOption.Policy",
    "HealthCheckResponse.ServingStatus",
}
_WELL_KNOWN: Final = {"Duration", "Timestamp"}
_WORD: Final = re.compile(
    r"(?P<oneof>\w+)\(|(?P<name>\w+) (?P<number>\d+):(?P<type>[\w.]+(?:<[\w,]+>)?)"
    r"(?P<how>\[\]|\?)?(?P<end>\))?"
)


def file_descriptor() -> Any:
    """The tables as protobuf has them: a `FileDescriptorProto`."""
    file = descriptor_pb2.FileDescriptorProto(name=FILE, package=PACKAGE, syntax="proto3")
    file.dependency.extend([DURATION.name, TIMESTAMP.name])
    for each in PACKAGE_ENUMS:
        _add_enum(file.enum_type, each)
    for name, fields in MESSAGES.items():
        _add_message(file.message_type, name, fields)
    service = file.service.add(name=SERVICE)
    for rpc in (*UNARY, *ANSWERED_BY_STREAM):
        service.method.add(
            name=rpc,
            input_type=f".{PACKAGE}.{rpc}Request",
            output_type=f".{PACKAGE}.{rpc}Response",
            server_streaming=rpc in ANSWERED_BY_STREAM,
        )
    command = f".{PACKAGE}.TelemetryCommand"
    service.method.add(
        name=STREAM,
        input_type=command,
        output_type=command,
        client_streaming=True,
        server_streaming=True,
    )
    return file


def _tool_file(package: str) -> Any:
    """A package of gRPC's own, for tools."""
    messages, service, rpcs = TOOL_PACKAGES[package]
    file = descriptor_pb2.FileDescriptorProto(
        name=f"pocketmq/{package.replace('.', '_')}.proto", package=package, syntax="proto3"
    )
    for name, fields in messages.items():
        _add_message(file.message_type, name, fields, package)
    made = file.service.add(name=service)
    for rpc in rpcs:
        made.method.add(
            name=rpc.name,
            input_type=f".{package}.{rpc.request}",
            output_type=f".{package}.{rpc.answer}",
            client_streaming=rpc.streams_in,
            server_streaming=rpc.streams_out,
        )
    return file


def _add_enum(enums: Any, enum: type[IntEnum]) -> None:
    added = enums.add(name=enum.__name__)
    for member in enum:
        added.value.add(name=member.name, number=member.value)


def _add_message(messages: Any, name: str, fields: str, package: str = PACKAGE) -> None:
    message = messages.add(name=name)
    if name == "OffsetOption":
        _add_enum(message.enum_type, Policy)
    elif name == "HealthCheckResponse":
        _add_enum(message.enum_type, ServingStatus)
    oneof: int | None = None
    optional = []
    for word in _WORD.finditer(fields):
        if word["oneof"]:
            oneof = len(message.oneof_decl)
            message.oneof_decl.add(name=word["oneof"])
            continue
        field = message.field.add(
            name=word["name"], number=int(word["number"]), label=_FIELD.LABEL_OPTIONAL
        )
        _set_type(message, field, word["type"], package)
        if word["how"] == "[]":
            field.label = _FIELD.LABEL_REPEATED
        elif word["how"] == "?":
            optional.append(field)
        if oneof is not None:
            field.oneof_index = oneof
        if word["end"]:
            oneof = None
    for field in optional:  # each is alone in a oneof behind the real ones: so protoc writes `?`
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{field.name}")


def _set_type(message: Any, field: Any, type_name: str, own: str) -> None:
    if type_name in _SCALARS:
        field.type = _SCALARS[type_name]
    elif type_name in _ENUMS:
        field.type, field.type_name = _FIELD.TYPE_ENUM, f".{own}.{type_name}"
    elif type_name.startswith("map<"):
        # On the wire, a map is a repeated entry message, to which protoc gives this name.
        entry = message.nested_type.add(name=field.name.title().replace("_", "") + "Entry")
        entry.options.map_entry = True
        for number, part in enumerate(("key", "value"), 1):
            entry.field.add(
                name=part, number=number, type=_FIELD.TYPE_STRING, label=_FIELD.LABEL_OPTIONAL
            )
        field.label = _FIELD.LABEL_REPEATED
        field.type = _FIELD.TYPE_MESSAGE
        field.type_name = f".{own}.{message.name}.{entry.name}"
    else:
        package = "google.protobuf" if type_name in _WELL_KNOWN else own
        field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".{package}.{type_name}"


def _filled_pool() -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in (DURATION, TIMESTAMP):
        pool.AddSerializedFile(file.serialized_pb)
    pool.AddSerializedFile(file_descriptor().SerializeToString())
    for package in TOOL_PACKAGES:
        pool.AddSerializedFile(_tool_file(package).SerializeToString())
    return pool


POOL: Final[Any] = _filled_pool()
"""What server reflection answers from too."""


def message_class(name: str, package: str = PACKAGE) -> Any:
    """The class of a message: `message_class("Resource")`, or one of google.protobuf's two."""
    package = "google.protobuf" if name in _WELL_KNOWN else package
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName(f"{package}.{name}"))
