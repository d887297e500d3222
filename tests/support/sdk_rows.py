"""What programs of RocketMQ's Go, Node, Java and Rust SDKs do: each row of the SDK's own table.

Each program needs the topics and groups of `prepare`, and brokers that have the recall of delayed
messages and the timer wheel on. It prints a line for each row, and ends with 0.

    words = sdk.command(tmp_path)
    assert run(*words, "127.0.0.1:8081").splitlines() == sdk.told
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from pocketmq.client import Admin
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.scalars import MessageType
from support.sdk_programs import go_command, java_command, node_command, rust_command
from support.sdk_world import RETRIED_SOON

PROGRAMS: Final = Path(__file__).resolve().parents[1] / "proxy" / "sdks"
TOPICS: Final[dict[str, MessageType]] = {
    "orders": "NORMAL", "payments": "FIFO", "later": "DELAY", "deals": "TRANSACTION",
    "retried": "NORMAL",
}  # fmt: skip


@dataclass(frozen=True)
class Sdk:
    """A published SDK with its program."""

    name: str
    command: Callable[[Path], list[str | Path]]
    """Builds the program, in a folder if it needs one; returns the words that run it."""
    told: list[str]
    """The lines that the program prints."""
    told_of_priorities: list[str]
    """The lines that it prints with the argument `priority`; none if the SDK has no priorities."""


GO: Final = Sdk(
    "go",
    lambda folder: go_command(PROGRAMS / "go" / "main.go", folder),
    [
        "simple one 2 new",
        "sql [two]",
        "push [one two zero]",
        "fifo [1 2 3 4]",
        "transactions [asked commit] map[asked:true forgotten:true]",
        "retried bad bad true",
        "dead [bad]",
        "delayed [due] true",
    ],
    ["priority 3 2 1"],
)
NODE: Final = Sdk(
    "node",
    lambda _: node_command(PROGRAMS / "node" / "main.cjs"),
    [
        "simple one 2 new",
        "sql two",
        "push one two zero",
        "fifo 1 2 3 4",
        "transactions asked commit",
        "asked asked forgotten",
        "retried bad bad",
        "dead bad",
        "delayed due true",
    ],
    ["priority 3 2 1"],
)
JAVA: Final = Sdk(
    "java",
    lambda folder: java_command(PROGRAMS / "java" / "Rows.java", folder),
    [
        "simple one 2 new",
        "sql [two]",
        "push [one, two, zero]",
        "fifo [1, 2, 3, 4]",
        "transactions [asked, commit] [asked, forgotten]",
        "retried [bad, bad] true",
        "dead [bad]",
        "delayed [due] true",
    ],
    ["priority [3, 2, 1]"],
)
RUST: Final = Sdk(
    "rust",
    lambda _: rust_command(PROGRAMS / "rust" / "main.rs"),
    [
        'tag ["one", "two"]',
        'sql ["two"]',
        'fifo ["1", "2", "3", "4"]',
        'delayed ["due"] true',
        'transactions ["asked", "commit"] {"asked", "forgotten"}',
    ],
    [],
)
NEEDS: Final = {
    GO.name: pytest.mark.go,
    NODE.name: pytest.mark.skipif(shutil.which("npm") is None, reason="npm is missing"),
    JAVA.name: pytest.mark.java,
    RUST.name: pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is missing"),
}
"""What has to be on the machine for the program of an SDK, as a mark of pytest."""


async def prepare(admin: Admin) -> None:
    """Make the topics and groups that the programs use."""
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
