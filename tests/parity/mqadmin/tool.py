"""The edge: RocketMQ's own `mqadmin` in a Java process that runs it as often as it is told."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from support.obedient_java import obeying

STARTUP = "org.apache.rocketmq.tools.command.MQAdminStartup"
"""What the script `mqadmin` starts."""
PATIENCE_S = 120.0
"""Beyond what a command may take."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run of `mqadmin` left.

    Attributes:
        status: the exit status as text, or `endless`: it still ran when its time was over.
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
    # What a command prints is one line: megabytes, if it prints messages.
    async with obeying(
        "Mqadmin", folder, longest_line=1 << 26, server=True,
        properties={"java.security.manager": "allow"},
    ) as (reader, writer):  # fmt: skip
        yield Tool(reader, writer)
