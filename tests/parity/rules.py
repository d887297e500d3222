"""What must differ between two brokers that do the same: declared once, each with its reason.

A rule that hides a field hides a fault: there are at most `MOST` of them, and each says why.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

MOST = 15
"""More than this many rules fail the tests: find another way."""

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """What rules know of the pair whose answers they see.

    Attributes:
        suffix: what all names of this pair end in.
        began_ms, ended_ms: between which moments times of it may lie.
    """

    suffix: str
    began_ms: int
    ended_ms: int


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of value that must differ.

    Attributes:
        name: what the value becomes, in angle brackets.
        reason: why it must differ.
        apply: path, value and pair to the value that is compared.
    """

    name: str
    reason: str
    apply: Callable[[Path, Any, Pair], Any]


GONE = object()
"""A rule's answer: the value takes no part."""

_ADDRESS = re.compile(r"127\.0\.0\.\d+[:@]\d+")
_NUMBER = re.compile(r"(?<![0-9A-Za-z])1[0-9]{12}(?![0-9A-Za-z])")
_MADE_ID = re.compile(r"(?<![0-9A-F])(?:7F0000[0-9A-F]{26}|[0-9A-F]{56})(?![0-9A-F])")
_PHYSICAL = {
    "commitLogOffset", "physicalOffset", "physicOffset", "maxPhyOffset", "minPhyOffset",
    "indexLastUpdatePhyoffset",
}  # fmt: skip
_SHARED = re.compile(
    r"RMQ_SYS_TRANS_\w+@|CID_RMQ_SYS_|rmq_sys_wheel_timer@|SCHEDULE_TOPIC_XXXX@"
    "|TRANS_CHECK_MAX_TIME_TOPIC$"
)
"""Offsets in queues that all pairs share."""
_SETS = {
    "groupList", "topicList", "lockOKMQSet", "messageQueueAssignments",
    "consumeStatsList", "connectionSet", "consumerIdList", "brokerDatas", "queueDatas",
    "syncStateSet", "inSyncReplicas", "notInSyncReplicas",
}  # fmt: skip
_PAIRS_NAME = re.compile(r"[bgckptx]\d-[0-9a-f]+z")
_PATCH_RELEASES = {407: "<4.9>", 409: "<4.9>", 513: "<5.5>", 515: "<5.5>"}
_TIME_KEYS_AHEAD_MS = 4 * 86_400_000


def _address(_path: Path, value: Any, _pair: Pair) -> Any:
    return _ADDRESS.sub("<address>", value) if isinstance(value, str) else value


def _time(_path: Path, value: Any, pair: Pair) -> Any:
    first, last = pair.began_ms - 1000, pair.ended_ms + _TIME_KEYS_AHEAD_MS
    if isinstance(value, int) and not isinstance(value, bool):
        return "<time>" if first <= value <= last else value
    if isinstance(value, str):
        return _NUMBER.sub(
            lambda found: "<time>" if first <= int(found[0]) <= last else found[0], value
        )
    return value


def _made_id(_path: Path, value: Any, _pair: Pair) -> Any:
    return _MADE_ID.sub("<made id>", value) if isinstance(value, str) else value


def _physical(path: Path, value: Any, _pair: Pair) -> Any:
    is_set = str(value) not in ("0", "-1") or path[-2:-1] != ("preparedOffset",)
    return "<place in the log>" if path[-1] in _PHYSICAL and is_set else value


def _version(path: Path, value: Any, _pair: Pair) -> Any:
    if path[-1].lower().endswith("dataversion") and isinstance(value, dict):
        return dict.fromkeys(value, "<of all pairs>")
    return value


def _shared_queue(path: Path, value: Any, _pair: Pair) -> Any:
    return "<offset>" if path[-1] == "sharedQueueOffset" else value


def _others(path: Path, value: Any, pair: Pair) -> Any:
    if _SHARED.search(path[-1]):
        return GONE
    names = _PAIRS_NAME.findall(path[-1])
    if names and not any(name.endswith(f"-{pair.suffix}") for name in names):
        return GONE
    if isinstance(value, list):
        return [each for each in value if not _is_of_others(each, pair)]
    if path == ("body", "json", "brokerAddr") and _PAIRS_NAME.search(str(value)):
        return GONE  # one of all brokers to ask for the rest: the first of a hash map
    return value


def _is_of_others(value: Any, pair: Pair) -> bool:
    """Whether a row names something of another pair, and nothing of this one."""
    names = _PAIRS_NAME.findall(value if isinstance(value, str) else json.dumps(value))
    return bool(names) and not any(name.endswith(f"-{pair.suffix}") for name in names)


