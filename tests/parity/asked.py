"""What two clients asked in one phase of a scenario, as trees; and where they differ. Pure.

Three questions are compared, per connection:

    asked      is each request asked by both, as often after as many refusals
    its parts  header fields and body of each, field by field
    order      in which order codes come for the first time, and those of each queue
"""

from __future__ import annotations

import json
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from parity.catalogue import V1_OF_V2, catalogue
from parity.compare import ABSENT, Difference, body_tree, walk

HELD = -1
"""In place of a response code: the peer has not answered, and will when there is something."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came, and what it was answered.

    Attributes:
        target: whom it was sent to: `nameserver`, or a broker's name.
        connection: the how-manieth connection to it that asked anything, from 1.
        answered: response code, `HELD`, or None for a oneway request.
    """

    code: int
    ext: dict[str, str]
    body: bytes
    flag: int
    version: int
    language: str
    target: str
    connection: int
    answered: int | None

    @property
    def name(self) -> str:
        """Of its code, as RocketMQ's jar has it."""
        name: str = catalogue().names.get(self.code, str(self.code))
        return name


@dataclass(frozen=True, slots=True)
class Rule:
    """A kind of value that must differ.

    Attributes:
        apply: path and value to the value that is compared.
    """

    name: str
    reason: str
    apply: Callable[[tuple[str, ...], Any], Any]


MOST = 8
"""More rules than this fail the tests."""

_ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
_UNIQ_KEY = re.compile(r"(?<![0-9A-F])(?:[0-9A-F]{32}|[0-9A-F]{56})(?![0-9A-F])")  # IPv4, IPv6
_TIME = re.compile(r"(?<!\d)1[789]\d{11}(?!\d)")


def _address(_path: tuple[str, ...], value: Any) -> Any:
    return _ADDRESS.sub("<address>", value) if isinstance(value, str) else value


def _uniq_key(_path: tuple[str, ...], value: Any) -> Any:
    return _UNIQ_KEY.sub("<made id>", value) if isinstance(value, str) else value


