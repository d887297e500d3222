"""Answers a request once the controllers have decided its command."""

from __future__ import annotations

import asyncio

from pocketmq.controller.commands import Command as Decision
from pocketmq.controller.consensus import Consensus
from pocketmq.controller.replicas import Outcome
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, error_reply


def decide(consensus: Consensus, peer: Peer, request: Command, command: Decision) -> Reply:
    """Propose the command; the answer follows with its outcome.

    Raises:
        NotLeadingError, TooManyProposalsError: nothing was proposed.
    """

    def decided(future: asyncio.Future[Outcome]) -> None:
        # The controller stops, and the connection with it.
        if future.cancelled():
            return
        error = future.exception()
        if isinstance(error, Exception):
            peer.reply(request, error_reply(peer, request, error))
        else:
            peer.reply(request, reply_of(request, future.result()))

    consensus.decide(command).add_done_callback(decided)
    return None


def reply_of(request: Command, outcome: Outcome) -> Command:
    """An outcome as the response to `request`."""
    body = b"" if outcome.body is None else encode_body(outcome.body, request.encoding)
    return request.reply(outcome.header, body, code=outcome.code, remark=outcome.remark)
