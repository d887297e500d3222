"""UPDATE_NAMESRV_CONFIG (318), GET_NAMESRV_CONFIG (319): the options while it runs (O-8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pocketmq.operation.option_updates import OptionUpdates
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.runtime.configuration.live_options import LiveOptions
from pocketmq.runtime.files.shared_writes import SharedWrites


class SettingsProcessor:
    """Shows and changes options.

    Args:
        options: What may be changed, and which of it acts at once.
        writer: Keeps it.
        decided: What stands for options that leave it to the nameserver.
    """

    def __init__(
        self,
        options: LiveOptions,
        writer: SharedWrites,
        decided: Callable[[], Mapping[str, str]],
    ) -> None:
        self._decided = decided
        self._options = options
        self._updates = OptionUpdates(options, writer)

    @handles(RequestCode.GET_NAMESRV_CONFIG)
    def show(self, _peer: Peer, request: Command) -> Reply:
        """Lines of `key=value`."""
        return request.reply(body=self._options.text(decided=self._decided()).encode())

    @handles(RequestCode.UPDATE_NAMESRV_CONFIG)
    def update(self, peer: Peer, request: Command) -> Reply:
        """Change what can be changed; the remark of the success names what was not (O-5, O-6)."""
        return self._updates.update(peer, request)
