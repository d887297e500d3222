"""A 5.x nameserver for each test that asks for one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from support.nameserver_rig import NameServerRig, nameserver


@pytest.fixture
async def rig() -> AsyncIterator[NameServerRig]:
    """A nameserver under 5.x rules, with default options."""
    async with nameserver() as rig:
        yield rig
