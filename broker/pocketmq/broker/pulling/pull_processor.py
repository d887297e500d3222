"""PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361): read, or wait for messages (B-55 to B-74)."""

from __future__ import annotations

from collections.abc import Callable

from pocketmq.broker.holding.held_requests import HeldRequests
from pocketmq.broker.overload.overload import Overload, Work
from pocketmq.broker.pulling.held_pull import HeldPull
from pocketmq.broker.pulling.pull_reader import PullReader
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.headers.pull import PullMessageRequestHeader
from pocketmq.protocol.subscription import SubscriptionData
from pocketmq.runtime.clock import Clock

BYTES_PER_CHAR = 70
"""About what a character of a subscription takes once it is parsed: tags, hashes, their sets."""


class PullProcessor:
    """Answers pulls, and holds those that found nothing new.

    Args:
        reader: answers.
        held: the pulls that wait.
        overload: refuses what has waited too long.
        clock: measures how long pulls are held.
        short_polling_ms: how long a pull is held now; None: as long as the consumer asks.
    """

    def __init__(
        self,
        reader: PullReader,
        held: HeldRequests[HeldPull],
        overload: Overload,
        clock: Clock,
        *,
        short_polling_ms: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._reader = reader
        self._held = held
        self._overload = overload
        self._clock = clock
        self._short_polling_ms = short_polling_ms

    @handles(RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
    def pull(self, peer: Peer, request: Command) -> Reply:
        """The messages from an offset on; None when the pull is held."""
        self._overload.check(Work.PULL)
        header = request.header(PullMessageRequestHeader)
        return self._reader.read(peer, request, header, self._hold)

    def _hold(
        self,
        peer: Peer,
        request: Command,
        header: PullMessageRequestHeader,
        subscription: SubscriptionData,
    ) -> None:
        held_ms = self._short_polling_ms()
        if held_ms is None:
            held_ms = header.suspend_timeout_millis
        deadline_at = self._clock.monotonic() + max(0, held_ms) / 1000
        self._held.hold(
            HeldPull(peer, request, header, subscription, deadline_at),
            BYTES_PER_CHAR * len(subscription.sub_string),
        )
