"""UPDATE_BROKER_CONFIG (25), UPDATE_NAMESRV_CONFIG (318): options while a role runs (O-3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply
from pocketmq.runtime.durable_file import DurableFile
from pocketmq.runtime.errors import ConfigError, DiskError
from pocketmq.runtime.live_options import LiveOptions, ProtectedOptionError

log = structlog.get_logger()


class OptionsWriter:
    """Writes all options after changes; changes made during a write share the next one.

    Args:
        options: What is written.
        file: Where to.
    """

    def __init__(self, options: LiveOptions, file: DurableFile) -> None:
        self._options = options
        self._file = file
        self._waiting: list[Callable[[DiskError | None], None]] = []
        self._task: asyncio.Task[None] | None = None

    def save(self, on_saved: Callable[[DiskError | None], None]) -> None:
        """Write what the options are when the write begins, then call `on_saved`."""
        self._waiting.append(on_saved)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="options.save")

    async def stop(self) -> None:
        """Return when everything asked for so far is written."""
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            error: DiskError | None = None
            try:
                await self._file.replace(self._options.file_text())
            except DiskError as exc:
                log.error("options.write_failed", reason=str(exc))
                error = exc
            for on_saved in waiting:
                on_saved(error)


class OptionUpdates:
    """Changes options.

    Args:
        options: What may be changed, and which of it acts at once.
        writer: Keeps it.
    """

    def __init__(self, options: LiveOptions, writer: OptionsWriter) -> None:
        self._options = options
        self._writer = writer

    def update(self, peer: Peer, request: Command) -> Reply:
        """Change what can be changed; the remark of the success names what was not (O-5, O-6)."""
        body = bytes(request.body_view)
        if not body:
            return request.reply()
        try:
            change = self._options.update(body)
        except ProtectedOptionError as exc:
            return request.reply(
                code=ResponseCode.NO_PERMISSION,
                remark=f"Can not update config in black list. Nothing was changed; leave out {exc}",
            )
        except (ConfigError, UnicodeDecodeError) as exc:
            return request.reply(
                code=ResponseCode.SYSTEM_ERROR, remark=f"string2Properties error: {exc}"
            )
        log.info("options.changed", applied=change.applied, at_restart=change.at_restart)

        def saved(error: DiskError | None) -> None:
            if error is None:
                peer.reply(request, request.reply(remark=change.remark))
                return
            remark = f"changed until the next restart only: {error}"
            peer.reply(request, request.reply(code=ResponseCode.SYSTEM_ERROR, remark=remark))

        self._writer.save(saved)
        return None
