"""What `mqadmin` printed, as fields; what of it must differ; and where two outputs do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from parity.compare import ABSENT
from parity.wire import NotJsonError, parse_json

TEXT = "text"
"""The field of a line that has neither a label nor a place in a table."""
STATUS = "exit status"
LACKS = "options that PocketMQ lacks"
TELL_OPTIONS = {"getBrokerConfig", "getNamesrvConfig", "getControllerConfig", "exportConfigs"}
"""They print all options: PocketMQ has some of its own, and what it lacks is one difference."""
MOST_RULES = 12
"""More than this fail the tests."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of text that must differ, or differs from run to run.

    Attributes:
        name: what it becomes, in angle brackets; empty: it is left out.
        reason: why it must differ.
        pattern: what it looks like; a group, if there is one, stays.
    """

    name: str
    reason: str
    pattern: re.Pattern[str]


_ADDRESS = re.compile(r"(?:/?127\.0\.0\.1|localhost/127\.0\.0\.1)[:@]\d+")
_DATE = r"\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d(?:[,:]\d{3})?|\b20\d{12}(?:\d{3})?\b|\b1[5-9]\d{11}\b"

LINE_RULES: tuple[Rule, ...] = (
    Rule(
        "",
        "places in the tool's own code, which is the same; names and messages of exceptions stay",
        re.compile(r"^\s+(?:at [\w.$/<>]+\(.*\)|\.\.\. \d+ more)\n", re.M),
    ),
    Rule(
        "words",
        "what a remark says is for people, and each says it in its own words; the code, and "
        "whether there is a remark, are compared",
        re.compile(r"(?<=DESC: )(?!null).+(?:\n+(?:See https|For more information).*)*"),
    ),
)
"""Applied to a whole output."""

RULES: tuple[Rule, ...] = (
    Rule("id", "a message id holds an address, a process, a time or a place in the log",
         re.compile(r"\b[0-9A-F]{32}(?:[0-9A-F]{24})?\b")),
    Rule(
        "address", "the brokers listen on two ports, and each client socket has its own", _ADDRESS
    ),
    Rule("time", "two clocks, read one after the other", re.compile(_DATE)),
    Rule("duration", "how long something took",
         re.compile(r"(?<![~\[])\b\d+(?:\.\d+)?(?= ?ms\b)")),
)  # fmt: skip
"""Applied to each name of a field and each value, in this order."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Fields whose value the machine makes, not what the broker was told.

    Attributes:
        reason: why the values differ.
        fields: `command field`, as an expression for all of it.
    """

    reason: str
    fields: re.Pattern[str]


MEASURED: tuple[Measured, ...] = (
    Measured(
        "each side has ports and folders of its own",
        re.compile(
            r".*[cC]onfig\w* (?:.*\.)?(?:listenPort|haListenPort|kvConfigPath|storePathRootDir"
            r"|configStorePath|controllerStorePath)"
        ),
    ),
    Measured(
        "`both_controllers` gives each its own, so that RocketMQ's second look does nothing",
        re.compile("getControllerConfig scanInactiveMasterInterval"),
    ),
    Measured(
        "RocketMQ counts more than one change where PocketMQ counts one; all that is done with it "
        "is to see that it has changed",
        re.compile(r"exportMetadata dataVersion\.counter"),
    ),
    Measured(
        "what is free changes, and PocketMQ leaves out what the file system reserves for root",
        re.compile("brokerStatus commitLogDirCapacity|clusterList #SPACE"),
    ),
    Measured(
        "times and rates of the machine, and counts that RocketMQ samples every ten seconds and "
        "forgets after a minute",
        re.compile(
            r"(?:clusterRT|checkMsgSendRT) (?:#RT|Avg RT|text)"
            r"|statsAll #(?:InTPS|OutTPS|InMsg24Hour|OutMsg24Hour)"
            r"|clusterList #(?:\w+TPS\(LOAD\)|Hour)"
            r"|consumerProgress (?:Consume TPS|#TPS)|consumerStatus #.*(?:RT|TPS)"
            r"|exportMetrics (?:.*\.tps\.\w+|totalData\.totalTps\.\w+)"
            r"|brokerStatus (?:\w+Tps|putLatency\d+|\w+EntireTimeMax|\w+DistributeTime\w*|runtime"
            r"|\w+HeadWaitTimeMills|pageCacheLockTimeMills|\w*[dD]iskRatio.*)"
        ),
    ),
)
SORTED = {"topicList"}
"""Their lines come in the order of RocketMQ's hash sets."""

_LABEL = re.compile(r"^\s*(?:<address>\s+)?([A-Za-z_#][\w ./()%-]*?)\s*[:=]\s*(.*)$")
_SUM = re.compile(r"^\w+ \w+: \S+$")
"""Below a table, and no row of it."""
_HEAD = re.compile(r"#[^#]*?(?=\s*#|\s*$)")


