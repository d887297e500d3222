"""RAFT_MESSAGE (30006): what another controller says."""

from __future__ import annotations

import msgspec

from pocketmq.controller import consensus
from pocketmq.controller.consensus import Consensus
from pocketmq.controller.errors import RaftMessageError
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.headers.controller import RaftMessageRequestHeader


class RaftProcessor:
    """Hands messages of the own group over."""

    def __init__(self, own: Consensus, group: str) -> None:
        self._own = own
        self._group = group

    @handles(RequestCode.RAFT_MESSAGE)
    def message(self, _peer: Peer, request: Command) -> Reply:
        """Take a message; it is oneway, so nothing is answered when it fits."""
        header = request.header(RaftMessageRequestHeader)
        # Two groups that share a port would otherwise take each other's votes.
        if header.group != self._group:
            raise RaftMessageError(
                header.sender,
                f"the message is for controller group {header.group[:100]}, but this controller "
                f"belongs to group {self._group}",
            )
        try:
            message = consensus.decode(request.body_view)
        except msgspec.MsgspecError as exc:
            raise RaftMessageError(header.sender, str(exc)) from exc
        self._own.receive(header.sender, message)
        return None
