"""Which limit a request's body has, and that a code is answered by one processor."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from pocketmq.protocol.budget import DEFAULT_BUDGET
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import FLAG_ONEWAY, FLAG_RESPONSE, Command
from pocketmq.protocol.dispatch import Dispatcher, Peer
from pocketmq.protocol.headers.offsets import GetMaxOffsetRequestHeader


class Somebody:
    """All that a refusal asks of a peer."""

    address = "10.0.0.1:7"


PEER = cast("Peer", Somebody())

SMALL = replace(DEFAULT_BUDGET, settings_bytes=10, registration_bytes=20, body_bytes=30)


def answer(_peer: Peer, request: Command) -> Command:
    return request.reply()


@pytest.mark.parametrize(
    ("code", "most"),
    [
        (RequestCode.UPDATE_BROKER_CONFIG, 10),
        (RequestCode.UPDATE_NAMESRV_CONFIG, 10),
        (RequestCode.REGISTER_BROKER, 20),
        (RequestCode.HEART_BEAT, 30),
        (RequestCode.GET_MAX_OFFSET, None),
    ],
)
def test_a_body_may_be_as_long_as_the_budget_says(code: RequestCode, most: int | None) -> None:
    dispatcher = Dispatcher(budget=lambda: SMALL)
    dispatcher.register(code, answer)

    def status(size: int) -> int:
        reply = dispatcher.process(PEER, Command(code, body=bytes(size)))
        assert isinstance(reply, Command)
        return reply.code

    if most is None:
        assert status(1_000) == ResponseCode.SUCCESS
    else:
        assert (status(most), status(most + 1) == ResponseCode.SUCCESS) == (0, False)


def test_a_code_has_one_processor_of_each_kind() -> None:
    dispatcher = Dispatcher()
    dispatcher.register(RequestCode.HEART_BEAT, answer)
    with pytest.raises(ValueError, match="already has a processor"):
        dispatcher.register(RequestCode.HEART_BEAT, answer)
    dispatcher.register_batch(RequestCode.SEND_MESSAGE, lambda _peers, requests: [None])
    with pytest.raises(ValueError, match=r"SEND_MESSAGE.* already has a batch processor"):
        dispatcher.register_batch(RequestCode.SEND_MESSAGE, lambda _peers, requests: [None])


def test_a_command_knows_what_it_is_by_its_flag() -> None:
    plain, response = Command(10), Command(0, flag=FLAG_RESPONSE)
    assert (plain.is_response, plain.is_oneway) == (False, False)
    assert (response.is_response, response.is_oneway) == (True, False)
    oneway = Command(10, flag=FLAG_ONEWAY)
    assert (oneway.is_response, oneway.is_oneway) == (False, True)


def test_a_body_of_parts_is_one_view() -> None:
    assert Command(10, body=[b"one", b"two"]).body_view == b"onetwo"
    assert Command(10, body=b"one").body_view == b"one"


def test_the_fields_of_a_command_are_those_of_its_header() -> None:
    header = GetMaxOffsetRequestHeader(topic="T", queue_id=3)
    command = Command(30, header)
    assert command.header(GetMaxOffsetRequestHeader) is header
    assert (command.fields["topic"], command.fields["queueId"]) == ("T", 3)
    assert Command(30, {"AccessKey": "a"}).fields == {"AccessKey": "a"}
    assert Command(30).fields == {}
