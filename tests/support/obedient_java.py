"""A Java program of `tests/interop/java` that obeys lines over a connection that it opens."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from support.java import java_command

PATIENCE_S = 120.0
"""For Java's start."""
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def obeying(
    main: str,
    folder: Path,
    *,
    longest_line: int = 1 << 16,
    server: bool = False,
    properties: Mapping[str, str] | None = None,
) -> AsyncIterator[Connection]:
    """Start the program, whose argument is a port, until it has connected; it is killed at the end.

    Args:
        main: as `java_command` has it, and so `server` and `properties`.
        folder: for its files, and where it runs; `out` there is what it printed.
        longest_line: bytes of an answer.

    Raises:
        AssertionError: a time-out, at its start or while it was obeying, with what it printed.
    """
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    connected: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()

    def obey(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set_result((reader, writer))

    listener = await asyncio.start_server(obey, "127.0.0.1", 0, limit=longest_line)
    port = listener.sockets[0].getsockname()[1]
    command = await asyncio.to_thread(
        java_command, main, port, server=server, home=folder, properties=properties
    )
    with (folder / "out").open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.PIPE, stdout=out, stderr=out, cwd=folder
        )
        try:
            reader, writer = await asyncio.wait_for(connected, PATIENCE_S)
            try:
                yield reader, writer
            finally:
                writer.close()
        except TimeoutError as exc:
            printed = (folder / "out").read_text()
            raise AssertionError(f"a time-out with {main}, which printed:\n{printed}") from exc
        finally:
            listener.close()
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
