"""Two answers, or two states, as trees; and where they differ."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from parity.rules import Pair, normalised
from parity.steps import Step
from parity.wire import Answer, NotJsonError, Record, parse_json, records_in

ABSENT = "<absent>"
UNSET_REMARK = "not set any response code"


@dataclass(frozen=True, slots=True)
class Difference:
    """One place at which the two do not agree.

    Attributes:
        code: name of the request whose answers differ, or `LOG`.
        field: path in the answer: `code`, `remark`, `ext.queueId`, `body.table.offset`.
        ours, theirs: PocketMQ's value and RocketMQ's, as text.
        step: number of the step in its sequence.
        note: both remarks, for whoever reads it.
    """

    code: str
    field: str
    ours: str
    theirs: str
    step: int
    note: str = dataclasses.field(default="", compare=False)

    @property
    def kind(self) -> tuple[str, str]:
        """Differences of one kind are shrunk once."""
        return self.code, self.field

    def __str__(self) -> str:
        where = f"step {self.step}, {self.code}, {self.field}"
        return f"{where}: PocketMQ {self.ours}, RocketMQ {self.theirs}"


_ELSEWHERE = ("TRAN_MSG\x01true", "DELAY\x01", "TIMER_D")


def tree_of(answer: Answer, step: Step) -> dict[str, Any]:
    """What of an answer to a step is compared."""
    if answer.end != "answered":
        return {"end": answer.end}
    ext = dict(answer.ext)
    sent = step.fields.get("properties", step.fields.get("i", ""))
    shared = step.code.startswith("SEND_REPLY") or any(each in sent for each in _ELSEWHERE)
    if "queueOffset" in ext and shared:
        ext["sharedQueueOffset"] = ext.pop("queueOffset")
    if handle := ext.get("recallHandle"):
        with suppress(ValueError):
            ext["recallHandle"] = base64.urlsafe_b64decode(handle).decode()
    body = body_tree(answer.body)
    if step.code.startswith("GET_") and step.code.endswith("_CONFIG") and "text" in body:
        lines = (line.partition("=") for line in body["text"].splitlines())
        body = {"options": {key: value for key, _, value in lines}}
    queue = step.fields.get("queueId", "")
    if step.code in ("POP_MESSAGE", "PEEK_MESSAGE") and queue.startswith("-"):
        # Of all queues: the one that a broker begins with is left to chance.
        if isinstance(body, dict) and "messages" in body:
            body["messages"].sort(key=lambda each: json.dumps(_place(each)))
        ext |= {
            name: ";".join(sorted(ext[name].split(";")))
            for name in ("startOffsetInfo", "msgOffsetInfo", "orderCountInfo")
            if name in ext
        }
    return {
        "end": answer.end,
        "code": answer.code,
        "flag": answer.flag,
        "version": answer.version,
        "language": answer.language,
        "encoding": answer.encoding,
        "undeclared": list(answer.extra),
        # PocketMQ answers a binary request in binary (E-10), where an empty remark is none.
        "remark": _kind_of(answer.remark or None if step.encoding == "rocketmq" else answer.remark),
        "ext": ext,
        "body": body,
    }


def _place(message: dict[str, Any]) -> tuple[str, int, int]:
    return message["topic"], message["queue_id"], message["queue_offset"]


def _kind_of(remark: str | None) -> str:
    if remark is None:
        return "none"
    return "unset" if remark == UNSET_REMARK else "text" if remark else "empty"


def body_tree(body: bytes) -> Any:
    """Records, JSON, or the bytes in hex."""
    if not body:
        return ABSENT
    if records := records_in(body):
        return {"messages": [record_tree(each) for each in records]}
    try:
        return {"json": parse_json(body)}
    except NotJsonError:
        pass
    try:
        return {"text": body.decode()}
    except UnicodeDecodeError:
        return {"hex": body.hex()}


def record_tree(record: Record) -> dict[str, Any]:
    """A record's fields; its size and places are left to the rules."""
    told = asdict(record)
    told["body"] = record.body.decode("latin-1")
    told["magic"] = hex(record.magic)
    told["preparedOffset"] = {"physicalOffset": told.pop("prepared_offset")}
    told["physicalOffset"] = told.pop("physical_offset")
    del told["size"]  # follows from the rest
    return told


def differences(code: str, step: int, ours: Any, theirs: Any, pair: Pair) -> list[Difference]:
    """All places at which two trees differ; after a different code or end only that."""
    left, right = normalised(ours, pair), normalised(theirs, pair)
    if isinstance(left, dict) and isinstance(right, dict):
        for first in ("end", "code"):
            if left.get(first) != right.get(first):
                return [Difference(code, first, str(left.get(first)), str(right.get(first)), step)]
    found = (Difference(code, path, a, b, step) for path, a, b in walk("", left, right))
    return list(dict.fromkeys(found))


def walk(path: str, left: Any, right: Any) -> Iterator[tuple[str, str, str]]:
    """Each place at which two trees differ: its path, and both values as text."""
    if path == "body.options" and isinstance(left, dict) and isinstance(right, dict):
        # PocketMQ has options of its own; what it has not of RocketMQ's is one difference.
        if lacking := sorted(set(right) - set(left)):
            yield f"{path}[]", ABSENT, _short(lacking)
        left = {key: left[key] for key in right if key in left}
        right = {key: right[key] for key in left}
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(set(left) | set(right)):
            name = f"{path}.{_general(key)}" if path else _general(key)
            yield from walk(name, left.get(key, ABSENT), right.get(key, ABSENT))
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for a, b in zip(left, right, strict=True):
            yield from walk(f"{path}[]", a, b)
    elif isinstance(left, list) and isinstance(right, list):
        yield f"{path}[]", _short(left), _short(right)
    elif left != right or type(left) is not type(right):
        yield path, _short(left), _short(right)


def _general(key: str) -> str:
    """A key without this pair's numbers: queue ids, JSON keys and names become one."""
    if key.startswith("{"):
        return "{}"
    return re.sub(r"\d+", "N", key) if re.search(r"[@\s]|^\d+$|<", key) else key


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return repr(text) if isinstance(value, str) and value != ABSENT else text
