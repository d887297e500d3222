"""What `Admin` asks about subscription groups."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pocketmq.client import Admin
from pocketmq.client.admin.masters import Masters
from pocketmq.protocol.header import Header
from support.client_rig import client_rig


@pytest.mark.parametrize("clean", [False, True])
async def test_brokers_of_every_release_hear_whether_offsets_go(
    monkeypatch: pytest.MonkeyPatch, clean: bool
) -> None:  # M-15
    told: list[Header] = []

    async def masters(_self: Masters) -> dict[str, str]:
        return {"a": "127.0.0.1:1"}

    async def tell(_self: Masters, _masters: Mapping[str, str], header: Header) -> None:
        told.append(header)

    monkeypatch.setattr(Masters, "all", masters)
    monkeypatch.setattr(Masters, "tell", tell)
    async with client_rig() as rig, Admin(**rig.options) as admin:
        await admin.delete_group("readers", clean_offset=clean)
    [texts] = [header.to_text() for header in told]
    # 4.9 reads `removeOffset` and 5.x `cleanOffset`; neither looks at the other's.
    assert [texts.get(name) == "true" for name in ("removeOffset", "cleanOffset")] == [clean] * 2
