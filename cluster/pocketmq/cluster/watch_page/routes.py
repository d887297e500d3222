"""Serves the page, and what it shows: a running cluster or a recording."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from pocketmq.cluster.http_server.guard import PAGE, Guard
from pocketmq.cluster.http_server.problem import TOKEN_COOKIE
from pocketmq.cluster.messages.exporting import exported
from pocketmq.cluster.messages.positions import END, START, Position, QueueName, queue_name
from pocketmq.cluster.messages.reading import QueueRange, bounds_of, ranges
from pocketmq.cluster.recordings.reader import open_index
from pocketmq.cluster.watch_page.message_tail import Bounds, message_tail
from pocketmq.cluster.watch_page.page import media_type, page_files, security_policy
from pocketmq.cluster.watch_page.present import present
from pocketmq.operation.events import VOCABULARY
from pocketmq.operation.events.frames import encode_index
from pocketmq.protocol.errors import TopicNotFoundError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.errors import CallerError, DiskError

if TYPE_CHECKING:
    from pocketmq.cluster.steering.cluster_control import ClusterControl

WHOLE_BYTES: Final = 16 * 1024 * 1024
"""A recording up to this size is loaded whole; of a longer one the index, and then parts."""

MAX_RANGE_BYTES: Final = 32 * 1024 * 1024
"""Maximum bytes of one answer."""

JSON_LINES: Final = "application/x-ndjson"

Endpoint = Callable[[Request], Awaitable[Response]]
Guarding = Callable[[Endpoint], Endpoint]


class Source(msgspec.Struct):
    """What the page shows."""

    kind: str
    """`live` or `recording`."""
    name: str
    bytes: int = 0
    whole_bytes: int = WHOLE_BYTES
    problems: list[str] = []


def page_routes(guard: Guarding) -> list[Route]:
    """The page and its files."""

    def file(name: str) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            # A browser cannot send the token in a header, so it comes once in the address and then
            # in a cookie.
            if name == "index.html" and (token := request.query_params.get("token")):
                answer = RedirectResponse(PAGE)  # so that no link that is passed on has the token
                answer.set_cookie(TOKEN_COOKIE, token, httponly=True, samesite="strict")
                return answer
            headers = {"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}
            if name == "index.html":
                headers["Content-Security-Policy"] = security_policy()
            return Response(page_files()[name], media_type=media_type(name), headers=headers)

        return endpoint

    async def home(_request: Request) -> Response:
        return RedirectResponse(PAGE)

    routes = [Route("/", guard(home)), Route(PAGE, guard(file("index.html")))]
    routes += [Route(f"/watch/{name}", guard(file(name))) for name in page_files()]
    return routes


def live_routes(control: ClusterControl, guard: Guard) -> list[Route]:
    """What the page asks of a running cluster, beside its events and operations."""

    async def source(_request: Request) -> Response:
        return _json(Source("live", control.nameservers))

    async def now(_request: Request) -> Response:
        return _json(await present(control))

    async def rules(_request: Request) -> Response:
        return _json({each.name(): each.RULE for each in VOCABULARY})

    async def store(request: Request) -> Response:
        broker = control.known(request.query_params.get("broker", ""))
        offset = request.query_params.get("offset", "")
        # An offset is never longer, and `int` of a million digits would block the loop.
        if not (offset.isascii() and offset.isdigit() and len(offset) <= 18):
            raise CallerError(
                "parameter offset must be a position in the commit log, with at most 18 digits"
            )
        from pocketmq.cluster.watch_page.store_bytes import store_bytes  # loads the broker's store

        return _json(store_bytes(control.roles.data / broker, int(offset)))

    async def messages(request: Request) -> Response:
        topic = _topic(request)
        bounds = await _bounds(control, topic)
        return StreamingResponse(message_tail(control, topic, bounds), media_type=JSON_LINES)

    async def export(request: Request) -> Response:
        topic = _topic(request)
        parts = [queue_part(text) for text in request.query_params.getlist("part")]
        bounds = await _bounds(control, topic, [name for name, _, _ in parts])
        # `nosniff` is set by the guard; a name in UTF-8 cannot end the header's value.
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(topic, '')}.jsonl"}
        lines = _exported(control, topic, bounds, parts)
        return StreamingResponse(lines, media_type=JSON_LINES, headers=headers)

    return [
        Route("/watch/source", guard(source)),
        Route("/watch/now", guard(now)),
        Route("/watch/store", guard(store, needs_super_user=True)),
        Route("/watch/messages", guard(messages, needs_super_user=True)),
        Route("/watch/export", guard(export, needs_super_user=True)),
        Route("/watch/rules", guard(rules)),
    ]


Part = tuple[QueueName, int, int]
"""A queue, an offset, and the first one behind that is left out."""


def queue_part(text: str) -> Part:
    """A part of a queue, as `broker-a/0:12-40`: from offset 12 to before 40.

    Raises:
        CallerError: It is none.
    """
    queue, _, offsets = text.rpartition(":")
    found = re.fullmatch(r"([0-9]{1,18})-([0-9]{1,18})", offsets)
    if found is None:
        raise CallerError(f"{text!r} is not a part of a queue; write a part like broker-a/0:12-40")
    return queue_name(queue), int(found[1]), int(found[2])


def _topic(request: Request) -> str:
    topic = request.query_params.get("topic", "")
    if not topic:
        raise CallerError("parameter topic is missing; give the name of a topic")
    return topic


async def _bounds(control: ClusterControl, topic: str, only: Sequence[QueueName] = ()) -> Bounds:
    async with control.admin() as admin:
        try:
            return await bounds_of(admin, topic, only)
        except TopicNotFoundError:  # who asks has mistyped it; the answer of others is theirs
            raise CallerError(f"there is no topic {topic!r}") from None


async def _exported(
    control: ClusterControl, topic: str, bounds: Bounds, parts: Sequence[Part]
) -> AsyncGenerator[bytes, None]:
    """The lines of some parts of a topic, or of all of it as far as it is there now."""
    async with control.admin() as admin:
        wanted: list[QueueRange] = []
        for name, begin, end in parts:
            queue = MessageQueue(topic, name.broker, name.queue)
            only = {queue: bounds[queue]}
            wanted += await ranges(admin, only, Position(offset=begin), Position(offset=end), 0)
        if not parts:
            wanted = await ranges(admin, bounds, START, END, 0)
        # An error in the middle ends the connection, so that no part is taken for the whole.
        async with aclosing(exported(admin, wanted)) as lines:
            async for line in lines:
                yield line


def recording_routes(path: Path, guard: Guarding) -> list[Route]:
    """What the page asks of a recording.

    Raises:
        DiskError: It cannot be read.
    """
    size = _size(path)
    # Once, when the server starts, since a large recording takes seconds.
    index_, problems = open_index(path) if size > WHOLE_BYTES else (None, [])
    encoded = b"{}" if index_ is None else encode_index(index_)

    async def source(_request: Request) -> Response:
        return _json(Source("recording", path.name, size, problems=problems))

    async def index(_request: Request) -> Response:
        if index_ is None:
            short = "this recording is short and has no index; fetch all of it"
            raise CallerError(f"{path}: {'; '.join(problems) or short}")
        return Response(encoded, media_type="application/json")

    async def content(request: Request) -> Response:
        begin, end = byte_range(request.headers.get("range"), size)
        # could be better: without a range, a longer recording is silently cut here.
        part = _part(path, begin, min(end, begin + MAX_RANGE_BYTES))
        if request.headers.get("range") is None:
            return Response(part, media_type="text/plain; charset=utf-8")
        headers = {"Content-Range": f"bytes {begin}-{begin + len(part) - 1}/{size}"}
        return Response(part, 206, headers, "text/plain; charset=utf-8")

    return [
        Route("/watch/source", guard(source)),
        Route("/watch/index", guard(index)),
        Route("/watch/recording", guard(content)),
    ]


def byte_range(header: str | None, size: int) -> tuple[int, int]:
    """Begin and end of the bytes that a `Range` asks for; all of them without one.

    Raises:
        CallerError: It is none of the form `bytes=BEGIN-END`, or lies outside.
    """
    if header is None:
        return 0, size
    found = re.fullmatch(r"bytes=(\d{1,18})-(\d{1,18})?", header.strip())
    # Suffixes and lists of ranges are refused: the page asks for single ranges only.
    if found is None:
        raise CallerError(f"range {header!r}: write bytes=BEGIN-END")
    begin = int(found[1])
    end = min(size, int(found[2]) + 1) if found[2] else size
    if begin >= end:
        raise CallerError(f"range {header!r} is outside the recording, which has {size} bytes")
    return begin, end


def _part(path: Path, begin: int, end: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(begin)
            return file.read(end - begin)
    except OSError as exc:
        raise DiskError(path, exc.strerror or str(exc), advice="was it removed?") from exc


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError as exc:
        raise DiskError(path, exc.strerror or str(exc), advice="name a recording") from exc


def _json(answer: object) -> Response:
    return Response(msgspec.json.encode(answer), media_type="application/json")
