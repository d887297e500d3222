"""GET_ALL_DELAY_OFFSET (45): how far each delay level is delivered."""

from __future__ import annotations

from pocketmq.broker.delays.delay import DelayPlanner
from pocketmq.broker.store import PutStatus
from pocketmq.broker.storing.safe_puts import SafePuts
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles


class DelayProcessor:
    """Shows the planner's table."""

    def __init__(self, planner: DelayPlanner, puts: SafePuts) -> None:
        self._planner = planner
        self._puts = puts
        self._asks = False
        """Whether replicas are behind what was noted when they were asked last."""

    @handles(RequestCode.GET_ALL_DELAY_OFFSET)
    def all_delay_offsets(self, _peer: Peer, request: Command) -> Reply:
        """How far each delay level is delivered, as far as replicas have what was delivered."""
        if not self._asks:
            self._ask_replicas()
        return request.reply(body=encode_body(self._planner.common(), request.encoding))

    def _ask_replicas(self) -> None:
        """Bring the table up to date when replicas have the log as it is now.

        One question at a time, however often a peer asks: what is noted later comes with the next.
        """
        noted, self._asks = self._planner.noted(), True

        def kept(status: PutStatus) -> None:
            self._asks = False
            if status is PutStatus.PUT_OK:
                self._planner.made_common(noted)

        self._puts.when_kept(self._puts.log_end, kept)  # at once, unless replicas are behind