def _time(_path: tuple[str, ...], value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return "<time>" if _TIME.fullmatch(str(value)) else value
    return _TIME.sub("<time>", value) if isinstance(value, str) else value


def _language(path: tuple[str, ...], value: Any) -> Any:
    return "<language>" if path == ("language",) else value


def _stream(path: tuple[str, ...], value: Any) -> Any:
    if path == ("ext",):
        return {key: each for key, each in value.items() if key != "ReqT"}
    return value.removesuffix("@STREAM") if isinstance(value, str) else value


def _set_order(path: tuple[str, ...], value: Any) -> Any:
    if isinstance(value, list) and path[-1].lower().endswith("set"):
        return sorted(value, key=lambda each: json.dumps(each, sort_keys=True))
    return value


def _taken_in_turns(path: tuple[str, ...], value: Any) -> Any:
    return "<in turns>" if path[:1] == ("chosen",) else value


RULES: tuple[Rule, ...] = (
    Rule("address", "each has a peer of its own, at ports that were free", _address),
    Rule("made id", "drawn from address, process, class and time of whoever sends", _uniq_key),
    Rule("time", "two clocks, read one after the other", _time),
    Rule("language", "each says in which language it is written", _language),
    Rule(
        "stream",
        "Java's pull clients name their kind in client ids and requests, and so share no connection"
        " with others; no broker of 5.3.3 reads it (StreamTypeRPCHook)",
        _stream,
    ),
    Rule("order of a set", "Java walks a HashSet, and writes it as it comes", _set_order),
    Rule(
        "in turns",
        "both begin with a queue that they draw, and go on from there",
        _taken_in_turns,
    ),
)

_SENDS = {"SEND_MESSAGE", "SEND_MESSAGE_V2", "SEND_BATCH_MESSAGE"}


@dataclass(frozen=True, slots=True)
class Line:
    """A request as it is compared.

    Attributes:
        place: `broker-a 1`: the target and the how-manieth connection.
        subject: topic, queue and group that it is about.
    """

    place: str
    code: str
    subject: str
    answered: int | None
    tree: dict[str, Any] = field(compare=False)

    def __str__(self) -> str:
        end = {None: "oneway", HELD: "held"}.get(self.answered, str(self.answered))
        return f"{self.place:14} {self.code:28} {self.subject:22} -> {end}"


def normalised(value: Any, path: tuple[str, ...] = ()) -> Any:
    """A tree with every rule applied, from the bottom up."""
    if isinstance(value, dict):
        value = {str(key): normalised(each, (*path, str(key))) for key, each in value.items()}
    elif isinstance(value, list):
        value = [normalised(each, (*path, "[]")) for each in value]
    for rule in RULES if path else ():
        value = rule.apply(path, value)
    return value


def line_of(asked: Asked) -> Line:
    """What of a request is compared."""
    name, ext = asked.name, dict(asked.ext)
    long = {V1_OF_V2.get(key, key): value for key, value in ext.items()}
    told = long if name in _SENDS else ext
    chosen: dict[str, str] = {}
    if name in _SENDS:
        for key in ("queueId", "e", "bname", "n"):
            chosen[key] = ext.pop(key, ABSENT)
    for key in ("properties", "i"):
        if name in _SENDS and key in ext:
            ext[key] = _properties(ext[key])  # type: ignore[assignment]  # a tree of a map
    body = batch_tree(asked.body) if name == "SEND_BATCH_MESSAGE" else body_tree(asked.body)
    tree = {
        "version": asked.version, "language": asked.language, "flag": asked.flag, "ext": ext,
        "body": body, "chosen": chosen,
    }  # fmt: skip
    names = ["topic"] if name in _SENDS else ["topic", "queueId"]
    subject = "/".join(told[each] for each in names if each in told)
    group = told.get("consumerGroup") or told.get("producerGroup") or told.get("group") or ""
    subject = subject or group
    place = f"{asked.target} {asked.connection}"
    return Line(place, name, subject, asked.answered, normalised(tree))


def _properties(text: str) -> dict[str, str]:
    pairs = (each.partition("\x01") for each in text.split("\x02") if each)
    return {key: value for key, _, value in pairs}


def batch_tree(body: bytes) -> list[dict[str, Any]]:
    """The messages of a batch."""
    found, at = [], 0
    while at < len(body):
        _, magic, crc, flag, length = struct.unpack_from(">5i", body, at)
        at += 20
        text, at = body[at : at + length], at + length
        (length,) = struct.unpack_from(">h", body, at)
        told, at = body[at + 2 : at + 2 + length].decode(), at + 2 + length
        found.append(
            {
                "magic": magic, "crc": crc, "flag": flag, "text": text.decode(),
                "properties": _properties(told),
            }
        )  # fmt: skip
    return found


def _queue_by_queue(asked: Asked) -> list[Asked]:
    """A request to lock or unlock, as one for each queue: Java's rebalance asks for one queue at a
    time (`RebalanceImpl#lock`), its timer and PocketMQ for all of a broker at once."""
    if asked.name not in ("LOCK_BATCH_MQ", "UNLOCK_BATCH_MQ"):
        return [asked]
    told: dict[str, Any] = json.loads(asked.body)
    return [
        replace(
            asked,
            ext={**asked.ext, "topic": queue["topic"], "queueId": str(queue["queueId"])},
            body=json.dumps({**told, "mqSet": [queue]}).encode(),
        )
        for queue in told["mqSet"]
    ]


def lines_of(
    phase: Iterable[Asked], before: Iterable[Asked] = (), counts: Iterable[str] = ()
) -> list[Line]:
    """A phase's requests without repeats.

    What has been asked before on its connection, and was answered alike, is a timer's, or another
    thread's that did not know of it: how often depends on the moment. Sends always count.

    Args:
        phase: as they came.
        before: those of earlier phases.
        counts: codes of which each request counts, however often it was asked.
    """
    counted = set(counts)
    seen = {
        _identity(line_of(part))
        for each in before
        if each.name not in counted
        for part in _queue_by_queue(each)
    }
    found = []
    drawn: dict[str, str] = {}
    for each in (part for whole in phase for part in _queue_by_queue(whole)):
        if each.name in _SENDS:
            nth = drawn.setdefault(each.target, f"broker tried {len(drawn) + 1}.")
            each = replace(each, target=nth)
        line = line_of(each)
        identity = _identity(line)
        if line.code in _SENDS or identity not in seen:
            found.append(line)
        seen.add(identity)
    return found


def _identity(line: Line) -> tuple[Line, str]:
    return line, json.dumps(line.tree, sort_keys=True)


def differences(step: int, ours: Sequence[Line], theirs: Sequence[Line]) -> list[Difference]:
    """All places at which the requests of a phase differ."""
    found: list[Difference] = []
    left, right = Counter(ours), Counter(theirs)
    for line in dict.fromkeys([*theirs, *ours]):
        if left[line] != right[line]:
            a, b = f"{left[line]} times", f"{right[line]} times"
            subject = re.sub(r"\d+", "N", line.subject)
            found.append(Difference(line.code, f"asked({subject})", a, b, step, f"{line}"))
        else:
            pairs = zip(
                (each for each in ours if each == line),
                (each for each in theirs if each == line),
                strict=True,
            )
            for one, other in pairs:
                found += _parts(line.code, step, one.tree, other.tree, str(line))
    common = {line for line in left if line in right}
    found += _orders(step, [e for e in ours if e in common], [e for e in theirs if e in common])
    return list(dict.fromkeys(found))


def _orders(step: int, ours: list[Line], theirs: list[Line]) -> list[Difference]:
    """Lanes, a connection's codes and a queue's on it, in which the first times come otherwise."""
    found = []
    for lane in dict.fromkeys(
        [(each.place, "") for each in ours] + [(each.place, each.subject) for each in ours]
    ):
        a, b = _firsts(ours, *lane), _firsts(theirs, *lane)
        if a != b:
            at = next(n for n, (x, y) in enumerate(zip(a, b, strict=True)) if x != y)
            found.append(
                Difference(b[at], "order", ", ".join(a), ", ".join(b), step, " ".join(lane))
            )
    return found


def _firsts(lines: Iterable[Line], place: str, subject: str) -> list[str]:
    mine = (each for each in lines if each.place == place and subject in ("", each.subject))
    return list(dict.fromkeys(each.code for each in mine if _has_an_order(each)))


def _has_an_order(line: Line) -> bool:
    """Not where Java's threads race: a oneway request waits for the connection in a callback
    (`NettyRemotingClient#invokeOneway`), and a listener of new connections sends the heartbeat of
    one that was lost (`MQClientInstance`, `onChannelActive`)."""
    is_introduction = line.code == "HEART_BEAT" and not line.place.endswith(" 1")
    return line.answered is not None and not is_introduction


def _parts(code: str, step: int, left: Any, right: Any, note: str) -> list[Difference]:
    return [Difference(code, path, a, b, step, note) for path, a, b in walk("", left, right)]


def story(title: str, ours: Sequence[Line], theirs: Sequence[Line]) -> str:
    """Both sides below each other, for whoever reads a failure."""
    rows = [title, "  PocketMQ's client asked"]
    rows += [f"    {each}" for each in ours]
    rows += ["  RocketMQ's client asked", *(f"    {each}" for each in theirs)]
    return "\n".join(rows)
