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

    @handles(RequestCode.GET_ALL_DELAY_OFFSET)
    def all_delay_offsets(self, _peer: Peer, request: Command) -> Reply:
        """How far each delay level is delivered, as far as replicas have what was delivered."""
        planner = self._planner
        noted = planner.noted()

        def kept(status: PutStatus) -> None:
            if status is PutStatus.PUT_OK:
                planner.made_common(noted)

        self._puts.when_kept(self._puts.log_end, kept)  # at once, unless replicas are behind
        return request.reply(body=encode_body(planner.common(), request.encoding))
