"""Offsets of many queues: the JSON that users write and Spark stores, and how ranges are split.

    {"Orders": {"broker-a": {"0": 23, "1": -2}, "broker-b": {"0": -1}}}

is rocketmq-spark's form: topic, broker name, queue id. -2 means the earliest stored message, -1
the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from pocketmq.pipeline.errors import near
from pocketmq.pipeline.options.options import Options
from pocketmq.protocol.messages.message import MessageQueue

EARLIEST: Final = -2
LATEST: Final = -1
EXAMPLE: Final = '{"Orders":{"broker-a":{"0":23,"1":-2}}}'
ASSIGN_EXAMPLE: Final = '{"Orders":{"broker-a":[0,1]}}'

Offsets = dict[MessageQueue, int]
Piece = tuple[MessageQueue, int, int]
"""A queue's offsets from the first number to below the second."""
T = TypeVar("T")


def to_tree(offsets: Mapping[MessageQueue, T]) -> dict[str, dict[str, dict[str, T]]]:
    """Offsets, or anything else by queue, in the shape of the JSON."""
    tree: dict[str, dict[str, dict[str, T]]] = {}
    for queue in sorted(offsets):
        brokers = tree.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return tree


def from_tree(tree: Mapping[str, Mapping[str, Mapping[str, T]]]) -> dict[MessageQueue, T]:
    """The reverse; the tree is sound, since we made it."""
    return {
        MessageQueue(topic, broker, int(queue_id)): offset
        for topic, brokers in tree.items()
        for broker, queues in brokers.items()
        for queue_id, offset in queues.items()
    }


def to_json(offsets: Mapping[MessageQueue, int]) -> str:
    """The offsets as JSON."""
    return json.dumps(to_tree(offsets), separators=(",", ":"))


def parse(options: Options, name: str) -> Offsets:
    """Read an option's JSON as a number for each queue.

    Raises:
        OptionError: It is no JSON, or has another form; the message names the wrong part.
    """
    found: Offsets = {}
    for topic, brokers in options.json_object(name, EXAMPLE).items():
        if topic.startswith("@"):
            continue  # a stream's checkpoint was given as it is
        for broker, queues in _object(options, name, brokers, f"topic {topic!r}").items():
            where = f"broker {broker!r} of topic {topic!r}"
            for queue_id, offset in _object(options, name, queues, where).items():
                if not queue_id.isdecimal():
                    raise options.error(
                        name, f"the queue id {queue_id!r} of {where} must be a number"
                    )
                # In Python JSON's true is an int.
                if not isinstance(offset, int) or isinstance(offset, bool) or offset < EARLIEST:
                    allowed = (
                        f"an offset must be 0 or more, {LATEST} (latest) or {EARLIEST} (earliest)"
                    )
                    what = "offset"
                    if name.endswith("ByTimestamp"):
                        what, allowed = "time", "a time must be in milliseconds since 1970"
                    raise options.error(
                        name, f"queue {queue_id} of {where} has the {what} {offset!r}; {allowed}"
                    )
                found[MessageQueue(topic, broker, int(queue_id))] = offset
    return found


def parse_assignment(options: Options, name: str) -> list[MessageQueue]:
    """Read an option's JSON as queues: topic, broker, list of queue ids."""
    found = []
    for topic, brokers in options.json_object(name, ASSIGN_EXAMPLE).items():
        for broker, ids in _object(
            options, name, brokers, f"topic {topic!r}", ASSIGN_EXAMPLE
        ).items():
            # `isinstance` would accept true as 1.
            if not isinstance(ids, list) or not all(type(each) is int for each in ids):
                problem = f"broker {broker!r} of topic {topic!r} has no list of queue ids"
                raise options.error(name, f"{problem}; it looks like {ASSIGN_EXAMPLE}")
            found += [MessageQueue(topic, broker, queue_id) for queue_id in ids]
    return sorted(set(found))


def _object(
    options: Options, name: str, value: Any, where: str, example: str = EXAMPLE
) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise options.error(name, f"the value of {where} must be a JSON object, as in {example}")
    return value


