"""Protobuf bodies by the text of a `.proto` file, compiled by `protoc` (package `grpcio-tools`).

Read is what registries hold: one file whose imports, if any, are Google's own types.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from pocketmq.pipeline.jobs.schemas.decoders import BadBodyError, Decoder
from pocketmq.runtime.errors import CallerError, MissingToolError

_COMPILE_LIMIT_S: Final = 60.0
_NAME: Final = "schema.proto"


@lru_cache(maxsize=64)
def _compiled(text: str) -> bytes:
    """A `FileDescriptorSet` of a `.proto` file and what it imports, the file itself last."""
    if importlib.util.find_spec("grpc_tools") is None:
        raise MissingToolError("grpcio-tools", "Protobuf bodies", "pip install 'pocketmq[schema]'")
    with TemporaryDirectory() as folder:
        Path(folder, _NAME).write_text(text, encoding="utf-8")
        ran = subprocess.run(  # noqa: S603 - our own interpreter, fixed words
            [
                *(sys.executable, "-m", "grpc_tools.protoc", "--proto_path=."),
                *("--include_imports", "--descriptor_set_out=set", _NAME),
            ],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_COMPILE_LIMIT_S,
            check=False,
        )
        if ran.returncode != 0:
            said = "; ".join(ran.stderr.split("\n")[:3]).strip("; ")
            raise CallerError(f"the .proto file cannot be read: {said}")
        return Path(folder, "set").read_bytes()


def file_descriptor(text: str) -> Any:
    """The descriptor of a `.proto` file.

    Raises:
        CallerError: It is none, or imports what is not Google's; names the line.
        MissingToolError: `grpcio-tools` is not installed.
    """
    return _files(text)[-1]


def _files(text: str) -> list[Any]:
    compiled = _compiled(text)
    from google.protobuf import descriptor_pb2

    return list(descriptor_pb2.FileDescriptorSet.FromString(compiled).file)


def protobuf_decoder(text: str, message: str = "") -> Decoder:
    """Decodes the bodies of a message of a `.proto` file; its first one without a name.

    Raises:
        CallerError: The file has no such message, or cannot be read.
        MissingToolError: `grpcio-tools` is not installed.
    """
    files = _files(text)
    file = files[-1]
    from google.protobuf import (
        descriptor_pool,
        json_format,
        message_factory,
    )
    from google.protobuf.message import DecodeError

    if not file.message_type:
        raise CallerError("the .proto file has no message")
    pool = descriptor_pool.DescriptorPool()
    try:
        for each in files:
            pool.AddSerializedFile(each.SerializeToString())
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
