"""The edge: RocketMQ's own `mqadmin` in a Java process that runs it as often as it is told."""

from __future__ import annotations

import asyncio
import base64
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from support.java import java_command

STARTUP = "org.apache.rocketmq.tools.command.MQAdminStartup"
"""What the script `mqadmin` starts."""
PATIENCE_S = 120.0
"""For Java's start, and beyond what a command may take."""
ENDLESS = "endless"
"""In place of an exit status: the command still ran when its time was over."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run of `mqadmin` left.

    Attributes:
        status: the exit status as text, or `ENDLESS`.
        printed: to standard output and error, in its order.
    """

    status: str
    printed: str


class Tool:
    """One Java process; runs follow each other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def run(self, arguments: Sequence[str], most_s: float) -> Ran:
        """Run `mqadmin` with these arguments; after `most_s` seconds it is ended."""
        words = [base64.b64encode(each.encode()).decode() for each in arguments]
        self._writer.write(("\t".join([str(int(most_s * 1000)), *words]) + "\n").encode())
        line = await asyncio.wait_for(self._reader.readline(), most_s + PATIENCE_S)
        if not line:
            raise AssertionError(f"the Java process has ended in: {' '.join(arguments)}")
        status, _, printed = line.decode().rstrip("\n").partition("\t")
        return Ran(status, base64.b64decode(printed).decode(errors="replace"))

    def stop(self) -> None:
        """Its connection ends, and so does the process."""
        self._writer.close()

    async def names(self) -> tuple[str, ...]:
        """All subcommands, as `mqadmin` alone lists them."""
        usage = await self.run([], PATIENCE_S)
        lines = usage.printed.splitlines()
        names = tuple(line.split()[0] for line in lines if line.startswith("   "))
        assert names, usage
        return names


@asynccontextmanager
async def started(folder: Path) -> AsyncIterator[Tool]:
    """Start the Java process, whose files lie in the folder; it is killed at the end."""
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    connected: asyncio.Future[Tool] = asyncio.get_running_loop().create_future()

    def obey(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set_result(Tool(reader, writer))

    # What a command prints is one line: megabytes, if it prints messages.
    server = await asyncio.start_server(obey, "127.0.0.1", 0, limit=1 << 26)
    port = server.sockets[0].getsockname()[1]
    allow = {"java.security.manager": "allow"}
    command = await asyncio.to_thread(
        java_command, "Mqadmin", port, server=True, home=folder, properties=allow
    )
    with (folder / "out").open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.PIPE, stdout=out, stderr=out,
            cwd=folder,  # where `consumerStatus` writes
        )  # fmt: skip
        try:
            tool = await asyncio.wait_for(connected, PATIENCE_S)
            try:
                yield tool
            finally:
                tool.stop()
        except TimeoutError as exc:
            raise AssertionError(f"no mqadmin:\n{(folder / 'out').read_text()}") from exc
        finally:
            server.close()
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
