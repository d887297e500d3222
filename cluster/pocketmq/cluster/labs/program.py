"""The learner's program: a process that speaks JSON lines, in any language.

Each line on its standard input and output is one JSON object. What it has to say to people goes to
standard error, of which the end is shown when a check fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn, Self

from pocketmq.cluster.labs.verdict import Record
from pocketmq.runtime.errors import EnvironmentFault

Line = dict[str, object]

LINE_BYTES = 1 << 20
"""Longest line that is read."""

STDERR_BYTES = 8_000
"""Of the end of standard error that is shown."""


class ProgramStartError(EnvironmentFault):
    """The learner's command cannot be run at all."""


class Program:
    """One run of the program; use it in `async with`, which kills it at the end.

    Args:
        command: Its words.
        cwd: Where it runs.
        env: The environment added to that of the judge.
        record: Gets the wrong step when it does not answer.
        stderr_path: File that gets its standard error.
        patience_s: Real seconds for one answer.
    """

    def __init__(
        self,
        command: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        record: Record,
        *,
        stderr_path: Path,
        patience_s: float,
    ) -> None:
        self._command = list(command)
        self._cwd = cwd
        self._env = dict(env)
        self._record = record
        self._stderr_path = stderr_path
        self._patience_s = patience_s
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        with self._stderr_path.open("wb") as stderr:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *self._command,
                    cwd=self._cwd,
                    env={**os.environ, **self._env},
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=stderr,
                    limit=LINE_BYTES,
                    start_new_session=True,  # so that a wrapper's children are killed with it
                )
            except OSError as exc:
                raise ProgramStartError(
                    f"{self._command[0]} cannot be run: {exc.strerror or exc}; give a folder with "
                    "lab.py, or a command line in quotes"
                ) from exc
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.kill()

    # -- speaking ---------------------------------------------------------------------------

    async def tell(self, line: Mapping[str, object]) -> None:
        """Write one line to its standard input; a program that has ended is noticed by `hear`."""
        stdin = self._running.stdin
        assert stdin is not None
        # If the program has ended, the next `hear` reports that with its status.
        with contextlib.suppress(ConnectionError):
            stdin.write(json.dumps(line).encode() + b"\n")
            await stdin.drain()

    async def hear(self, waiting_for: str) -> Line:
        """The next line of its standard output.

        Raises:
            WrongStepError: It ends, says nothing in time, or says something that is no JSON object.
        """
        stdout = self._running.stdout
        assert stdout is not None
        try:
            async with asyncio.timeout(self._patience_s):
                raw = await stdout.readline()
        except TimeoutError:
            self._record.wrong_step(
                f"the judge waits for {waiting_for}",
                wanted="a line on standard output",
                found=f"nothing for {self._patience_s:g} s of real time",
                why="each line must be flushed when it is written; --patience waits longer",
            )
        # `readline` raises this for a line beyond the limit.
        except ValueError:
            self._fault(waiting_for, f"a line of more than {LINE_BYTES} bytes")
        if not raw:
            # Awaited, since the status may come a moment after the end of the output.
            status = await self._running.wait()
            how = f"signal {-status}" if status < 0 else f"status {status}"
            self._fault(waiting_for, f"the program ended with {how}")
        try:
            line = json.loads(raw)
        except ValueError:
            line = None
        if not isinstance(line, dict):
            # Only the beginning is shown: a program may print long texts by mistake.
            text = raw.decode(errors="replace").strip()
            self._fault(waiting_for, f"{text[:80]!r}: notes for people belong on standard error")
        return line

    async def ask(self, question: Mapping[str, object], waiting_for: str) -> Line:
        """A line, and the line that answers it."""
        await self.tell(question)
        return await self.hear(waiting_for)

    # -- life -------------------------------------------------------------------------------

    def freeze(self) -> None:
        """SIGSTOP."""
        self._signal(signal.SIGSTOP)

    async def kill(self) -> None:
        """SIGKILL; harmless when it has ended."""
        if self._process is None:
            return
        # The whole group, so that children of a shell or a wrapper end too.
        self._signal(signal.SIGKILL)
        await self._process.wait()
        with contextlib.suppress(ConnectionError, BrokenPipeError):
            if self._process.stdin is not None:
                # Otherwise asyncio warns of a transport that was never closed.
                self._process.stdin.close()
                await self._process.stdin.wait_closed()

    async def terminate(self) -> None:
        """SIGTERM, and SIGKILL when it takes too long to end."""
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(self._patience_s):
                await self._running.wait()
        except TimeoutError:
            await self.kill()

    # -- inside -----------------------------------------------------------------------------

    @property
    def _running(self) -> asyncio.subprocess.Process:
        assert self._process is not None, "use the program in `async with`"
        return self._process

    def _signal(self, number: int) -> None:
        # A pid that was already awaited may belong to another process now.
        if self._running.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._running.pid, number)

    def _fault(self, waiting_for: str, found: str) -> NoReturn:
        self._record.wrong_step(
            f"the judge waits for {waiting_for}",
            wanted="one JSON object on a line of standard output",
            found=found,
            why="the page of the lab says which lines the program reads and writes",
        )


def last_words(folder: Path) -> str:
    """The end of the newest standard error in a folder of them; empty when nothing was written."""
    files = [path for path in folder.glob("*.stderr") if path.stat().st_size]
    if not files:
        return ""
    # A check has several runs, and the last one is the one that failed.
    newest = max(files, key=lambda path: path.stat().st_mtime_ns)
    return newest.read_bytes()[-STDERR_BYTES:].decode(errors="replace").rstrip()
