"""UPDATE_BROKER_CONFIG (25), UPDATE_NAMESRV_CONFIG (318): options while a role runs (O-3)."""

from __future__ import annotations

import structlog

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply
from pocketmq.runtime.configuration.live_options import LiveOptions, ProtectedOptionError
from pocketmq.runtime.errors import ConfigError, DiskError
from pocketmq.runtime.files.durable_file import DurableFile
from pocketmq.runtime.files.shared_writes import SharedWrites

log = structlog.get_logger()


def options_writer(options: LiveOptions, file: DurableFile) -> SharedWrites:
    """What writes all options to their file after changes."""
    return SharedWrites("options", lambda: file.replace(options.file_text()))


class OptionUpdates:
    """Changes options.

    Args:
        options: What may be changed, and which of it acts at once.
        writer: Keeps it.
    """

    def __init__(self, options: LiveOptions, writer: SharedWrites) -> None:
        self._options = options
        self._writer = writer

    def update(self, peer: Peer, request: Command) -> Reply:
        """Change what can be changed; the remark of the success names what was not (O-5, O-6)."""
        body = bytes(request.body_view)
        if not body:
            return request.reply()
        try:
            change = self._options.update(body)
        # All or nothing: the other options of the request stay unchanged, too.
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
            # The change is not taken back: it acts already, and may have been seen.
            remark = f"changed until the next restart only: {error}"
            peer.reply(request, request.reply(code=ResponseCode.SYSTEM_ERROR, remark=remark))

        # The reply waits for the file: after a success, the options survive a restart.
        self._writer.save(saved)
        return None
