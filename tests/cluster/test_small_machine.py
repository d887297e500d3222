"""A machine with little: 1,024 descriptors, a small disk in memory, and that disk full.

Brokers and tools run as processes with hard limits of their own.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pocketmq.client import Admin, Message, Producer, PullConsumer, PullStatus
from pocketmq.cluster.errors import ProcessStartError
from pocketmq.cluster.process import ChildProcess
from pocketmq.protocol.messages.message import MessageQueue
from support.eventually import PATIENCE_MS, eventually
from support.mounts import tmpfs

pytestmark = pytest.mark.cluster

DESCRIPTORS = 1024
START_LIMIT_S = 120.0
TOPIC = "orders"
QUEUE = MessageQueue(TOPIC, "broker-a", 0)

LIMITED = """
import os, resource, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


def limited(*words: str, descriptors: int = DESCRIPTORS) -> list[str]:
    """A Python command line that can never have more descriptors."""
    return [sys.executable, "-c", LIMITED, str(descriptors), *words]


def store(verb: str, root: Path) -> subprocess.CompletedProcess[str]:
    """A store tool, as a user starts it."""
    command = limited("-m", "pocketmq.cluster.cli.main", "store", verb, str(root))
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


class Small:
    """A nameserver, and a broker with hard limits whose files lie where the test says."""

    def __init__(self, folder: Path, data: Path, descriptors: int, mode: str) -> None:
        self.nameserver = ChildProcess(
            "nameserver",
            "nameserver",
            [
                *(sys.executable, "-m", "pocketmq.nameserver", "--port", "0"),
                *("--kv-config-path", str(folder / "kvConfig.json"), "--exit-with-parent"),
            ],
            log_path=folder / "nameserver.log",
        )
        self._folder = folder
        self._data = data
        self._descriptors = descriptors
        self._mode = mode
        self.broker = self.nameserver  # until made

    async def start_broker(self) -> None:
        """Start it on whatever is in its folder."""
        words = (
            *("-m", "pocketmq.broker", "--name", "broker-a", "--port", "0"),
            *("--data", str(self._data), "--nameservers", self.nameserver.address),
            *("--exit-with-parent", "--flush-disk-type", self._mode),
            # How full the disk is is not looked at: the system says it, with ENOSPC.
            *("--clean-resource-interval-ms", "3600000"),
        )
        command = limited(*words, descriptors=self._descriptors)
        log_path = self._folder / "broker.log"
        self.broker = ChildProcess("broker-a", "broker", command, log_path=log_path)
        await self.broker.start(limit_s=START_LIMIT_S)

    async def make_topic(self) -> None:
        """Return when clients can send."""
        async with Admin(nameservers=self.nameserver.address, api_timeout_ms=PATIENCE_MS) as admin:
            await admin.create_topic(TOPIC, queues=1)


@asynccontextmanager
async def small_machine(
    folder: Path, data: Path, *, descriptors: int = DESCRIPTORS, mode: str = "ASYNC_FLUSH"
) -> AsyncIterator[Small]:
    """A nameserver, and a broker that is not started yet."""
    small = Small(folder, data, descriptors, mode)
    await small.nameserver.start(limit_s=START_LIMIT_S)
    try:
        yield small
    finally:
        await small.broker.kill()
        await small.nameserver.kill()


async def send(small: Small, first: int, count: int) -> None:
    """Messages with their numbers as bodies; each must be acknowledged."""
    async with Producer(
        "producers", nameservers=small.nameserver.address, send_timeout_ms=PATIENCE_MS
    ) as producer:
        for number in range(first, first + count):
            result = await producer.send(Message(TOPIC, b"%d" % number), queue=QUEUE)
            assert result.is_ok


async def served(small: Small) -> list[bytes]:
    """All bodies of the queue."""
    found: list[bytes] = []
    async with PullConsumer("readers", nameservers=small.nameserver.address) as reader:
        while True:
            pulled = await reader.pull(QUEUE, "*", len(found))
            if pulled.status is not PullStatus.FOUND:
                return found
            found += [bytes(message.body) for message in pulled.messages]


def bodies(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """64 MiB of memory as a disk; files of a store with all defaults are larger."""
    with tmpfs(tmp_path / "disk", 64) as place:
        yield place


def fill(place: Path) -> Path:
    """A file that takes all space that is left."""
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(64 * 1024))
    with ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(512))
    return ballast


@pytest.mark.root
async def test_a_store_of_defaults_lives_on_a_small_disk_through_kills_and_a_full_one(
    tmp_path: Path, disk: Path
) -> None:
    root = disk / "store"
    async with small_machine(tmp_path, root) as small:
        await small.start_broker()
        await small.make_topic()
        await send(small, 0, 100)
        await small.broker.kill()

        # Tools read; they take no space.
        for verb, said in (("verify", "all right: 100 records"), ("inspect", "")):
            used = shutil.disk_usage(disk).used
            ran = store(verb, root)
            assert (ran.returncode, ran.stderr) == (0, ""), (verb, ran.stderr[-2000:])
            assert said in ran.stdout
            assert shutil.disk_usage(disk).used <= used, verb

        await small.start_broker()
        assert await served(small) == bodies(100)
        await send(small, 100, 20)
        await small.broker.kill()

        # The disk is full: the tools still read, a start is one line and status 1, or it serves.
        ballast = fill(disk)
        for verb in ("verify", "inspect"):
            ran = store(verb, root)
            assert (ran.returncode, ran.stderr) == (0, ""), (verb, ran.stderr[-2000:])
        with contextlib.suppress(ProcessStartError):
            await small.start_broker()
            assert await served(small) == bodies(120)
            await small.broker.kill()
        if small.broker.status != -signal.SIGKILL:
            assert small.broker.status == 1, small.broker.log_tail()
            assert "No space left on device" in small.broker.log_tail(1)

        ballast.unlink()
        await small.start_broker()
        assert await served(small) == bodies(120)
        await send(small, 120, 10)
        assert await small.broker.stop() == 0
    ran = store("verify", root)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "all right: 130 records" in ran.stdout


async def test_idle_connections_leave_descriptors_for_the_store(tmp_path: Path) -> None:
    # fault 49
    data = tmp_path / "store"
    async with small_machine(tmp_path, data, descriptors=256, mode="SYNC_FLUSH") as small:
        await small.start_broker()
        await small.make_topic()
        address = ("127.0.0.1", small.broker.port)
        async with Producer(
            "producers", nameservers=small.nameserver.address, send_timeout_ms=PATIENCE_MS
        ) as producer:
            assert (await producer.send(Message(TOPIC, b"0"), queue=QUEUE)).is_ok
            idle = []
            for _ in range(400):
                one = socket.socket()
                one.settimeout(0.2)
                with contextlib.suppress(OSError):
                    one.connect(address)
                idle.append(one)
            # Who is connected is served, and the store can open what it needs.
            for number in range(1, 40):
                result = await producer.send(Message(TOPIC, b"%d" % number), queue=QUEUE)
                assert result.is_ok
            for number in range(8):  # each has files of its own
                assert (await producer.send(Message(f"new-{number}", b"x"))).is_ok
            for one in idle:
                one.close()

        async def a_newcomer_is_served() -> bool:
            try:
                return await served(small) == bodies(40)
            except OSError:
                return False

        await eventually(a_newcomer_is_served, "newcomers are served again")
        assert await small.broker.stop() == 0
