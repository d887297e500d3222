"""RocketMQ's own Go client with keys, over TLS and not, against secured brokers.

What is refused changes nothing: nothing is stored.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from support.secured import Secured, with_accounts, with_users

pytestmark = [
    pytest.mark.go,
    pytest.mark.cluster,
    pytest.mark.timeout(1_300),  # the first run on a machine fetches and builds
]

SOURCE: Final = Path(__file__).with_name("go_accounts")
LIMIT_S: Final = 600.0

RIGHT = ("send:shopkey:shop-secret:orders:billing", "read:shopkey:shop-secret:orders:billing")
OLD = "org.apache.rocketmq.acl.common.AclException: "
OF_ACCOUNTS = {
    "send:shopkey:wrong-secret:orders": f"{OLD}Check signature failed for accessKey=shopkey",
    "send:nobodykey:shop-secret:orders": f"{OLD}No acl config for nobodykey",
    "send:shopkey:shop-secret:bills": f"{OLD}No default permission for topic:bills",
    "read:shopkey:wrong-secret:orders": f"{OLD}Check signature failed for accessKey=shopkey",
}
OF_USERS = {
    "send:shopkey:wrong-secret:orders": "check signature failed.",
    "send:nobodykey:shop-secret:orders": "User:nobodykey is not found.",
    "send:gonekey:gone-secret:orders": "User:gonekey is disabled.",
    "send:shopkey:shop-secret:bills": "User:shopkey has no permission to access Topic:bills",
    "read:shopkey:wrong-secret:orders": "check signature failed.",
}


def run(*words: str | Path, folder: Path | None = None, **env: str) -> str:
    """What a program prints; it must end with 0."""
    done = subprocess.run(
        words, cwd=folder, env=os.environ | env, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What takes the steps."""
    project = shutil.copytree(SOURCE, tmp_path_factory.mktemp("go") / "accounts")
    # Without cgo: compiling for it takes longer than the test. It writes its go.sum itself.
    run("go", "build", "-mod=mod", "-o", "accounts", ".", folder=project, CGO_ENABLED="0")
    return project / "accounts"


async def told(program: Path, where: str, over: str, *steps: str) -> list[str]:
    """What it says of each step."""
    said = await asyncio.to_thread(run, program, where, over, *steps)
    return [line.removeprefix("STEP ") for line in said.splitlines() if line.startswith("STEP ")]


async def judge(program: Path, found: Secured, code: int, said: dict[str, str], over: str) -> None:
    """Nobody gets in whose key or topic is not right; then who has it does."""
    steps = [f"{step}:billing" for step in said]
    lines = await told(program, found.nameserver.address, over, *steps, *RIGHT)
    for step, line, words in zip(said, lines, said.values(), strict=False):
        assert "REFUSED" in line, (step, line)
        assert f" {code}, " in line, (step, line)
        assert words in line, (step, line)
    assert lines[len(said) :] == ["send SENT", "read READ 1"]
    assert await stored(found) == [1, 0]


async def stored(found: Secured) -> list[int]:
    """How many messages there are in `orders` and in `bills`."""
    counts = []
    async with found.admin() as admin:
        for topic in ("orders", "bills"):
            stats = await admin.topic_stats(topic)
            counts.append(sum(each.max_offset for each in stats.values()))
    return counts


async def test_a_go_client_over_tls_gets_in_with_the_right_key_only(
    program: Path, tmp_path: Path
) -> None:
    async with with_users(tmp_path) as found:
        await judge(program, found, 16, OF_USERS, "tls")


@pytest.mark.nightly
@pytest.mark.parametrize("over", ["tls", "plain"])
async def test_a_go_client_gets_in_at_either_kind_of_broker_with_the_right_key_only(
    program: Path, tmp_path: Path, over: str
) -> None:
    async with with_accounts(tmp_path) as (found, _):
        await judge(program, found, 1, OF_ACCOUNTS, over)
    async with with_users(tmp_path / "5.3") as found:
        await judge(program, found, 16, OF_USERS, over)


@asynccontextmanager
async def relay(
    address: str, *, forth: tuple[bytes, bytes] = (b"", b""), back: tuple[bytes, bytes] = (b"", b"")
) -> AsyncIterator[str]:
    """Passes a port's connections on, and replaces what is said by a text of the same length."""
    host, _, port = address.rpartition(":")
    passing: list[asyncio.Task[None]] = []
    writers: list[asyncio.StreamWriter] = []

    async def pump(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, change: tuple[bytes, bytes]
    ) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data.replace(*change) if change[0] else data)
        writer.close()

    async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to_there = await asyncio.open_connection(host, int(port))
        writers.append(to_there)
        await asyncio.gather(
            pump(reader, to_there, forth), pump(there, writer, back), return_exceptions=True
        )

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Noted as it is accepted, and not in the task's first step, which may come after the end.
        writers.append(writer)
        passing.append(asyncio.create_task(passed_on(reader, writer)))

    server = await asyncio.start_server(accepted, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        # What is open when the loop closes is an error of whichever test comes next.
        for each in passing:
            each.cancel()
        await asyncio.gather(*passing, return_exceptions=True)
        for writer in writers:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()


@pytest.mark.parametrize(
    "forth",
    [(b"key-of-an-order", b"key-of-no-order"), (b"body of an order", b"body of no order")],
    ids=["altered value", "another body"],
)
async def test_what_was_changed_behind_a_go_client_is_refused(
    program: Path, tmp_path: Path, forth: tuple[bytes, bytes]
) -> None:
    async with (
        with_users(tmp_path) as found,
        relay(found.broker.address, forth=forth) as broker,
        relay(
            found.nameserver.address, back=(found.broker.address.encode(), broker.encode())
        ) as nameserver,
    ):
        [line] = await told(program, nameserver, "plain", RIGHT[0])
        assert "REFUSED" in line
        assert "check signature failed." in line
        assert await stored(found) == [0, 0]
        assert await told(program, found.nameserver.address, "plain", RIGHT[0]) == ["send SENT"]
