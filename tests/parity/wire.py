"""Frames, records and Fastjson's JSON, read and written here by hand.

No line is shared with `pocketmq.protocol`: a mistake there is not repeated here.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

VERSION_5_3_3 = 479
MAGIC_V1, MAGIC_V2 = 0xDAA320A7, 0xDAA320AB


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: a frame, or the way in which none did.

    Attributes:
        end: `answered`, `silent` (nothing came in time) or `closed` (the connection ended).
        extra: fields of the header that RocketMQ does not declare; always empty.
    """

    end: str
    code: int = 0
    opaque: int = 0
    flag: int = 0
    version: int = 0
    language: str = ""
    remark: str | None = None
    ext: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    encoding: str = ""
    extra: tuple[str, ...] = ()


_DECLARED = {
    "code", "language", "version", "opaque", "flag", "remark", "extFields",
    "serializeTypeCurrentRPC",
}  # fmt: skip


def encode(
    code: int,
    fields: Mapping[str, str],
    body: bytes,
    opaque: int,
    encoding: str,
    flag: int = 0,
    version: int = VERSION_5_3_3,
) -> bytes:
    """A whole frame (E-1 to E-4)."""
    if encoding == "json":
        told = {
            "code": code, "language": "JAVA", "version": version, "opaque": opaque,
            "flag": flag, "extFields": dict(fields), "serializeTypeCurrentRPC": "JSON",
        }  # fmt: skip
        header = json.dumps(told, ensure_ascii=False).encode()
        kind = 0
    else:
        pairs = b""
        for name, value in fields.items():
            key, text = name.encode(), value.encode()
            pairs += struct.pack(">h", len(key)) + key + struct.pack(">i", len(text)) + text
        short = (code + 0x8000) % 0x10000 - 0x8000  # as Java's cast
        header = struct.pack(">hbhiii", short, 0, version, opaque, flag, 0)
        header += struct.pack(">i", len(pairs)) + pairs
        kind = 1
    word = kind << 24 | len(header)
    return struct.pack(">iI", 4 + len(header) + len(body), word) + header + body


def frame_of(
    code: int,
    fields: Mapping[str, str],
    body: bytes,
    opaque: int,
    *,
    flag: int,
    remark: str | None = None,
) -> bytes:
    """A frame in JSON of a server: an answer (flag 1), or a oneway request (flag 2)."""
    told = {
        "code": code, "language": "JAVA", "version": VERSION_5_3_3, "opaque": opaque, "flag": flag,
        "extFields": dict(fields), "serializeTypeCurrentRPC": "JSON",
    }  # fmt: skip
    if remark is not None:
        told["remark"] = remark
    header = json.dumps(told).encode()
    return struct.pack(">iI", 4 + len(header) + len(body), len(header)) + header + body


def decode(frame: bytes) -> Answer:
    """A whole frame, length word included."""
    (word,) = struct.unpack_from(">I", frame, 4)
    end = 8 + (word & 0xFFFFFF)
    if word >> 24 == 0:
        told: dict[str, Any] = json.loads(frame[8:end])
        return Answer(
            "answered", told["code"], told["opaque"], told["flag"], told.get("version", 0),
            told.get("language", ""), told.get("remark"), told.get("extFields") or {},
            frame[end:], "json", tuple(sorted(set(told) - _DECLARED)),
        )  # fmt: skip
    code, language, version, opaque, flag, length = struct.unpack_from(">hbhiii", frame, 8)
    at = 8 + 17
    remark = frame[at : at + length].decode() if length else None
    at += length + 4
    ext = {}
    while at < end:
        (length,) = struct.unpack_from(">h", frame, at)
        key, at = frame[at + 2 : at + 2 + length], at + 2 + length
        (length,) = struct.unpack_from(">i", frame, at)
        ext[key.decode()], at = frame[at + 4 : at + 4 + length].decode(), at + 4 + length
    return Answer(
        "answered", code, opaque, flag, version, str(language), remark, ext, frame[end:], "rocketmq"
    )  # fmt: skip


def packed_registration(text: str) -> bytes:
    """A `RegisterBrokerBody` as `encode(true)` of it: lengths, JSON and lines, then deflated."""
    told: dict[str, Any] = json.loads(text)
    wrapper = told["topicConfigSerializeWrapper"]
    topics = [
        "{topicName} {readQueueNums} {writeQueueNums} {perm} {topicFilterType} ".format(**each)
        + json.dumps(each["attributes"], separators=(",", ":"))
        for each in wrapper["topicConfigTable"].values()
    ]
    data = _counted(json.dumps(wrapper["dataVersion"]).encode()) + struct.pack(">i", len(topics))
    data += b"".join(_counted(each.encode()) for each in topics)
    data += _counted(json.dumps(told.get("filterServerList")).encode())
    return zlib.compress(data + struct.pack(">i", 0), 9)  # no queues of static topics


