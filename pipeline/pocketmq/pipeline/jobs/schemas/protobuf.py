"""Protobuf bodies by the text of a `.proto` file, compiled by `protoc` (package `grpcio-tools`).

Read is what registries hold: a file whose imports are Google's own types, or the schemas that it
refers to.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, Final

from pocketmq.pipeline.installed import check_installed
from pocketmq.pipeline.jobs.schemas.bodies import BadBodyError, Decoder
from pocketmq.pipeline.jobs.schemas.registry import Schema
from pocketmq.runtime.errors import CallerError

_COMPILE_LIMIT_S: Final = 60.0
_NAME: Final = "schema.proto"


@lru_cache(maxsize=64)
def _compiled(text: str, imports: tuple[tuple[str, str], ...]) -> bytes:
    """A `FileDescriptorSet` of a `.proto` file and what it imports, the file itself last."""
    check_installed("Protobuf bodies", "schema", "grpc_tools")
    main = _NAME
    # An imported file may have the same name as this one.
    while any(name == main for name, _ in imports):
        main = f"main-{main}"
    with TemporaryDirectory() as folder:
        for name, imported in imports:
            _write(Path(folder), name, imported)
        _write(Path(folder), main, text)
        try:
            # In a process of its own, so that a timeout can stop what a hostile file makes it do.
            ran = subprocess.run(  # noqa: S603 - our own interpreter, fixed words
                [
                    # `-P`, as otherwise Python would run from this folder what a registry has
                    # called `grpc_tools/__init__.py`.
                    *(sys.executable, "-P", "-m", "grpc_tools.protoc", "--proto_path=."),
                    *("--include_imports", "--descriptor_set_out=.set", main),
                ],
                cwd=folder,
                env=os.environ | {"PYTHONPATH": _python_path()},
                capture_output=True,
                text=True,
                timeout=_COMPILE_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as exc:
            raise CallerError(
                f"the .proto file could not be compiled within {_COMPILE_LIMIT_S:g} s"
            ) from exc
        if ran.returncode != 0:
            said = "; ".join(ran.stderr.split("\n")[:3]).strip("; ")
            raise CallerError(f"the .proto file cannot be read: {said}")
        return Path(folder, ".set").read_bytes()


def _python_path() -> str:
    """Where this process imports from: an executor's PYTHONPATH is relative to another folder."""
    return os.pathsep.join(map(os.path.abspath, sys.path))


def _write(folder: Path, name: str, text: str) -> None:
    place = PurePosixPath(name)
    # The names come from a registry, and must not lead out of the folder.
    if place.is_absolute() or ".." in place.parts or place.name in ("", ".set"):
        raise CallerError(f"the .proto file imports {name!r}, which is not a valid file name")
    path = folder / place
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as exc:
        raise CallerError(
            f"the .proto file imports {name!r}, which cannot be written to a file: {exc}"
        ) from exc


def proto_file(schema: Schema) -> ProtoFile:
    """The compiled file of a schema.

    Raises:
        CallerError: It cannot be read, for instance as it imports what it does not refer to; names
            the line.
        MissingToolError: `grpcio-tools` is not installed.
    """
    return _proto_file(schema.text, tuple(schema.needed().items()))


@lru_cache(maxsize=64)
def _proto_file(text: str, imports: tuple[tuple[str, str], ...]) -> ProtoFile:
    compiled = _compiled(text, imports)
    from google.protobuf import descriptor_pb2

    files = list(descriptor_pb2.FileDescriptorSet.FromString(compiled).file)
    return ProtoFile(files, {name for name, _ in imports})


