"""Deadlines of requests that follow each other closely."""

from __future__ import annotations

import pytest

from pocketmq.protocol.errors import RequestTimeoutError
from pocketmq.protocol.transport.tcp import TcpNetwork
from support.eventually import PATIENCE_S
from support.wire_pair import Echo, Word, connected, served


async def test_a_request_beside_one_whose_time_is_up_is_sent_all_the_same() -> None:
    """The timer's moment has come and it has not fired yet when the second request is made."""
    network = TcpNetwork()
    async with (
        served(network, Echo().dispatcher) as (_, address),
        connected(network, address) as channel,
    ):
        late = channel.request(Word(word="late"), timeout_s=0.0)
        reply = await channel.request(Word(word="soon"), timeout_s=PATIENCE_S)
        assert reply.header(Word).word == "soon"
        with pytest.raises(RequestTimeoutError):
            await late