def _counted(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


# -- records --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Record:
    """A message as the log holds it."""

    magic: int
    crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_ms: int
    born_host: str
    stored_ms: int
    store_host: str
    reconsume_times: int
    prepared_offset: int
    body: bytes
    topic: str
    properties: dict[str, str]
    size: int


class NotRecordsError(ValueError):
    """These bytes are not records."""


def record_at(data: bytes | memoryview, at: int) -> Record:
    """The record at a place.

    Raises:
        NotRecordsError: there is none, or not a whole one.
    """
    try:
        size, magic, crc, queue, flag, offset, place, sys_flag, born = struct.unpack_from(
            ">iIIiiqqiq", data, at
        )
        if magic not in (MAGIC_V1, MAGIC_V2) or at + size > len(data):
            raise NotRecordsError(f"no record at {at}")
        here = at + 48
        born_host, here = _host(data, here, 4 if not sys_flag & 0x10 else 16)
        (stored,) = struct.unpack_from(">q", data, here)
        store_host, here = _host(data, here + 8, 4 if not sys_flag & 0x20 else 16)
        times, prepared, length = struct.unpack_from(">iqi", data, here)
        here += 16
        body = bytes(data[here : here + length])
        here += length
        if magic == MAGIC_V1:
            (length,), here = struct.unpack_from(">B", data, here), here + 1
        else:
            (length,), here = struct.unpack_from(">h", data, here), here + 2
        topic = bytes(data[here : here + length]).decode(errors="replace")
        here += length
        (length,) = struct.unpack_from(">H", data, here)
        text = bytes(data[here + 2 : here + 2 + length]).decode(errors="replace")
    except (struct.error, IndexError) as exc:
        raise NotRecordsError(str(exc)) from None
    pairs = (each.partition("\x01") for each in text.split("\x02") if each)
    return Record(
        magic, crc, queue, flag, offset, place, sys_flag, born, born_host, stored, store_host,
        times, prepared, body, topic, {key: value for key, _, value in pairs}, size,
    )  # fmt: skip


def records_in(body: bytes) -> list[Record]:
    """All records of an answer's body; none if it holds something else."""
    found, at = [], 0
    try:
        while at < len(body):
            record = record_at(body, at)
            found.append(record)
            at += record.size
    except NotRecordsError:
        return []
    return found


def _host(data: bytes | memoryview, at: int, width: int) -> tuple[str, int]:
    ip = bytes(data[at : at + width])
    (port,) = struct.unpack_from(">i", data, at + width)
    text = ".".join(map(str, ip)) if width == 4 else ip.hex()
    return f"{text}:{port}", at + width + 4


# -- Fastjson -------------------------------------------------------------------------------------


class NotJsonError(ValueError):
    """This is not even Fastjson's JSON."""


def parse_json(data: bytes) -> Any:
    """JSON, and Fastjson's: keys may be numbers and objects; they become their canonical JSON.

    Raises:
        NotJsonError: it is something else.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as exc:
        raise NotJsonError(str(exc)) from None
    value, end = _value(text, _blank(text, 0))
    if _blank(text, end) != len(text):
        raise NotJsonError(f"more after {end}")
    return value


_DECODER = json.JSONDecoder()


def _value(text: str, at: int) -> tuple[Any, int]:
    if text[at : at + 1] == "{":
        return _object(text, at)
    if text[at : at + 1] == "[":
        return _list(text, at)
    try:
        return _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as exc:
        raise NotJsonError(str(exc)) from None


def _object(text: str, at: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    at = _blank(text, at + 1)
    while text[at : at + 1] != "}":
        key, at = _value(text, at)
        name = key if isinstance(key, str) else json.dumps(key, sort_keys=True)
        at = _expect(text, at, ":")
        found[name], at = _value(text, at)
        at = _blank(text, at)
        if text[at : at + 1] == ",":
            at = _blank(text, at + 1)
        elif text[at : at + 1] != "}":
            raise NotJsonError(f"no end of the object at {at}")
    return found, at + 1


def _list(text: str, at: int) -> tuple[list[Any], int]:
    found: list[Any] = []
    at = _blank(text, at + 1)
    while text[at : at + 1] != "]":
        value, at = _value(text, at)
        found.append(value)
        at = _blank(text, at)
        if text[at : at + 1] == ",":
            at = _blank(text, at + 1)
        elif text[at : at + 1] != "]":
            raise NotJsonError(f"no end of the list at {at}")
    return found, at + 1


def _expect(text: str, at: int, sign: str) -> int:
    at = _blank(text, at)
    if text[at : at + 1] != sign:
        raise NotJsonError(f"no {sign!r} at {at}")
    return _blank(text, at + 1)


def _blank(text: str, at: int) -> int:
    while text[at : at + 1] in (" ", "\n", "\t", "\r"):
        at += 1
    return at
