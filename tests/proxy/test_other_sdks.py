"""RocketMQ's official Go, Node, Java and Rust SDKs through the proxy, as they are published."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Final

import pytest

from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.scalars import MessageType
from support.sdk_programs import go_command, java_command, node_command, run, rust_command
from support.sdk_world import ASKING_SOON, RETRIED_SOON, sdk_world

SDKS: Final = Path(__file__).with_name("sdks")
BROKER: Final = ("--recall-message-enable", *ASKING_SOON)
"""Options of the broker."""
TOPICS: Final[dict[str, MessageType]] = {
    "orders": "NORMAL", "payments": "FIFO", "later": "DELAY", "deals": "TRANSACTION",
    "retried": "NORMAL",
}  # fmt: skip

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.timeout(1_300),  # the first run on a machine fetches and builds
]


async def said(*words: str | Path) -> list[str]:
    """What a program of an SDK prints, with a cluster of its topics and groups."""
    async with sdk_world(*BROKER) as (where, admin):
        for topic, kind in TOPICS.items():
            await admin.create_topic(topic, message_type=kind)
        await admin.create_group(
            SubscriptionGroupConfig(group_name="fifo", consume_message_orderly=True)
        )
        await admin.create_group(
            SubscriptionGroupConfig(
                group_name="retried", retry_max_times=1, group_retry_policy=RETRIED_SOON
            )
        )
        return (await asyncio.to_thread(run, *words, where)).splitlines()


async def said_of_priorities(*words: str | Path) -> list[str]:
    """What it prints of a topic whose messages have priorities, which came with 5.4."""
    async with sdk_world("--profile", "5.5") as (where, admin):
        await admin.create_topic("urgent", message_type="PRIORITY")
        return (await asyncio.to_thread(run, *words, where, "priority")).splitlines()


@pytest.mark.go
async def test_the_go_sdk_does_every_row_of_its_table(tmp_path: Path) -> None:
    words = await asyncio.to_thread(go_command, SDKS / "go" / "main.go", tmp_path)
    assert await said(*words) == [
        "simple one 2 new",
        "sql [two]",
        "push [one two zero]",
        "fifo [1 2 3 4]",
        "transactions [asked commit] map[asked:true forgotten:true]",
        "retried bad bad true",
        "dead [bad]",
        "delayed [due] true",
    ]
    assert await said_of_priorities(*words) == ["priority 3 2 1"]


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is missing")
async def test_the_node_sdk_does_every_row_of_its_table() -> None:
    words = await asyncio.to_thread(node_command, SDKS / "node" / "main.cjs")
    assert await said(*words) == [
        "simple one 2 new",
        "sql two",
        "push one two zero",
        "fifo 1 2 3 4",
        "transactions asked commit",
        "asked asked forgotten",
        "retried bad bad",
        "dead bad",
        "delayed due true",
    ]
    assert await said_of_priorities(*words) == ["priority 3 2 1"]


@pytest.mark.java
async def test_the_java_sdk_does_every_row_of_its_table(tmp_path: Path) -> None:
    words = await asyncio.to_thread(java_command, SDKS / "java" / "Rows.java", tmp_path)
    assert await said(*words) == [
        "simple one 2 new",
        "sql [two]",
        "push [one, two, zero]",
        "fifo [1, 2, 3, 4]",
        "transactions [asked, commit] [asked, forgotten]",
        "retried [bad, bad] true",
        "dead [bad]",
        "delayed [due] true",
    ]
    assert await said_of_priorities(*words) == ["priority [3, 2, 1]"]


@pytest.mark.nightly  # to build it takes minutes
@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is missing")
async def test_the_rust_sdk_does_every_row_that_it_has() -> None:
    words = await asyncio.to_thread(rust_command, SDKS / "rust" / "main.rs")
    assert await said(*words) == [
        'tag ["one", "two"]',
        'sql ["two"]',
        'fifo ["1", "2", "3", "4"]',
        'delayed ["due"] true',
        'transactions ["asked", "commit"] {"asked", "forgotten"}',
    ]
