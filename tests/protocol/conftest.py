"""What tests of channels and of bad input share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.network import Network
from pocketmq.protocol.transport.tcp import TcpNetwork
from support.wire_pair import NETWORKS, Echo, EchoAt, served


@pytest.fixture(params=list(NETWORKS))
def network(request: pytest.FixtureRequest) -> Network:
    """Each test runs over memory and over TCP."""
    return NETWORKS[request.param]()


@pytest.fixture
async def echo() -> AsyncIterator[EchoAt]:
    """An echo over TCP, its address, and the channels that it accepted."""
    echo, accepted = Echo(), list[Channel]()
    async with served(TcpNetwork(), echo.dispatcher, on_open=accepted.append) as (_, address):
        yield echo, address, accepted
