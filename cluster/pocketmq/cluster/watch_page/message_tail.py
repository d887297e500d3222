"""Messages of a topic as they come, for the page: shortened, and so many a second.

They are read as `pocketmq message tail` reads them. Where more come than are told, reading goes on
at the end of the topic, and the number of those between is told: what is read does not depend on
how many are sent. Nothing is read while the page takes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from pocketmq.client import Admin, MessageExt, MessageQueue
from pocketmq.cluster.messages.bodies import excerpt
from pocketmq.cluster.messages.positions import END, Position
from pocketmq.cluster.messages.reading import (
    QueueRange,
    bounds_of,
    follow,
    ranges,
    read_range,
)
from pocketmq.protocol.bodies.offsets import TopicOffset
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.tasks import TaskOwner

if TYPE_CHECKING:
    from pocketmq.cluster.steering.cluster_control import ClusterControl

log = structlog.get_logger()

MAX_LAST: Final = 20
"""Messages that are there already, of which somebody who begins is told."""
MAX_MESSAGES: Final = 50
"""Told in a second."""
MAX_BYTES: Final = 2 * 1024 * 1024
"""Read in a second, and of those that are there already; the message that passes it is told."""
MAX_BODY_CHARS: Final = 2048
MAX_LABEL_CHARS: Final = 256
"""Of a tag, of keys, and of the name and value of a property."""
MAX_PROPERTIES: Final = 32
SECOND_S: Final = 1.0
KEEP_ALIVE_S: Final = 15.0
"""Real seconds after which an empty line is sent, so that a page that is gone is noticed."""

Bounds = Mapping[MessageQueue, TopicOffset]


class ShownMessage(msgspec.Struct):
    """A message, with as much of it as a page shows."""

    broker: str
    queue: int
    offset: int
    id: str
    tag: str
    keys: str
    stored_ms: int
    reconsume_times: int
    size: int
    """Bytes of the body, inflated."""
    body: str
    form: str
    """Of `body`: `text`, `hex`, or `error` where it cannot be inflated."""
    is_whole: bool
    """Whether `body` is all of it."""
    properties: dict[str, str]


class TailLine(msgspec.Struct, omit_defaults=True):
    """One line of the answer."""

    begun: bool = False
    """The first line: from here on nothing is missed."""
    message: ShownMessage | None = None
    passed_over: int = 0
    """So many came and are not told."""
    problem: str = ""
    """Why this is the last line."""


async def message_tail(
    control: ClusterControl, topic: str, bounds: Bounds
) -> AsyncGenerator[bytes, None]:
    """Lines of JSON (`TailLine`): the last messages, and then each when it comes.

    Args:
        control: The cluster.
        topic: Whose messages.
        bounds: Of its queues.
    """
    async with control.admin() as admin:
        yield _line(TailLine(begun=True))
        for shown in await _last(admin, bounds):
            yield _line(TailLine(message=shown))
        begins = {queue: each.max_offset for queue, each in bounds.items()}
        clock = control.view.real_time
        try:
            while True:
                async with aclosing(_until_too_many(control, admin, begins)) as lines:
                    async for line in lines:
                        yield line
                await clock.sleep(SECOND_S)
                before, begins = begins, await _ends(admin, topic, begins)
                passed = sum(max(0, end - before.get(each, end)) for each, end in begins.items())
                if passed:
                    yield _line(TailLine(passed_over=passed))
        # The topic was deleted, for example. What passes by itself is no error of `follow`.
        except PocketMQError as exc:
            yield _line(TailLine(problem=str(exc)))


async def _until_too_many(
    control: ClusterControl, admin: Admin, begins: dict[MessageQueue, int]
) -> AsyncGenerator[bytes, None]:
    """Each message when it comes, until there are too many in one second; moves `begins` on."""
    clock = control.view.real_time
    ends_at = clock.monotonic()
    messages, size = 0, 0
    async with aclosing(follow(admin, dict(begins))) as coming, TaskOwner("watch tail") as tasks:
        while messages < MAX_MESSAGES and size < MAX_BYTES:
            # A task, since a wait with a limit must not end the reading.
            taken = tasks.start(_next(coming), name="next")
            while not taken.done():
                await asyncio.wait([taken], timeout=KEEP_ALIVE_S)
                if not taken.done():
                    yield b"\n"
            message = await taken
            if isinstance(message, PocketMQError):
                raise message
            if clock.monotonic() >= ends_at:
                ends_at, messages, size = clock.monotonic() + SECOND_S, 0, 0
            messages, size = messages + 1, size + message.store_size
            begins[message.queue] = message.queue_offset + 1
            yield _line(TailLine(message=_shown(message)))


async def _next(coming: AsyncGenerator[MessageExt, None]) -> MessageExt | PocketMQError:
    try:
        return await anext(coming)
    except PocketMQError as exc:
        # Returned, so that it is raised where the reading ends, and not logged as a task's.
        return exc


async def _last(admin: Admin, bounds: Bounds) -> list[ShownMessage]:
    """The last messages that are there, oldest first: of the queues that got one last."""
    filled = [each for each, found in bounds.items() if found.min_offset < found.max_offset]
    filled.sort(key=lambda each: bounds[each].last_update_timestamp, reverse=True)
    latest = {each: bounds[each] for each in filled[:MAX_LAST]}
    begin = Position(before_end=MAX_LAST // max(1, len(latest)))
    found: list[ShownMessage] = []
    try:
        await _read(admin, await ranges(admin, latest, begin, END, 0), found)
    except PocketMQError as exc:  # those that come are told all the same
        log.debug("watch.last_not_read", reason=str(exc))
    return sorted(found, key=lambda each: each.stored_ms)


async def _read(admin: Admin, wanted: list[QueueRange], found: list[ShownMessage]) -> None:
    size = 0
    for each in wanted:
        async with aclosing(read_range(admin, each)) as messages:
            async for message in messages:
                # Only what is shown is kept: the message would keep a whole answer in memory.
                found.append(_shown(message))
                size += message.store_size
                if size >= MAX_BYTES:
                    return


async def _ends(
    admin: Admin, topic: str, begins: dict[MessageQueue, int]
) -> dict[MessageQueue, int]:
    """Where the queues end now; `begins` if a broker does not answer."""
    try:
        return {queue: each.max_offset for queue, each in (await bounds_of(admin, topic)).items()}
    except PocketMQError as exc:
        log.debug("watch.ends_not_known", reason=str(exc))
        return begins


def _shown(message: MessageExt) -> ShownMessage:
    size, text, form, is_whole = 0, "", "error", False
    try:
        body = message.body
    except PocketMQError as exc:
        text = str(exc)
    else:
        found = excerpt(body, MAX_BODY_CHARS)
        size, text, form, is_whole = len(body), found.text, found.form, found.is_whole
    properties = list(message.properties.items())[:MAX_PROPERTIES]
    return ShownMessage(
        message.broker_name,
        message.queue_id,
        message.queue_offset,
        message.msg_id[:MAX_LABEL_CHARS],
        (message.tags or "")[:MAX_LABEL_CHARS],
        (message.keys or "")[:MAX_LABEL_CHARS],
        message.store_timestamp_ms,
        message.reconsume_times,
        size,
        text,
        form,
        is_whole,
        {name[:MAX_LABEL_CHARS]: value[:MAX_LABEL_CHARS] for name, value in properties},
    )


def _line(line: TailLine) -> bytes:
    return msgspec.json.encode(line) + b"\n"
