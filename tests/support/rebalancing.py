"""Members that are only said to exist, and a strategy that gives what a test wants."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pocketmq.client import MessageQueue
from pocketmq.protocol.bodies.clients import ConsumerList
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from support.eventually import eventually
from support.scripted_broker import ScriptedBroker

MEMBERS = RequestCode.GET_CONSUMER_LIST_BY_GROUP
ANOTHER = "0.0.0.0@another"
"""A member that sorts before ours, so that the first half of the queues is not ours."""


class OnDemand:
    """Everything or nothing, as the test says."""

    name = "ON_DEMAND"

    def __init__(self) -> None:
        self.gives = False

    def allocate(
        self, _group: str, _cid: str, mq_all: Sequence[MessageQueue], _cids: Sequence[str]
    ) -> list[MessageQueue]:
        return list(mq_all) if self.gives else []


def answer_members(*client_ids: str) -> Callable[[Command], Command]:
    """What a broker says of any group."""

    def answer(request: Command) -> Command:
        body = ConsumerList(consumer_id_list=list(client_ids))
        return request.reply(body=encode_body(body, request.encoding))

    return answer


async def held(broker: ScriptedBroker, count: int) -> None:
    """Wait until so many pulls wait at the broker."""
    await eventually(lambda: len(broker.held) == count, f"{count} pulls are held")
