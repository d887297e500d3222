"""What RocketMQ's own jar declares: request codes, header classes and their fields.

`catalogue.json` is what `DumpCatalogue.java` printed of 5.3.3 by reflection:

    python tests/parity/catalogue.py

Nothing here comes from our own declarations, whose mistakes it would repeat.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("catalogue.json")

V1_OF_V2 = {
    "a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums",
    "e": "queueId", "f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties",
    "j": "reconsumeTimes", "k": "unitMode", "l": "maxReconsumeTimes", "m": "batch", "n": "bname",
}  # fmt: skip
"""`SendMessageRequestHeaderV2.createSendMessageRequestHeaderV1`, which has no annotations."""

_UNANNOTATED = {
    "LITE_PULL_MESSAGE": "PullMessageRequestHeader",
    "SEND_BATCH_MESSAGE": "SendMessageRequestHeaderV2",
    "SEND_REPLY_MESSAGE": "SendMessageRequestHeader",
    "SEND_REPLY_MESSAGE_V2": "SendMessageRequestHeaderV2",
    "GET_BROKER_HA_STATUS": None,
}
"""Codes that share another code's header class, by their processors."""


@dataclass(frozen=True, slots=True)
class FieldOf:
    """A declared header field.

    Attributes:
        kind: `string`, `int`, `long`, `boolean` or `enum`.
        needed: whether RocketMQ's decoder demands it (`@CFNotNull`).
    """

    name: str
    kind: str
    needed: bool


class Catalogue:
    """Codes by name, and the fields of each code's header."""

    def __init__(self, dumped: dict[str, Any]) -> None:
        self.codes: dict[str, int] = dumped["codes"]
        self.names = {number: name for name, number in self.codes.items()}
        self._fields: dict[str, tuple[FieldOf, ...]] = {}
        by_class: dict[str, tuple[FieldOf, ...]] = {}
        for java, told in dumped["headers"].items():
            fields = tuple(_field(name, text) for name, text in told["fields"].items())
            by_class[java.rpartition(".")[2]] = fields
            if "code" in told:
                self._fields[self.names[told["code"]]] = fields
        for name, java_class in _UNANNOTATED.items():
            if java_class is not None:
                self._fields[name] = by_class[java_class]

    def fields(self, code: str) -> tuple[FieldOf, ...]:
        """Declared fields of a code's request; empty where it has no header."""
        return self._fields.get(code, ())


def _field(name: str, text: str) -> FieldOf:
    java, _, needed = text.partition(" ")
    simple = java.rpartition(".")[2].lower()
    kind = {"integer": "int", "string": "string", "int": "int", "long": "long"}.get(simple)
    return FieldOf(name, kind or ("boolean" if simple == "boolean" else "enum"), bool(needed))


@cache
def catalogue() -> Catalogue:
    """The kept one of 5.3.3."""
    return Catalogue(json.loads(FILE.read_text()))


def dump() -> str:
    """Ask RocketMQ's classes anew; needs Java."""
    from support.java import run_java

    return run_java("DumpCatalogue").stdout


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    FILE.write_text(dump())