def _own_names(_path: Path, value: Any, pair: Pair) -> Any:
    return value.replace(f"-{pair.suffix}", "") if isinstance(value, str) else value


def _encoding(path: Path, value: Any, _pair: Pair) -> Any:
    return "<encoding>" if path == ("encoding",) else value


def _sampled(path: Path, value: Any, _pair: Pair) -> Any:
    is_mean = path[-1] in ("topicPutTps", "consumeTps")
    is_window = path[-2:-1] in (("statsMinute",), ("statsHour",), ("statsDay",))
    return "<sampled>" if is_mean or (is_window and path[-1] != "<key>") else value


def _to_ten_seconds(path: Path, value: Any, _pair: Pair) -> Any:
    if path == ("ext", "invisibleTime") and isinstance(value, str) and value.isdigit():
        return str(int(value) // 10_000 * 10_000)
    return value


def _unset_remark(path: Path, value: Any, _pair: Pair) -> Any:
    return "none" if path == ("remark",) and value == "unset" else value


def _object_key(path: Path, value: Any, _pair: Pair) -> Any:
    if path[-1] == "<key>" and isinstance(value, str) and value.startswith("{"):
        with suppress(ValueError):
            return json.dumps(json.loads(value), sort_keys=True)
    return value


def _set_order(path: Path, value: Any, _pair: Pair) -> Any:
    is_set = path[-1] in _SETS or path[-2:-1] == ("clusterAddrTable",)
    if is_set and isinstance(value, list):
        return sorted(value, key=lambda each: json.dumps(each, sort_keys=True))
    return value


def _written_as(path: Path, value: Any, _pair: Pair) -> Any:
    if path == ("version",):
        return _PATCH_RELEASES.get(value, value)
    return "<language>" if path == ("language",) else value


RULES: tuple[Rule, ...] = (
    Rule(
        "rows of other pairs",
        "pairs share two brokers and are asked side by side, so tables hold rows of the others",
        _others,
    ),
    Rule("own names", "a difference has the same name in every pair", _own_names),
    Rule(
        "address", "the brokers listen on two ports, and each client socket has its own", _address
    ),
    Rule("time", "two clocks read one after the other; only of this pair's span", _time),
    Rule(
        "made id",
        "a message id holds the broker's address and a place in its log; one that it makes for a "
        "client that sent none is drawn from its own address, process and time",
        _made_id,
    ),
    Rule("place in the log", "records of other pairs come between in another order", _physical),
    Rule(
        "offset in a shared queue",
        "a half, delayed or timer message waits in a queue that all pairs share",
        _shared_queue,
    ),
    Rule("data version", "tables count the changes of all pairs", _version),
    Rule(
        "language",
        "each says in which language it is written, and its release: profiles follow 4.9.8 and "
        "5.5.1, which Maven Central does not have whole, so that 4.9.7 and 5.5.0 are asked",
        _written_as,
    ),
    Rule(
        "encoding",
        "RocketMQ answers in the encoding that its process was started with, PocketMQ in that of "
        "the request; a reader knows each frame's encoding by its fifth byte",
        _encoding,
    ),
    Rule("sampled", "means of the last minute, which each samples every 10 s", _sampled),
    Rule(
        "to ten seconds",
        "what is left of a message's invisible time, where the time since its pop is counted in: "
        "that of two clocks, and to the second one of them is over where the other is not",
        _to_ten_seconds,
    ),
    Rule(
        "remark nobody set",
        "a response of `RemotingCommand.createResponseCommand(Class)` has a constant remark until "
        "someone sets another, and many of RocketMQ's processors set only the code",
        _unset_remark,
    ),
    Rule(
        "object as key",
        "Fastjson writes a map's key that is an object as it is, which is no JSON; PocketMQ writes "
        "it as a string, which Fastjson reads too",
        _object_key,
    ),
)


SET_ORDER = Rule(
    "order of a set",
    "RocketMQ holds these in a HashSet, or walks a hash map, and writes them as they come",
    _set_order,
)
"""Applied to what the other rules have left of a list."""


def normalised(value: Any, pair: Pair, path: Path = ()) -> Any:
    """A tree of dicts, lists and scalars with every rule applied, from the top down."""
    for rule in RULES if path else ():
        value = rule.apply(path, value, pair)
        if value is GONE:
            return GONE
    if isinstance(value, dict):
        found = {
            normalised(str(key), pair, (*path, "<key>")): normalised(each, pair, (*path, str(key)))
            for key, each in value.items()
        }
        return {key: each for key, each in found.items() if each is not GONE}
    if isinstance(value, list):
        items = [normalised(each, pair, (*path, "[]")) for each in value]
        return SET_ORDER.apply(path, [each for each in items if each is not GONE], pair)
    return value
