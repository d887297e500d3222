"""Connections between controllers: what is sent, and what is said of who cannot be reached."""

from __future__ import annotations

from pocketmq.controller.links import MOST_WAITING, ControllerLinks
from pocketmq.controller.raft.messages import Envelope, VoteRequest
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Dispatcher, Peer, Reply, handles
from pocketmq.protocol.transport.memory import MemoryNetwork
from support.eventually import eventually
from support.own_logs import own_logs

OTHER = "127.0.0.1:9878"


class Heard:
    """The other controller's port."""

    def __init__(self) -> None:
        self.count = 0
        self.dispatcher = Dispatcher()
        self.dispatcher.add(self)

    @handles(RequestCode.RAFT_MESSAGE)
    def message(self, _peer: Peer, _request: Command) -> Reply:
        self.count += 1
        return None


def send(links: ControllerLinks, times: int = 1) -> None:
    for term in range(times):
        links.send(Envelope("other", VoteRequest(term, 0, 0, True)))


async def test_who_is_gone_is_named_once_each_time_and_messages_do_not_pile_up() -> None:
    network, heard = MemoryNetwork(), Heard()
    links = ControllerLinks(network, "group", "own", {"other": OTHER})

    async def attempts() -> None:
        for _ in range(3):
            send(links)
            await eventually(lambda: not links._waiting, "the attempt is over")

    with own_logs() as logs:

        def told() -> int:
            return sum(line["event"] == "controller.unreachable" for line in logs)

        await attempts()
        assert told() == 1
        listener = await network.serve("127.0.0.1", 9878, heard.dispatcher)
        send(links, 2 * MOST_WAITING)
        await eventually(lambda: heard.count == MOST_WAITING, "those that may wait are sent")
        send(links)
        await eventually(lambda: heard.count == MOST_WAITING + 1, "the connection is there")
        await listener.close()
        await eventually(lambda: links._client.open_channel(OTHER) is None, "it is gone")
        await attempts()
        assert told() == 2
    await links.close()