def fields_of(printed: str, own: Mapping[str, str], command: str = "") -> dict[str, list[str]]:
    """Field to its values, in their order; rows of a table are sorted.

    A field is the path of a value of JSON, the column of a table whose head begins with `#`, what
    stands before `:` or `=` of a line, or `TEXT`. `own` is what this side has for a placeholder.
    """
    text = printed
    for rule in LINE_RULES:
        text = rule.pattern.sub(f"<{rule.name}>" if rule.name else "", text)
    raw: list[tuple[str, str]] = []
    rest = _take_json(text, raw)
    raw += _of_lines(rest.splitlines())
    found: dict[str, list[str]] = {}
    rows: dict[str, list[str]] = {}
    for name, value in raw:
        into = rows if name.startswith("|") else found
        into.setdefault(_ruled(name, own), []).append(_ruled(value, own))
    for head, lines in rows.items():
        for line in sorted(lines):
            for column, cell in zip(head.split("|")[1:], line.split("|"), strict=True):
                found.setdefault(f"#{column}", []).append(cell)
    if command in SORTED:
        found[TEXT] = sorted(found.get(TEXT, []))
    return found


def _ruled(text: str, own: Mapping[str, str]) -> str:
    """A text with every rule applied."""
    for value, name in own.items():
        text = text.replace(value, f"<{name}>")
    for rule in RULES:
        text = rule.pattern.sub(f"<{rule.name}>", text)
    return text


def _of_lines(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Fields of lines; a row is one value, and its name the whole head: both split at `|`."""
    head: list[re.Match[str]] = []
    for line in lines:
        words = line.split()
        if not words or _SUM.match(line):
            head = []
        if not words:
            continue
        if words[0].startswith("#"):
            columns = list(_HEAD.finditer(line))
            head = columns if len(columns) > 1 else []
            if head:
                yield "columns", " ".join(words)
            else:
                yield words[0], " ".join(words[1:])
        elif head:
            yield f"|{'|'.join(each[0][1:] for each in head)}", "|".join(_cells(line, head))
        elif label := _LABEL.match(_ADDRESS.sub("<address>", line)):
            yield label[1], " ".join(label[2].split())
        else:
            yield TEXT, " ".join(words)


def _cells(row: str, head: list[re.Match[str]]) -> list[str]:
    """What of a row stands below each column: some cells are empty, and some hold blanks."""
    cells: list[list[str]] = [[] for _ in head]
    for word in re.finditer(r"[^\s|]+", row):

        def distance(column: int, word: re.Match[str] = word) -> int:
            return max(head[column].start() - word.end(), word.start() - head[column].end())

        cells[min(range(len(head)), key=distance)].append(word[0])
    return [" ".join(each) for each in cells]


def _take_json(text: str, found: list[tuple[str, str]]) -> str:
    """Add the values of a JSON text within the output; what is around it is returned."""
    start = re.search(r"^[\[{]", text, re.M)
    end = max(text.rfind("}"), text.rfind("]")) + 1
    if not start or end <= start.start():
        return text
    try:
        value = parse_json(text[start.start() : end].encode())
    except NotJsonError:
        return text
    found += [(path or "json", each) for path, each in _walk("", value)]
    return text[: start.start()] + text[end:]


def _walk(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key in sorted(value, key=str):
            yield from _walk(f"{path}.{key}" if path else str(key), value[key])
    elif isinstance(value, list) and value:
        for each in value:
            yield from _walk(f"{path}[]", each)
    else:
        yield path, str(value)


@dataclass(frozen=True, slots=True)
class Difference:
    """One field in which two runs do not agree.

    Attributes:
        command: the subcommand.
        field: see `fields_of`, or `STATUS`.
        ours, theirs: all values of it, beside PocketMQ and beside RocketMQ.
        line: the run.
    """

    command: str
    field: str
    ours: str
    theirs: str
    line: str

    def __str__(self) -> str:
        return f"{self.line} | {self.field} | ours {self.ours!r} | theirs {self.theirs!r}"


def differences(
    command: str, line: str, ours: Mapping[str, list[str]], theirs: Mapping[str, list[str]]
) -> list[Difference]:
    """Fields that differ, but for values that are measured."""
    found = []
    if command in TELL_OPTIONS:
        lacks = sorted(set(theirs) - set(ours))
        if lacks:
            found.append(Difference(command, LACKS, ABSENT, ", ".join(lacks), line))
        theirs = {name: each for name, each in theirs.items() if name in ours}
        ours = {name: ours[name] for name in theirs}
    for name in sorted({*ours, *theirs}):
        a, b = ours.get(name), theirs.get(name)
        if a == b or (a and b and len(a) == len(b) and is_measured(command, name)):
            continue
        found.append(Difference(command, name, _told(a), _told(b), line))
    return found


def is_measured(command: str, name: str) -> bool:
    """Whether only the presence of a field counts."""
    return any(each.fields.fullmatch(f"{command} {name}") for each in MEASURED)


def _told(values: list[str] | None) -> str:
    return ABSENT if values is None else " | ".join(values)
