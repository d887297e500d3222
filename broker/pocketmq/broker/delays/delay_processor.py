"""GET_ALL_DELAY_OFFSET (45): how far each delay level is delivered."""

from __future__ import annotations

from pocketmq.broker.delays.delay import DelayPlanner
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles


class DelayProcessor:
    """Shows the planner's table."""

    def __init__(self, planner: DelayPlanner) -> None:
        self._planner = planner

    @handles(RequestCode.GET_ALL_DELAY_OFFSET)
    def all_delay_offsets(self, _peer: Peer, request: Command) -> Reply:
        """How far each delay level is delivered."""
        return request.reply(body=encode_body(self._planner.wrapper(), request.encoding))