def check_known(
    options: Options, name: str, given: Iterable[MessageQueue], queues: Iterable[MessageQueue]
) -> None:
    """Raise `OptionError` when an option names a queue that the route does not have."""
    known = set(queues)
    topics = {queue.topic for queue in known}
    for queue in given:
        if queue in known:
            continue
        if queue.topic not in topics:
            problem = f"topic {queue.topic!r} is not read"
            raise options.error(name, problem, near=near(queue.topic, topics))
        brokers = {each.broker_name for each in known if each.topic == queue.topic}
        if queue.broker_name not in brokers:
            problem = f"topic {queue.topic!r} has no broker {queue.broker_name!r}"
            raise options.error(name, problem, near=near(queue.broker_name, brokers))
        ids = sorted(
            each.queue_id
            for each in known
            if (each.topic, each.broker_name) == (queue.topic, queue.broker_name)
        )
        raise options.error(
            name,
            f"topic {queue.topic!r} has no queue {queue.queue_id} on {queue.broker_name!r}; its "
            f"queues there are {', '.join(map(str, ids))}",
        )


@dataclass(frozen=True, slots=True)
class Position:
    """A start or end as the options give it, before the queues are known."""

    option: str
    """Name of the option that gave it, for error messages."""
    default: int = EARLIEST
    """`EARLIEST` or `LATEST`, for queues that the option does not name."""
    group: str = ""
    """The group whose consumer offsets are meant; empty for none."""
    offsets: Mapping[MessageQueue, int] = field(default_factory=dict)
    moment_ms: int | None = None
    moments_ms: Mapping[MessageQueue, int] = field(default_factory=dict)
    must_exist: bool = True
    """Whether a timestamp after the last message is an error."""


def limited(start: Offsets, end: Offsets, most: int) -> Offsets:
    """An end at most `most` messages behind the start, shared among the queues.

    A queue's share is proportional to what it has to read, as with the Kafka connector; each queue
    with messages gets at least one while the sum allows it.
    """
    # After a loss a queue's end may be before its start: then it has nothing to read.
    sizes = {queue: max(0, end[queue] - start.get(queue, 0)) for queue in end}
    total = sum(sizes.values())
    if total <= most:
        return dict(end)
    shares = {queue: size * most // total for queue, size in sizes.items()}
    rest = most - sum(shares.values())
    # Queues that would get nothing come first, so that none waits for ever behind a long queue.
    waiting = sorted(
        (queue for queue in sizes if shares[queue] < sizes[queue]),
        key=lambda queue: (shares[queue] > 0, shares[queue] - sizes[queue], queue),
    )
    for queue in waiting[:rest]:
        shares[queue] += 1
    return {queue: start.get(queue, end[queue] - sizes[queue]) + shares[queue] for queue in end}


def split_ranges(
    ranges: Mapping[MessageQueue, tuple[int, int]], least: int, most_rows: int | None = None
) -> list[Piece]:
    """Split ranges of offsets into at least `least` parts, if they have that many messages.

    The number of a queue's parts is proportional to its size, as with the Kafka connector. With
    `most_rows` no part has more messages than that.
    """
    whole = {queue: (low, high) for queue, (low, high) in ranges.items() if low < high}
    total = sum(high - low for low, high in whole.values())
    pieces = []
    for queue in sorted(whole):
        low, high = whole[queue]
        count = 1
        if len(whole) < least:
            count = min(-(-(high - low) * least // total), high - low)
        if most_rows is not None:
            count = max(count, -(-(high - low) // most_rows))
        cuts = [low + (high - low) * number // count for number in range(count + 1)]
        pieces += [(queue, cuts[n], cuts[n + 1]) for n in range(count)]
    return pieces


def gathered(pieces: Sequence[Piece], rows: int, least: int = 1) -> list[list[Piece]]:
    """Neighbours put together into groups of about equal size, one for each `rows` messages.

    There are at least `least` groups, or as many as there are pieces. The same pieces give the same
    groups: a batch that Spark repeats must have the same tasks.
    """
    total = sum(high - low for _, low, high in pieces)
    wanted = min(len(pieces), max(least, total // rows))
    groups: list[list[Piece]] = []
    before = 0
    for number, piece in enumerate(pieces):
        # A piece goes where its middle lies; each group that is still wanted gets one at least.
        _, low, high = piece
        place = (2 * before + high - low) * wanted // (2 * total)
        before += high - low
        if len(groups) <= place or len(pieces) - number <= wanted - len(groups):
            groups.append([piece])
        else:
            groups[-1].append(piece)
    return groups
