"""What all tests of a running broker share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pocketmq.protocol.command import Encoding
from support.broker_rig import BrokerRig, Voice, running_broker


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[BrokerRig]:
    """A broker of profile 5.x with its defaults."""
    async with running_broker(tmp_path) as rig:
        yield rig


@pytest.fixture(params=list(Encoding), ids=lambda encoding: encoding.name.lower())
def encoding(request: pytest.FixtureRequest) -> Encoding:
    """Each of the three header encodings."""
    chosen: Encoding = request.param
    return chosen


@pytest.fixture
async def voice(rig: BrokerRig) -> Voice:
    """A client that speaks msgpack."""
    return await rig.voice()
