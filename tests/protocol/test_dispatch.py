"""Code -> processor, and what a peer hears when one fails (E-8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import pytest

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import (
    GATHER_LIMIT,
    Dispatcher,
    Peer,
    Reply,
    handles,
    handles_batch,
)
from pocketmq.protocol.errors import BadRequestError, BrokerError, IllegalMessageError
from support.own_logs import own_logs


class Somebody:
    """A peer that remembers what it was answered."""

    def __init__(self, address: str = "10.0.0.1:7") -> None:
        self.address = address
        self.heard: list[list[tuple[int, str | None]]] = []
        """Opaque and remark of what was answered, one list per write."""

    def answer(self, requests: Sequence[Command], replies: Sequence[Reply]) -> None:
        assert len(requests) == len(replies)
        self.heard.append([(r.opaque, r.remark) for r in replies if isinstance(r, Command)])


PEER = cast("Peer", Somebody())


class Turn:
    """What was put off until the turn of the loop is over."""

    def __init__(self) -> None:
        self.later: list[Callable[[], None]] = []

    def defer(self, callback: Callable[[], None]) -> None:
        self.later.append(callback)

    def end(self) -> None:
        later, self.later = self.later, []
        for callback in later:
            callback()


def commands(code: int, *opaques: int) -> list[Command]:
    return [Command(code, opaque=opaque) for opaque in opaques]


class Family:
    """Processors under test."""

    @handles(1, 2)
    def both(self, _peer: Peer, request: Command) -> Reply:
        return request.reply(remark=str(request.code))

    @handles(3)
    def later(self, _peer: Peer, _request: Command) -> Reply:
        return None

    @handles(4)
    def framed(self, _peer: Peer, _request: Command) -> Reply:
        return b"already a frame"

    @handles_batch(5)
    def together(self, peers: Sequence[Peer], requests: Sequence[Command]) -> Sequence[Reply]:
        if len(requests) == 3:
            raise BadRequestError("too many", code=ResponseCode.SYSTEM_BUSY)
        if len(requests) == 4:
            return []
        return [
            request.reply(remark=peer.address)
            for peer, request in zip(peers, requests, strict=True)
        ]

    @handles_batch(6, 7)
    def others(self, _peers: Sequence[Peer], requests: Sequence[Command]) -> Sequence[Reply]:
        return [request.reply() for request in requests]

    def unmarked(self, _peer: Peer, request: Command) -> Reply:
        return request.reply()


@pytest.fixture
def dispatcher() -> Dispatcher:
    """A table with one family."""
    dispatcher = Dispatcher()
    dispatcher.add(Family())
    return dispatcher


def code_of(reply: Reply) -> int:
    assert isinstance(reply, Command)
    return reply.code


def test_every_marked_method_answers_its_codes(dispatcher: Dispatcher) -> None:
    assert dispatcher.codes == {1, 2, 3, 4, 5, 6, 7}
    for code in (1, 2):
        reply = dispatcher.process(PEER, Command(code, opaque=9))
        assert isinstance(reply, Command)
        assert (reply.remark, reply.opaque, reply.is_response) == (str(code), 9, True)
    assert dispatcher.process(PEER, Command(3)) is None
    assert dispatcher.process(PEER, Command(4)) == b"already a frame"


def test_a_code_has_one_processor(dispatcher: Dispatcher) -> None:
    with pytest.raises(ValueError, match="already has a processor"):
        dispatcher.add(Family())


def test_an_unknown_code_is_named_in_the_answer(dispatcher: Dispatcher) -> None:
    reply = dispatcher.process(PEER, Command(99))
    assert isinstance(reply, Command)
    assert reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert "99" in (reply.remark or "")


@pytest.mark.parametrize(
    ("error", "code", "events"),
    [
        (BadRequestError("queueId is missing"), 1, ["request.refused"]),
        (BadRequestError("x", code=ResponseCode.TOPIC_NOT_EXIST), 17, ["request.refused"]),
        (BrokerError(16, "not writable"), 16, ["request.refused"]),
        (IllegalMessageError("too long"), 13, ["request.refused"]),
        (KeyError("a bug of ours"), 1, ["request.failed"]),
    ],
)
def test_an_error_becomes_its_code_and_only_a_bug_is_logged_as_one(
    error: Exception, code: int, events: list[str]
) -> None:
    def processor(_peer: Peer, _request: Command) -> Reply:
        raise error

    dispatcher = Dispatcher()
    dispatcher.register(7, processor)
    with own_logs() as logs:
        reply = dispatcher.process(PEER, Command(7))
    assert code_of(reply) == code
    assert [line["event"] for line in logs] == events


def test_a_batch_is_answered_one_by_one_also_when_it_fails(dispatcher: Dispatcher) -> None:
    two = dispatcher.process_batch([PEER] * 2, commands(5, 0, 1))
    assert [code_of(reply) for reply in two] == [0, 0]
    three = dispatcher.process_batch([PEER] * 3, commands(5, 0, 1, 2))
    assert [code_of(reply) for reply in three] == [ResponseCode.SYSTEM_BUSY] * 3
    assert [reply.opaque for reply in three if isinstance(reply, Command)] == [0, 1, 2]
    with own_logs() as logs:
        four = dispatcher.process_batch([PEER] * 4, commands(5, 0, 1, 2, 3))
    assert [code_of(reply) for reply in four] == [ResponseCode.SYSTEM_ERROR] * 4
    assert "0 replies to 4 requests" in str(logs[0]["exc_info"])


def test_peers_that_ask_in_one_turn_are_answered_from_one_batch(dispatcher: Dispatcher) -> None:
    turn, peers = Turn(), [Somebody("a"), Somebody("b"), Somebody("c")]
    dispatcher.gather(cast("Peer", peers[0]), commands(5, 1), turn.defer)
    dispatcher.gather(cast("Peer", peers[1]), commands(5, 2), turn.defer)
    assert [peer.heard for peer in peers] == [[], [], []]
    assert len(turn.later) == 1
    turn.end()
    assert [peer.heard for peer in peers] == [[[(1, "a")]], [[(2, "b")]], []]
    dispatcher.gather(cast("Peer", peers[2]), commands(5, 3, 4), turn.defer)
    turn.end()
    assert peers[2].heard == [[(3, "c"), (4, "c")]]
    dispatcher.process_gathered()
    assert peers[2].heard == [[(3, "c"), (4, "c")]]


def test_codes_of_two_processors_are_gathered_beside_each_other(dispatcher: Dispatcher) -> None:
    turn, somebody = Turn(), Somebody("a")
    peer = cast("Peer", somebody)
    for opaque in range(4):
        dispatcher.gather(peer, commands(5 + opaque % 2, opaque), turn.defer)
    assert somebody.heard == []
    assert len(turn.later) == 1
    turn.end()
    assert [[opaque for opaque, _ in write] for write in somebody.heard] == [[0, 2], [1, 3]]


def test_codes_of_one_processor_keep_their_order(dispatcher: Dispatcher) -> None:
    turn, somebody = Turn(), Somebody("a")
    peer = cast("Peer", somebody)
    dispatcher.gather(peer, commands(6, 1), turn.defer)
    dispatcher.gather(peer, commands(7, 2), turn.defer)
    assert somebody.heard == [[(1, None)]]
    dispatcher.gather(peer, commands(6, 3), turn.defer)
    assert somebody.heard == [[(1, None)], [(2, None)]]
    turn.end()
    assert somebody.heard == [[(1, None)], [(2, None)], [(3, None)]]


def test_many_requests_wait_for_no_more(dispatcher: Dispatcher) -> None:
    turn, somebody = Turn(), Somebody("a")
    peer = cast("Peer", somebody)
    dispatcher.gather(peer, commands(5, *range(GATHER_LIMIT)), turn.defer)
    assert [len(write) for write in somebody.heard] == [GATHER_LIMIT]
    assert turn.later == []
    for opaque in range(GATHER_LIMIT):
        dispatcher.gather(peer, commands(5, opaque), turn.defer)
    assert [len(write) for write in somebody.heard[1:]] == [GATHER_LIMIT]
    turn.end()
    assert len(somebody.heard) == 2


class Reads:
    """A connection whose reads are each a request of code 5."""

    def __init__(self, dispatcher: Dispatcher, peer: Somebody, turn: Turn) -> None:
        self._dispatcher, self._peer, self._turn = dispatcher, cast("Peer", peer), turn
        self.address = peer.address
        self.is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True

    def take(self, data: bytes) -> None:
        self._dispatcher.gather(self._peer, commands(5, int(data)), self._turn.defer)


def test_reads_of_a_turn_in_which_requests_wait_are_stored_with_them(
    dispatcher: Dispatcher,
) -> None:
    turn, peers = Turn(), [Somebody("a"), Somebody("b")]
    assert not dispatcher.waits, "a read that comes alone is processed at once"
    dispatcher.gather(cast("Peer", peers[0]), commands(5, 1), turn.defer)
    assert dispatcher.waits
    dispatcher.put_off(Reads(dispatcher, peers[1], turn), b"2")
    assert [peer.heard for peer in peers] == [[], []]
    turn.end()
    assert [peer.heard for peer in peers] == [[[(1, "a")]], [[(2, "b")]]]
    assert not dispatcher.waits
    assert turn.later == []


def test_a_read_that_cannot_be_processed_ends_its_connection_and_no_other(
    dispatcher: Dispatcher,
) -> None:
    turn, somebody = Turn(), Somebody("a")
    good, bad = (Reads(dispatcher, somebody, turn) for _ in range(2))
    good.take(b"1")
    dispatcher.put_off(bad, b"no number")
    dispatcher.put_off(good, b"2")
    with own_logs() as logs:
        turn.end()
    assert [line["event"] for line in logs] == ["read.failed"]
    assert (good.is_aborted, bad.is_aborted) == (False, True)
    assert [[opaque for opaque, _ in write] for write in somebody.heard] == [[1, 2]]


def test_many_reads_wait_for_no_more(dispatcher: Dispatcher) -> None:
    turn, somebody = Turn(), Somebody("a")
    reads = Reads(dispatcher, somebody, turn)
    reads.take(b"0")
    for opaque in range(1, 1 + GATHER_LIMIT):
        dispatcher.put_off(reads, b"%d" % opaque)
    assert [len(write) for write in somebody.heard] == [GATHER_LIMIT]
    turn.end()
    [first, last] = somebody.heard
    assert [opaque for opaque, _ in first + last] == list(range(1 + GATHER_LIMIT))


def test_a_code_that_is_listed_as_handled_needs_a_processor() -> None:
    dispatcher = Dispatcher()
    dispatcher.add(Family())
    dispatcher.require({1, 2, 3, 4, 5})
    with pytest.raises(ValueError, match=r"but have no processor: CHECK_TRANSACTION_STATE \(39\),"):
        dispatcher.require({1, 40, 39})
