"""Which processor answers which request code, and how a peer is told of a failure.

A processor is a synchronous function: it gets the peer and the request and returns the reply, or
None when it will answer later through `Peer.reply` (a held pull, a message waiting for the disk) or
never (one-way). There is no task per request. Processors of the hottest codes take the requests
that came in one turn of the loop together, whoever sent them (`handles_batch`): a store is then
appended to once for many peers that each wait for their one answer.

    class Views:
        @handles(RequestCode.VIEW_MESSAGE_BY_ID)
        def view(self, peer: Peer, request: Command) -> Reply:
            ...

    dispatcher = Dispatcher()
    dispatcher.add(Views())          # finds the marked methods

What becomes of the requests of one turn:

    from   request                     who answers
    a      SEND_MESSAGE_V2 (310)       `handles_batch`: one call gets both sends,
    b      SEND_MESSAGE_V2 (310)       and returns two replies
    b      PULL_MESSAGE (11)           `handles`: None, answered when a message comes
    a      VIEW_MESSAGE_BY_ID (33)     `handles`: raises; code and text of the error are the answer
    a      9999                        nobody: REQUEST_CODE_NOT_SUPPORTED (3)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import structlog

from pocketmq.protocol.budget import BudgetSource, default_budget
from pocketmq.protocol.codes import RequestCode, ResponseCode, request_name
from pocketmq.protocol.command import Body, Command, Encoding
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.header import REQUEST_HEADERS, Header
from pocketmq.protocol.peer_memory import PeerMemory
from pocketmq.protocol.releases import Knows, everything
from pocketmq.runtime.errors import PocketMQError

log = structlog.get_logger()


class Addressed(Protocol):
    """Whoever is told of in a log."""

    address: str
    """`ip:port` of the other end."""


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

    def reply_all(self, requests: Sequence[Command], replies: Sequence[Reply]) -> None:
        """`reply` to several at once, in one write that does not wait."""
        ...

    def answer(self, requests: Sequence[Command], replies: Sequence[Reply]) -> None:
        """Answer requests that were gathered, in one write; None is answered later."""
        ...

    def oneway(self, header: Header, body: Body = b"") -> None:
        """Send a request that wants no answer."""
        ...

    def keep(self, delta_bytes: int) -> None:
        """So much more, or less, is held for this peer: held pulls count as its memory."""
        ...

    def close(self) -> None:
        """Close the connection after what is buffered has been sent."""
        ...


Reply: TypeAlias = Command | bytes | None
"""A response, a response already framed, or nothing (yet)."""

Processor: TypeAlias = Callable[[Any, Command], Reply]
BatchProcessor: TypeAlias = Callable[[Sequence[Any], Sequence[Command]], Sequence[Reply]]
Defer: TypeAlias = Callable[[Callable[[], None]], object]
"""Calls a function when this turn of the event loop is over."""

_SETTINGS = (
    RequestCode.UPDATE_BROKER_CONFIG,
    RequestCode.UPDATE_NAMESRV_CONFIG,
    RequestCode.UPDATE_CONTROLLER_CONFIG,
)
GATHER_LIMIT = 64
"""When so many requests of batch processors are gathered, they are processed: their bytes should
still be in the processor's cache."""


class Reader(Protocol):
    """A connection from which bytes were read."""

    address: str

    def take(self, data: bytes) -> None:
        """Process them."""
        ...

    def abort(self) -> None:
        """End the connection at once."""
        ...


FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def handles(*codes: int) -> Callable[[FunctionT], FunctionT]:
    """Mark a method as the processor of these request codes; see `Dispatcher.add`."""

    def mark(function: FunctionT) -> FunctionT:
        function.__dict__["_handles"] = codes
        return function

    return mark


def handles_batch(*codes: int) -> Callable[[FunctionT], FunctionT]:
    """Mark a method that takes the requests of one of these codes from one turn of the loop.

    It gets the peer of each request, and the requests in the order of their arrival; it returns one
    reply per request, in the same order, and maps its own errors (`error_reply`).
    """

    def mark(function: FunctionT) -> FunctionT:
        function.__dict__["_handles_batch"] = codes
        return function

    return mark


