"""Messages that are sent again: from a file, or from a dead letter topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from pocketmq.client import Admin, Message, MessageExt
from pocketmq.cluster.messages.positions import Position
from pocketmq.cluster.messages.reading import bounds_of, ranges, read_range
from pocketmq.protocol.errors import ClientError, TopicNotFoundError
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message_json import from_json, line_of_message, sent_again
from pocketmq.protocol.messages.validation import check_message, dlq_topic
from pocketmq.runtime.errors import CallerError


@dataclass(frozen=True, slots=True)
class Imported:
    """One line of a file."""

    number: int
    message: Message
    lane: str | None
    """Where it was stored, as `broker-a/0`: messages of one queue stay in their order."""


class BrokenLineError(CallerError):
    """A line that is no message."""

    def __init__(self, name: str, number: int, problem: str) -> None:
        self.number = number
        super().__init__(f"{name} line {number}: {problem}")


def read_lines(lines: Iterable[bytes], name: str, topic: str | None) -> Iterator[Imported]:
    """The messages of lines that `message export` wrote; empty lines are passed over.

    Args:
        lines: One JSON object in each.
        name: Of the file, for errors.
        topic: Where the messages go, instead of their own topics.

    Raises:
        BrokenLineError: a line is no message that a broker takes.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            told = line_of_message(line)
            message = from_json(told, topic=topic)
            check_message(message)
        except ClientError as exc:
            raise BrokenLineError(name, number, str(exc)) from exc
        # By the original queue, as messages had an order only within it.
        broker, queue = told.get("brokerName"), told.get("queueId")
        yield Imported(number, message, None if queue is None else f"{broker}/{queue}")


def origin_of(letter: MessageExt) -> str | None:
    """The topic that a dead letter was first sent to; None if it does not tell."""
    properties = letter.properties
    # Newer brokers name the origin topic; older ones name only the retries' topic.
    return properties.get(names.DLQ_ORIGIN_TOPIC) or properties.get(names.RETRY_TOPIC)


def resent(letter: MessageExt, to: str | None = None) -> Message:
    """A dead letter as a message for its origin topic, with all its retries again.

    It keeps its unique id, tags, keys and properties, and ORIGIN_MESSAGE_ID: the offset id of its
    first copy.

    Args:
        letter: From a `%DLQ%` topic.
        to: Another topic.

    Raises:
        CallerError: it does not tell its origin, and no topic is given.
    """
    topic = to or origin_of(letter)
    if topic is None:
        raise CallerError(
            f"message {letter.msg_id} does not say from which topic it came; name a topic with --to"
        )
    # Without the properties that would delay, retry or check it again.
    properties = sent_again(letter.properties)
    # Not replaced: after a second death it still names the first copy.
    properties.setdefault(names.ORIGIN_MESSAGE_ID, letter.offset_msg_id)
    return Message(topic, letter.body, flag=letter.flag, properties=properties)


async def dead_letters(
    admin: Admin,
    group: str,
    begin: Position,
    end: Position,
    ids: Sequence[str],
    now_ms: int,
) -> list[MessageExt]:
    """The dead letters that are meant, oldest first.

    Raises:
        CallerError: the group has none, or none with one of these ids.
    """
    try:
        bounds = await bounds_of(admin, dlq_topic(group))
    except TopicNotFoundError:
        raise CallerError(
            f"group {group!r} has no dead letters, because topic {dlq_topic(group)} does not exist"
        ) from None
    found: list[MessageExt] = []
    for each in await ranges(admin, bounds, begin, end, now_ms):
        async with aclosing(read_range(admin, each)) as messages:
            async for message in messages:
                if not ids or not {message.msg_id, message.offset_msg_id}.isdisjoint(ids):
                    # Copied out: otherwise the whole response would stay in memory with this
                    # letter.
                    message.detach()
                    found.append(message)
    # Either kind of id counts.
    missing = set(ids) - {each.msg_id for each in found} - {each.offset_msg_id for each in found}
    if missing:
        raise CallerError(
            f"no dead letter of {group} has the id {sorted(missing)[0]}; `pocketmq message "
            f"export '{dlq_topic(group)}'` shows all dead letters"
        )
    # Queues are read one after another, so the letters are sorted by time.
    return sorted(found, key=lambda each: each.store_timestamp_ms)
