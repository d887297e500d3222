"""How often a broker asks its name servers for the routes that it hands out queues of (K-21)."""

from __future__ import annotations

from pathlib import Path

from pocketmq.protocol.bodies.pop import QueryAssignmentBody, QueueAssignments
from pocketmq.protocol.bodies.route import QueueData, TopicRouteData
from pocketmq.protocol.body import decode_body, encode_body
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Dispatcher, Peer, Reply, handles
from pocketmq.protocol.headers.pop import QueryAssignmentRequestHeader
from pocketmq.protocol.headers.route import GetRouteInfoRequestHeader
from pocketmq.protocol.transport.memory import MemoryNetwork
from support.broker_rig import Voice, running_broker


class Routes:
    """A name server that knows every topic, and counts."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    @handles(RequestCode.REGISTER_BROKER)
    def register(self, _peer: Peer, request: Command) -> Reply:
        return request.reply()

    @handles(RequestCode.UNREGISTER_BROKER)
    def unregister(self, _peer: Peer, request: Command) -> Reply:
        return request.reply()

    @handles(RequestCode.GET_ROUTEINFO_BY_TOPIC)
    def route(self, _peer: Peer, request: Command) -> Reply:
        self.asked.append(request.header(GetRouteInfoRequestHeader).topic)
        queues = QueueData(broker_name="broker-a", read_queue_nums=1, write_queue_nums=1, perm=6)
        route = TopicRouteData(queue_datas=[queues], broker_datas=[])
        return request.reply(body=encode_body(route, request.encoding))

    def since(self) -> list[str]:
        """What was asked since the last call, sorted."""
        asked, self.asked = sorted(self.asked), []
        return asked


async def assigned(voice: Voice, topic: str) -> int:
    """Queues that a client of a broadcasting group is given."""
    body = QueryAssignmentBody(
        topic=topic, consumer_group="readers", client_id="c1", message_model="BROADCASTING"
    )
    reply = await voice.ask(QueryAssignmentRequestHeader(), body)
    found = decode_body(reply.body_view, QueueAssignments, reply.encoding)
    return len(found.message_queue_assignments or ())


async def test_a_route_is_asked_again_while_somebody_uses_it(tmp_path: Path) -> None:
    network, routes, dispatcher = MemoryNetwork(), Routes(), Dispatcher()
    dispatcher.add(routes)
    listener = await network.serve("127.0.0.1", 9876, dispatcher)
    async with running_broker(tmp_path, network=network, nameservers=("127.0.0.1:9876",)) as rig:
        voice = await rig.voice()
        for topic in ("orders", "bills"):
            assert await assigned(voice, topic) == 1
        assert routes.since() == ["bills", "orders"]
        await rig.advance(29)
        assert await assigned(voice, "orders") == 1
        assert routes.since() == []
        await rig.advance(2)
        assert routes.since() == ["bills", "orders"], "both were used within 30 s"
        assert await assigned(voice, "orders") == 1
        await rig.advance(30)
        assert routes.since() == ["orders"], "nobody used the other one since"
        await rig.advance(60)
        assert routes.since() == []
        assert await assigned(voice, "bills") == 1
        assert routes.since() == ["bills"]
    await listener.close()
