"""GET_BROKER_CONFIG (26), UPDATE_BROKER_CONFIG (25): the options while it runs (O-2 to O-7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pocketmq.broker.subject import Service
from pocketmq.operation.option_updates import OptionUpdates
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.body import encode_json
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.headers.settings import GetBrokerConfigResponseHeader
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.configuration.live_options import LiveOptions
from pocketmq.runtime.files.shared_writes import SharedWrites


class SettingsProcessor:
    """Shows and changes options.

    Args:
        options: what may be changed, and which of it acts at once; secret ones are left out.
        writer: keeps it.
        clock: stamps the version.
        decided: what stands for options that leave it to the broker.
        facts: what is shown besides.
    """

    def __init__(
        self,
        options: LiveOptions,
        writer: SharedWrites,
        clock: Clock,
        decided: Callable[[], Mapping[str, str]],
        facts: Callable[[], Mapping[str, str]],
    ) -> None:
        self._decided = decided
        self._facts = facts
        self._options = options
        self._updates = OptionUpdates(options, writer)
        self._clock = clock
        self._version = DataVersion()

    @handles(RequestCode.GET_BROKER_CONFIG)
    def settings(self, _peer: Peer, request: Command) -> Reply:
        """Lines of `name=value`, as `mqadmin getBrokerConfig` reads them."""
        header = GetBrokerConfigResponseHeader(version=encode_json(self._version).decode())
        text = self._options.text(decided=self._decided(), facts=self._facts())
        return request.reply(header, text.encode())

    @handles(RequestCode.UPDATE_BROKER_CONFIG)
    def update(self, peer: Peer, request: Command) -> Reply:
        """Change what can be changed; the remark of the success names what was not (O-5, O-6)."""
        before = self._options.changes
        reply = self._updates.update(peer, request)
        if self._options.changes != before:
            self._version = self._version.next_version(self._clock.time_ms())
        return reply


class KeptOptions(Service):
    """Has a write of the options that is under way end before the broker does."""

    def __init__(self, writer: SharedWrites) -> None:
        self._writer = writer

    async def stop(self) -> None:
        await self._writer.stop()
