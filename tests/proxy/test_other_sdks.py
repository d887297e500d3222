"""RocketMQ's official Go, Node, Java and Rust SDKs through the proxy, as they are published."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import pytest

from support.sdk_programs import run
from support.sdk_rows import GO, JAVA, NEEDS, NODE, RUST, Sdk, prepare
from support.sdk_world import ASKING_SOON, sdk_world

BROKER: Final = ("--recall-message-enable", *ASKING_SOON)
"""Options of the broker."""

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.timeout(1_300),  # the first run on a machine fetches and builds
]


@pytest.mark.parametrize(
    "sdk",
    [
        pytest.param(GO, id=GO.name, marks=NEEDS[GO.name]),
        pytest.param(NODE, id=NODE.name, marks=NEEDS[NODE.name]),
        pytest.param(JAVA, id=JAVA.name, marks=NEEDS[JAVA.name]),
        # To build it takes minutes.
        pytest.param(RUST, id=RUST.name, marks=[NEEDS[RUST.name], pytest.mark.nightly]),
    ],
)
async def test_an_sdk_does_every_row_of_its_table(sdk: Sdk, tmp_path: Path) -> None:
    words = await asyncio.to_thread(sdk.command, tmp_path)
    async with sdk_world(*BROKER) as (where, admin):
        await prepare(admin)
        assert (await asyncio.to_thread(run, *words, where)).splitlines() == sdk.told
    if sdk.told_of_priorities:
        # Priorities came with 5.4.
        async with sdk_world("--profile", "5.5") as (where, admin):
            await admin.create_topic("urgent", message_type="PRIORITY")
            said = await asyncio.to_thread(run, *words, where, "priority")
            assert said.splitlines() == sdk.told_of_priorities
