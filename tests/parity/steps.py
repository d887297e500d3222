"""A sequence of requests as plain values, with names and earlier answers left open.

Text in fields and bodies holds placeholders, filled for each broker alone:

    {t0} {g1} {c0}     a topic, group or client of this pair: fresh names in every pair
    {now} {now+1000}   when the pair began: milliseconds since 1970, the same for both brokers
    {clock+5000}       the same of when the step is asked; a broker refuses a pop that is older than
                       500 ms, and on a loaded machine a sequence takes longer
    {crc}              in a field: the checksum of the step's body
    {s3.ext.msgId}     a field of the answer to the step labelled `s3`
    {s3.physical}      the place in the log that its `msgId` names
    {s3.msg0.KEYS}     a property of the first message in its body, or `queueOffset`, `physical`
    {s3.ck0}           the handle that a client makes of the first message it popped

What was not answered is the empty text, so that a sequence can be cut anywhere.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from parity.wire import VERSION_5_3_3, Answer, Record, packed_registration, records_in

WAIT = "WAIT"
"""Not a request: real time passes, `ms` of it."""

CLOSE = "CLOSE"
"""Not a request: a connection is closed by the client."""

NO_REQUESTS = frozenset({WAIT, CLOSE})

_PLACE = re.compile(r"\{([a-zA-Z][\w.+-]*)\}")
_NAME = re.compile(r"[bgckptx]\d")


@dataclass(frozen=True, slots=True)
class Step:
    """One request.

    Attributes:
        code: name in RocketMQ's `RequestCode`, or `WAIT`.
        fields: header fields as they go over the wire.
        body: text with placeholders, or bytes as they are.
        encoding: of the header: `json` or `rocketmq`.
        label: what placeholders call its answer by.
        connection: 0 or 1: which of the pair's two clients sends it.
        oneway: nobody answers.
        version: of the client, as RocketMQ numbers them.
        packed: the body is a registration, sent as brokers compress it.
    """

    code: str
    fields: Mapping[str, str] = field(default_factory=dict)
    body: str | bytes = ""
    encoding: str = "json"
    label: str = ""
    connection: int = 0
    oneway: bool = False
    version: int = VERSION_5_3_3
    packed: bool = False

    def without(self, name: str) -> Step:
        """The step without a field."""
        return replace(self, fields={k: v for k, v in self.fields.items() if k != name})

    def with_field(self, name: str, value: str) -> Step:
        """The step with a field set."""
        return replace(self, fields={**self.fields, name: value})


def source(steps: list[Step]) -> str:
    """Python text of the steps, as an entry of `found.MENDED`."""
    lines = []
    for step in steps:
        parts = [repr(step.code)]
        if step.fields:
            parts.append(repr(dict(step.fields)))
        if step.body:
            parts.append(f"body={step.body!r}")
        if step.encoding != "json":
            parts.append(f"encoding={step.encoding!r}")
        if step.label and any(f"{{{step.label}." in _texts(each) for each in steps):
            parts.append(f"label={step.label!r}")
        if step.connection:
            parts.append(f"connection={step.connection}")
        if step.oneway:
            parts.append("oneway=True")
        if step.version != VERSION_5_3_3:
            parts.append(f"version={step.version}")
        if step.packed:
            parts.append("packed=True")
        lines.append(f"        Step({', '.join(parts)}),\n")
    return f'    "what it is": [\n{"".join(lines)}    ],\n'


class Filling:
    """Fills placeholders from the names of a pair and one broker's answers.

    Args:
        suffix: what makes this pair's names its own.
        now_ms: what `{now}` is.

    Attributes:
        clock_ms: what `{clock}` is; whoever asks moves it on.
    """

    def __init__(self, suffix: str, now_ms: int) -> None:
        self.suffix = suffix
        self.now_ms = self.clock_ms = now_ms
        self.answers: dict[str, Answer] = {}

    def text(self, text: str) -> str:
        """The text with every placeholder filled."""
        return _PLACE.sub(lambda found: self._value(found[1]), text)

    def lacks(self, step: Step) -> bool:
        """Whether the step names something that an earlier answer did not have."""
        texts = [*step.fields.values(), "" if isinstance(step.body, bytes) else step.body]
        places = {found[1] for text in texts for found in _PLACE.finditer(text)}
        return any(self._value(place) == "" for place in places - {"crc"})

    def fields(self, step: Step) -> dict[str, str]:
        """The step's fields, filled."""
        told = {name: self.text(value) for name, value in step.fields.items()}
        for name, value in step.fields.items():
            if value == "{crc}":
                told[name] = str(zlib.crc32(self.body(step)) & 0x7FFFFFFF)
        return told

    def body(self, step: Step) -> bytes:
        """The step's body, filled."""
        if isinstance(step.body, bytes):
            return step.body
        text = self.text(step.body)
        return packed_registration(text) if step.packed and text else text.encode()

    def _value(self, place: str) -> str:
        if _NAME.fullmatch(place):
            return f"{place}-{self.suffix}"
        if place.startswith("now"):
            return str(self.now_ms + int(place[3:] or 0))
        if place.startswith("clock"):
            return str(self.clock_ms + int(place[5:] or 0))
        label, _, path = place.partition(".")
        answer = self.answers.get(label)
        return "" if answer is None else _part(answer, path)


def _part(answer: Answer, path: str) -> str:
    head, _, rest = path.partition(".")
    if head == "ext":
        return answer.ext.get(rest, "")
    if head == "physical":
        found = answer.ext.get("msgId", "")
        return str(int(found[-16:], 16)) if re.fullmatch(r"[0-9A-F]{32,}", found) else ""
    records = sorted(records_in(answer.body), key=_place)
    number = int(re.sub(r"\D", "", head) or 0)
    if number >= len(records):
        return ""
    record = records[number]
    if head.startswith("ck"):
        return _handle(answer, record)
    if rest in ("queueOffset", "physical", "queueId"):
        return str({"queueOffset": record.queue_offset, "queueId": record.queue_id}.get(
            rest, record.physical_offset
        ))  # fmt: skip
    return record.properties.get(rest, "")


def _place(record: Record) -> tuple[str, int, int]:
    """Pops of all queues begin with any of them."""
    return record.topic, record.queue_id, record.queue_offset


def _handle(answer: Answer, record: Record) -> str:
    """As `MQClientAPIImpl.processPopResponse` makes it of header and message."""
    if handle := record.properties.get("POP_CK"):
        return handle
    flag = "1" if record.topic.startswith("%RETRY%") else "0"
    starts = {}
    for each in answer.ext.get("startOffsetInfo", "").split(";"):
        words = each.split(" ")
        if len(words) == 3:
            starts[words[0], words[1]] = words[2]
    start = starts.get((flag, str(record.queue_id)), str(record.queue_offset))
    words = [
        start, answer.ext.get("popTime", ""), answer.ext.get("invisibleTime", ""),
        answer.ext.get("reviveQid", ""), flag, "broker-a", str(record.queue_id),
        str(record.queue_offset),
    ]  # fmt: skip
    return " ".join(words)


def _texts(step: Step) -> str:
    body = step.body if isinstance(step.body, str) else ""
    return "\n".join([*step.fields.values(), body])
