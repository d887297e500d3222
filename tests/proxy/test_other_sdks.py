"""RocketMQ's official Go and Node SDKs through the proxy, as they are published."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from support.sdk_world import RETRIED_SOON, sdk_world

SDKS: Final = Path(__file__).with_name("sdks")
NODE_VERSION: Final = "1.0.8"
LIMIT_S: Final = 600.0

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.timeout(1_300),  # the first run on a machine fetches and builds
]


def run(*words: str | Path, folder: Path | None = None, **env: str) -> str:
    """What a program prints; it must end with 0."""
    done = subprocess.run(
        words,
        cwd=folder,
        env=os.environ | env,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


async def said(*words: str | Path, folder: Path | None = None) -> list[str]:
    """What a program of an SDK prints, with a cluster of its topics and groups."""
    async with sdk_world() as (where, admin):
        await admin.create_topic("orders", message_type="NORMAL")
        await admin.create_topic("payments", message_type="FIFO")
        await admin.create_topic("retried", message_type="NORMAL")
        await admin.create_group(
            SubscriptionGroupConfig(group_name="fifo", consume_message_orderly=True)
        )
        await admin.create_group(
            SubscriptionGroupConfig(group_name="retried", group_retry_policy=RETRIED_SOON)
        )
        return (await asyncio.to_thread(run, *words, where, folder=folder)).splitlines()


@pytest.mark.go
async def test_the_go_sdk_receives_hides_acknowledges_and_retries(tmp_path: Path) -> None:
    project = shutil.copytree(SDKS / "go", tmp_path / "go")
    # Without cgo: compiling for it takes longer than the test. It writes its go.sum itself.
    await asyncio.to_thread(
        run, "go", "build", "-mod=mod", "-o", "sdk", ".", folder=project, CGO_ENABLED="0"
    )
    assert await said(project / "sdk") == [
        "simple one 2 new",
        "push [one two]",
        "fifo [1 2 3 4]",
        "retried [bad bad]",
    ]


def node_folder() -> Path:
    """Where Node finds the SDK; the first call on a machine installs it."""
    home = Path(sys.prefix) / f"rocketmq-node-{NODE_VERSION}"
    home.mkdir(exist_ok=True)
    with (home / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not (home / ".installed").exists():
            wanted = f"rocketmq-client-nodejs@{NODE_VERSION}"
            run("npm", "install", "--no-audit", "--no-fund", "--prefix", home, wanted)
            (home / ".installed").touch()
    return home


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is missing")
async def test_the_node_sdk_receives_hides_and_acknowledges() -> None:
    home = await asyncio.to_thread(node_folder)
    program = shutil.copy(SDKS / "node" / "main.cjs", home / "main.cjs")
    assert await said("node", program) == ["simple one 2 new", "push one two", "fifo 1 2 3 4"]
