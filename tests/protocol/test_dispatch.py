"""Code -> processor, and what a peer hears when one fails (wire sheet 1.8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest
from structlog.testing import capture_logs

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Dispatcher, Peer, Reply, handles, handles_batch
from pocketmq.protocol.errors import BadRequestError, BrokerError, IllegalMessageError


class Somebody:
    """A peer of which only the address is asked."""

    address = "10.0.0.1:7"


PEER = cast("Peer", Somebody())


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
    def together(self, _peer: Peer, requests: Sequence[Command]) -> Sequence[Reply]:
        if len(requests) > 2:
            raise BadRequestError("too many", code=ResponseCode.SYSTEM_BUSY)
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
    assert dispatcher.codes == {1, 2, 3, 4, 5}
    for code in (1, 2):
        reply = dispatcher.answer(PEER, Command(code, opaque=9))
        assert isinstance(reply, Command)
        assert (reply.remark, reply.opaque, reply.is_response) == (str(code), 9, True)
    assert dispatcher.answer(PEER, Command(3)) is None
    assert dispatcher.answer(PEER, Command(4)) == b"already a frame"


def test_a_code_has_one_processor(dispatcher: Dispatcher) -> None:
    with pytest.raises(ValueError, match="two processors"):
        dispatcher.add(Family())


def test_an_unknown_code_is_named_in_the_answer(dispatcher: Dispatcher) -> None:
    reply = dispatcher.answer(PEER, Command(99))
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
    with capture_logs() as logs:
        reply = dispatcher.answer(PEER, Command(7))
    assert code_of(reply) == code
    assert [line["event"] for line in logs] == events


def test_a_batch_is_answered_one_by_one_also_when_it_fails(dispatcher: Dispatcher) -> None:
    two = dispatcher.answer_batch(PEER, [Command(5), Command(5)])
    assert [code_of(reply) for reply in two] == [0, 0]
    three = dispatcher.answer_batch(PEER, [Command(5, opaque=n) for n in range(3)])
    assert [code_of(reply) for reply in three] == [ResponseCode.SYSTEM_BUSY] * 3
    assert [reply.opaque for reply in three if isinstance(reply, Command)] == [0, 1, 2]