class Dispatcher:
    """The table request code -> processor of one role.

    Args:
        budget: how long structured bodies of requests may be.
        knows: codes that are not known are answered as if they had no processor.
    """

    def __init__(self, budget: BudgetSource = default_budget, knows: Knows = everything) -> None:
        self.budget = budget
        self.peers = PeerMemory(budget)
        """What they all cost, at whichever port they came."""
        self._knows = knows
        self._body_limit: dict[int, str] = {}
        """Code -> option that bounds its body."""
        self.single: dict[int, Processor] = {}
        self.batch: dict[int, BatchProcessor] = {}
        self._shares: dict[int, list[tuple[Peer, list[Command]]]] = {}
        """Code -> gathered requests, neighbours of one peer together."""
        self._gathered = 0
        self.http2: Callable[[Any], None] | None = None
        """Takes over the channel of a peer that speaks HTTP/2; None: it is hung up on."""
        self.waits = False
        """Whether requests wait for the end of this turn: then reads may wait as well."""
        self._reads: deque[tuple[Reader, bytes]] = deque()

    def add(self, *families: object) -> None:
        """Register every method that `handles` or `handles_batch` marked on these objects.

        Raises:
            ValueError: two processors claim one code.
        """
        for family in families:
            # Look names up in the class: `getattr` on the object would run its properties.
            for name in dir(type(family)):
                function = getattr(type(family), name)
                for code in getattr(function, "_handles", ()):
                    self.register(code, getattr(family, name))
                for code in getattr(function, "_handles_batch", ()):
                    self.register_batch(code, getattr(family, name))

    def require(self, codes: Iterable[int]) -> None:
        """Check at start-up that what is listed as handled is handled.

        Args:
            codes: Request codes that must have a processor by now.

        Raises:
            ValueError: some have none.
        """
        missing = [request_name(code) for code in sorted(set(codes) - self.codes)]
        if missing:
            raise ValueError(
                f"these requests are listed as handled, but have no processor: {', '.join(missing)}"
            )

    def register(self, code: int, processor: Processor) -> None:
        """Let `processor` answer `code`, if it is known."""
        # The imitated release does not know this code, so it stays unsupported.
        if not self._knows(int(code)):
            return
        if int(code) in self.single:
            raise ValueError(f"request code {code} already has a processor, and may have only one")
        self.single[int(code)] = processor
        header = REQUEST_HEADERS.get(int(code))
        # Choose the limit of the budget that bounds this request's body.
        if code in _SETTINGS:
            self._body_limit[int(code)] = "settings_bytes"
        elif header is not None and header.BODY is not None:
            is_registration = code == RequestCode.REGISTER_BROKER
            name = "registration_bytes" if is_registration else "body_bytes"
            self._body_limit[int(code)] = name

    def register_batch(self, code: int, processor: BatchProcessor) -> None:
        """Let `processor` answer the requests of `code` that came in one turn, if it is known."""
        if not self._knows(int(code)):
            return
        if int(code) in self.batch:
            raise ValueError(
                f"request code {request_name(code)} already has a batch processor, and may have "
                "only one"
            )
        self.batch[int(code)] = processor

    @property
    def codes(self) -> set[int]:
        """Codes that are answered with more than "not supported"."""
        return set(self.single) | set(self.batch)

    def process(self, peer: Peer, request: Command) -> Reply:
        """The reply to one request; errors become their response codes (E-8)."""
        processor = self.single.get(request.code)
        if processor is None:
            return request.reply(
                code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                remark=f"request type {request.code} is not supported",
            )
        try:
            limit = self._body_limit.get(request.code)
            if limit is not None:
                self.budget().check(limit, len(request.body), "bytes of the request's body")
            return processor(peer, request)
        except Exception as exc:  # noqa: BLE001 - the peer is told of any failure
            return error_reply(peer, request, exc)

    def gather(self, peer: Peer, requests: list[Command], defer: Defer) -> None:
        """Have requests of one batch code answered with those of other peers from this turn.

        Many are processed at once, few when the turn is over. The answers go to `Peer.answer`.
        Codes of different processors are gathered beside each other, and lose their order: a
        producer of transactions sends halves and ends in turn. RocketMQ has a thread pool for each.

        Args:
            peer: Who sent them.
            requests: One at least, all of one code. The list is kept, and may grow.
            defer: Calls back when this turn of the loop is over.
        """
        code = requests[0].code
        shares = self._shares.get(code)
        if shares is None:
            # Codes with the same processor, such as V1 and V2 sends, are processed in order of
            # arrival.
            if any(self.batch[other] == self.batch[code] for other in self._shares):
                self.process_gathered()
            # A few requests wait until the turn ends, as more may come; many are processed at once.
            if not self.waits and len(requests) < GATHER_LIMIT:
                self.waits = True
                defer(self._turn_ended)
            shares = self._shares[code] = []
        if shares and shares[-1][0] is peer:
            shares[-1][1].extend(requests)  # one write answers them all
        else:
            shares.append((peer, requests))
        self._gathered += len(requests)
        if self._gathered >= GATHER_LIMIT:
            self.process_gathered()

    def put_off(self, reader: Reader, data: bytes) -> None:
        """Keep bytes until this turn is over, while `waits` is set.

        The reads of many connections are then processed one after the other: between two calls of
        the system, each of them would find the processor's caches full of other things.

        Args:
            reader: Takes them then.
            data: A short read: all that wait are held in memory.
        """
        self._reads.append((reader, data))
        if len(self._reads) >= GATHER_LIMIT:
            self.process_reads()

    def process_reads(self) -> None:
        """Process what was put off so far, if anything."""
        reads = self._reads
        while reads:
            reader, data = reads.popleft()
            try:
                reader.take(data)
            except Exception as exc:  # as a loop does, whose other reads go on
                log.error("read.failed", peer=reader.address, exc_info=exc)
                reader.abort()

    def _turn_ended(self) -> None:
        self.process_reads()
        self.waits = False  # not before: what was just read is answered now, too
        self.process_gathered()

    def process_gathered(self) -> None:
        """Answer what was gathered so far, if anything."""
        # Reset first: a processor may cause new requests to be gathered.
        gathered, self._shares, self._gathered = self._shares, {}, 0
        for shares in gathered.values():
            peers: list[Peer] = []
            requests: list[Command] = []
            for peer, share in shares:
                peers += [peer] * len(share)
                requests += share
            replies = self.process_batch(peers, requests)
            at = 0
            for peer, share in shares:
                end = at + len(share)
                peer.answer(share, replies[at:end])
                at = end

    def process_batch(self, peers: Sequence[Peer], requests: Sequence[Command]) -> Sequence[Reply]:
        """Replies to requests of one code that has a batch processor."""
        try:
            replies = self.batch[requests[0].code](peers, requests)
            # With another number, replies would go to the wrong requests.
            if len(replies) != len(requests):
                raise ValueError(
                    f"the batch processor returned {len(replies)} replies to {len(requests)} "
                    "requests, but must return one reply to each request"
                )
        except Exception as exc:  # noqa: BLE001 - whatever fails, the peers hear of it
            return [
                error_reply(peer, request, exc)
                for peer, request in zip(peers, requests, strict=True)
            ]
        return replies


