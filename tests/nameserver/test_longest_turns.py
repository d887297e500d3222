"""No request to a full nameserver holds its loop for long (`cost.SLOWEST_UNITS`).

It knows as many routes, brokers and key-value entries as the budget allows; then each request that
it answers comes as large as its declaration and the budget allow.
"""

from __future__ import annotations

import pytest

from support.broker_rig import FakePeer
from support.full_nameserver import KNOWN, codes_of, fill
from support.nameserver_rig import nameserver
from support.turns import too_slow

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


async def test_the_largest_of_every_request_to_a_full_nameserver() -> None:
    async with nameserver() as rig:
        fill(rig)
        assert rig.server.table.queues.count > 190_000
        asked, slow = too_slow(rig.server.dispatcher, FakePeer(), codes_of(rig), KNOWN)
        assert slow == []
        assert asked > 200