class ProtoFile:
    """A `.proto` file, its messages and how their bodies are decoded.

    Args:
        files: Descriptors of what it imports, and at the end its own.
        referred: Names of the files among them that its schema refers to.

    Raises:
        CallerError: It has no message, or the files do not fit each other.
    """

    def __init__(self, files: Sequence[Any], referred: set[str]) -> None:
        from google.protobuf import descriptor_pool

        *_, self.file = files
        if not self.file.message_type:
            raise CallerError("the .proto file has no message")
        self._pool = descriptor_pool.DescriptorPool()
        try:
            # protoc lists imported files before those that import them, as the pool requires.
            for each in files:
                self._pool.AddSerializedFile(each.SerializeToString())
        except TypeError as exc:
            raise CallerError(f"the .proto file cannot be used: {exc}") from exc
        self._messages = dict(_all_messages(self.file.message_type, self.file.package))
        self.referred: dict[str, Any] = {
            name: message
            for each in files
            if each.name in referred
            for name, message in _all_messages(each.message_type, each.package)
        }
        """Descriptors of the messages in files that it refers to, by full name."""

    def full_name(self, message: str = "") -> str:
        """Of a message that is named with or without the package; of the first one without a name.

        Raises:
            CallerError: There is no such message.
        """
        if not message:
            return next(iter(self._messages))
        for name in (message, f"{self.file.package}.{message}"):
            if name in self._messages:
                return name
        raise CallerError(f"the .proto file cannot be used: it has no message {message!r}")

    def has(self, full_name: str) -> bool:
        """Whether it has a message."""
        return full_name in self._messages

    def descriptor(self, message: str = "") -> Any:
        """The descriptor of a message; see `full_name`."""
        return self._messages[self.full_name(message)]

    def name_at(self, indexes: Sequence[int]) -> str:
        """Full name of the message at a path: its place in the file, then within that message.

        Clients differ in whether they count the entries of map fields, which are messages as well;
        a path that leads to one message or another by that leads nowhere.

        Raises:
            BadBodyError: There is none at that path.
        """
        path = ".".join(map(str, indexes))
        name: str = self.file.package
        found, entries = self.file.message_type, 0
        for index in indexes:
            # Some clients count the entry types of maps in their indexes, some do not.
            declared = [each for each in found if not each.options.map_entry]
            places = [index - skipped for skipped in range(entries + 1)]
            meant = [declared[place] for place in places if 0 <= place < len(declared)]
            if not meant:
                raise BadBodyError(
                    f"the body names message {path}, which its .proto file does not have"
                )
            if len(meant) > 1:
                names = " or ".join(sorted(each.name for each in meant))
                problem = (
                    f"it is message {path} of its file: {names}, since clients count map fields"
                )
                raise BadBodyError(f"{problem} differently")
            (message,) = meant
            name = f"{name}.{message.name}" if name else message.name
            found = message.nested_type
            entries = sum(each.options.map_entry for each in found)
        return name

    def decoder(self, full_name: str) -> Decoder:
        """Decodes the bodies of a message."""
        from google.protobuf import json_format, message_factory
        from google.protobuf.message import DecodeError

        made = message_factory.GetMessageClass(self._pool.FindMessageTypeByName(full_name))

        def decode(body: bytes) -> dict[str, Any]:
            found = made()
            try:
                found.ParseFromString(body)
                fields: dict[str, Any] = json_format.MessageToDict(
                    found,
                    # Field names as in the file, and also fields that have their default value.
                    preserving_proto_field_name=True,
                    always_print_fields_with_no_presence=True,
                    descriptor_pool=self._pool,
                )
            except (DecodeError, json_format.Error, TypeError, ValueError) as exc:
                # the latter: a time in no calendar, an `Any` of a type that is not known
                raise BadBodyError(f"no {full_name}: {exc}") from exc
            return fields

        return decode


def _all_messages(listed: Sequence[Any], within: str) -> Iterator[tuple[str, Any]]:
    """All messages by full name, each before those within it; entries of map fields are none."""
    for each in listed:
        if not each.options.map_entry:
            name = f"{within}.{each.name}" if within else each.name
            yield name, each
            yield from _all_messages(each.nested_type, name)