def error_reply(peer: Addressed, request: Command, exc: Exception) -> Command:
    """The reply to a request that raised; a bug of ours is logged with its traceback."""
    code = getattr(exc, "code", 0)
    # An error with a code is a deliberate refusal; any other is a bug and is logged.
    if isinstance(exc, PocketMQError) and isinstance(code, int) and code > 0:
        log.debug("request.refused", peer=peer.address, request=str(request), reason=str(exc))
        header = getattr(exc, "header", None) or _header_of_refusals(request, exc)
        return request.reply(header, code=code, remark=_sendable(str(exc)))
    log.error("request.failed", peer=peer.address, request=str(request), exc_info=exc)
    remark = _sendable(f"{type(exc).__name__}: {exc}")
    return request.reply(code=ResponseCode.SYSTEM_ERROR, remark=remark)


def _header_of_refusals(request: Command, exc: PocketMQError) -> Header | None:
    """The header that an answer of this request has whatever its code; None if there is none."""
    asked = REQUEST_HEADERS.get(request.code)
    if asked is None or asked.RESPONSE is None or isinstance(exc, BadRequestError):
        return None
    return asked.RESPONSE() if asked.RESPONSE.ON_EVERY_ANSWER else None


def _sendable(text: str) -> str:
    """Half a surrogate pair, which UTF-8 cannot write, as its escape."""
    return text.encode("utf-8", "backslashreplace").decode()
