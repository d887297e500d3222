"""Which processor answers which request code, and what a peer hears when one fails.

A processor is a synchronous function: it gets the peer and the request and returns the reply, or
None when it will answer later through `Peer.reply` (a held pull, a message waiting for the disk) or
never (one-way). There is no task per request. Processors of the hottest codes may take all
consecutive requests of one read at once (`handles_batch`), so that a store is appended to once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import structlog

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Body, Command, Encoding
from pocketmq.protocol.header import Header
from pocketmq.runtime.errors import PocketMQError

log = structlog.get_logger()


class Peer(Protocol):
    """The other end of a connection, as processors see it."""

    address: str
    """`ip:port` of the other end."""

    local_address: str
    encoding: Encoding
    """Encoding the peer last used; what we send on our own goes out in it."""

    @property
    def is_open(self) -> bool:
        """False once the connection is closing or lost."""
        ...

    def reply(self, request: Command, response: Command | bytes) -> None:
        """Answer a request whose processor returned None; nothing happens when the peer is gone."""
        ...

    def oneway(self, header: Header, body: Body = b"") -> None:
        """Send a request that wants no answer."""
        ...

    def close(self) -> None:
        """Close the connection after what is buffered has been sent."""
        ...


Reply: TypeAlias = Command | bytes | None
"""A response, a response already framed, or nothing (yet)."""

Processor: TypeAlias = Callable[[Any, Command], Reply]
BatchProcessor: TypeAlias = Callable[[Any, Sequence[Command]], Sequence[Reply]]

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def handles(*codes: int) -> Callable[[FunctionT], FunctionT]:
    """Mark a method as the processor of these request codes; see `Dispatcher.add`."""

    def mark(function: FunctionT) -> FunctionT:
        function.__dict__["_handles"] = codes
        return function

    return mark


def handles_batch(*codes: int) -> Callable[[FunctionT], FunctionT]:
    """Mark a method that takes all consecutive requests of these codes from one read.

    It returns one reply per request, in their order, and maps its own errors (`error_reply`).
    """

    def mark(function: FunctionT) -> FunctionT:
        function.__dict__["_handles_batch"] = codes
        return function

    return mark


class Dispatcher:
    """The table request code -> processor of one role."""

    def __init__(self) -> None:
        self.single: dict[int, Processor] = {}
        self.batch: dict[int, BatchProcessor] = {}

    def add(self, *families: object) -> None:
        """Register every method that `handles` or `handles_batch` marked on these objects.

        Raises:
            ValueError: two processors claim one code.
        """
        for family in families:
            for name in dir(type(family)):
                function = getattr(type(family), name)
                for code in getattr(function, "_handles", ()):
                    self.register(code, getattr(family, name))
                for code in getattr(function, "_handles_batch", ()):
                    self.batch[int(code)] = getattr(family, name)

    def register(self, code: int, processor: Processor) -> None:
        """Let `processor` answer `code`."""
        if int(code) in self.single:
            raise ValueError(f"request code {code} has two processors")
        self.single[int(code)] = processor

    @property
    def codes(self) -> set[int]:
        """Codes that are answered with more than "not supported"."""
        return set(self.single) | set(self.batch)

    def answer(self, peer: Peer, request: Command) -> Reply:
        """The reply to one request; errors become their response codes (wire sheet 1.8)."""
        processor = self.single.get(request.code)
        if processor is None:
            return request.reply(
                code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                remark=f"request type {request.code} is not supported",
            )
        try:
            return processor(peer, request)
        except Exception as exc:  # noqa: BLE001 - whatever fails, the peer hears of it
            return error_reply(peer, request, exc)

    def answer_batch(self, peer: Peer, requests: Sequence[Command]) -> Sequence[Reply]:
        """Replies to consecutive requests of one code that has a batch processor."""
        try:
            return self.batch[requests[0].code](peer, requests)
        except Exception as exc:  # noqa: BLE001 - whatever fails, the peer hears of it
            return [error_reply(peer, request, exc) for request in requests]


def error_reply(peer: Peer, request: Command, exc: Exception) -> Command:
    """What a peer hears of an exception; a bug in us is logged with its traceback."""
    code = getattr(exc, "code", 0)
    if isinstance(exc, PocketMQError) and isinstance(code, int) and code > 0:
        log.debug("request.refused", peer=peer.address, request=str(request), reason=str(exc))
        return request.reply(code=code, remark=_sendable(str(exc)))
    log.error("request.failed", peer=peer.address, request=str(request), exc_info=exc)
    remark = _sendable(f"{type(exc).__name__}: {exc}")
    return request.reply(code=ResponseCode.SYSTEM_ERROR, remark=remark)


def _sendable(text: str) -> str:
    """Half a surrogate pair, which UTF-8 cannot write, as its escape."""
    return text.encode("utf-8", "backslashreplace").decode()
