"""Behaviour 64, the broker's side: what a 5.x broker notes of a group that broadcasts.

Over loopback TCP, on a manual clock, with the production nameserver, broker and consumers; a proxy
is a client that says so in its pulls.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pocketmq.client import Admin, Message, MessageModel, MessageQueue, PushConsumer
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.dispatch import Dispatcher
from support.broker_rig import Pulled, pull_header, read_pull
from support.consuming import Collected, consuming
from support.tcp import TcpHouse, tcp_cluster

QUEUE = MessageQueue("T", "a", 0)
SHOWN = "each@broadcast"


@dataclass
class Broadcast:
    """Two members of the group `each`; both have consumed three messages."""

    cluster: TcpHouse
    admin: Admin
    fast: PushConsumer
    slow: PushConsumer
    got: Collected
    """What the fast one got."""

    async def send(self, *bodies: bytes) -> None:
        async with self.cluster.producer() as producer:
            for body in bodies:
                await producer.send(Message("T", body))

    async def shows(self, offset: int | None) -> None:
        """Wait until the broker shows this offset."""
        offsets = self.cluster.brokers["a"].offsets
        await self.cluster.until(
            lambda: offsets.query(SHOWN, "T", 0) == offset, f"{SHOWN} stands at {offset}"
        )
        assert await self.admin.consumer_offset(SHOWN, QUEUE) == offset


@asynccontextmanager
async def broadcasting(folder: Path, profile: str = "5.x") -> AsyncIterator[Broadcast]:
    def member(got: Collected, ip: str) -> PushConsumer:
        return consuming(
            cluster,
            got,
            group="each",
            message_model=MessageModel.BROADCASTING,
            client_ip=ip,
            local_offset_store_dir=folder / "offsets",
        )

    async with tcp_cluster(folder, profile=profile) as cluster, cluster.admin() as admin:
        await cluster.create_topic("T", queues=1)
        one, two = Collected(), Collected()
        async with member(one, "10.0.0.1") as fast, member(two, "10.0.0.2") as slow:
            made = Broadcast(cluster, admin, fast, slow, one)
            await made.send(b"0", b"1", b"2")
            await cluster.until(lambda: len(one) == len(two) == 3, "both have all")
            yield made


async def proxy_pull(cluster: TcpHouse, client_id: str, offset: int) -> Pulled:
    """A pull that a proxy makes for one of its clients."""
    header = pull_header(
        "T",
        offset,
        consumer_group="each",
        request_source=1,
        proxy_froward_client_id=client_id,
    )
    broker = cluster.brokers["a"].address
    channel = await cluster.network.connect(
        broker, Dispatcher(), encoding=Encoding.JSON, version=479
    )
    try:
        return read_pull(await channel.request(header))
    finally:
        channel.close()


async def test_the_slowest_member_of_a_broadcast_decides_what_the_broker_shows(
    tmp_path: Path,
) -> None:
    # behaviour 64: B-36
    async with broadcasting(tmp_path) as group:
        await group.shows(3)
        group.slow.suspend()
        await group.send(b"3", b"4")
        await group.cluster.until(lambda: len(group.got) == 5, "the fast one goes on")
        await group.cluster.advance(20)
        await group.shows(3)
        group.slow.resume()
        await group.shows(5)
        assert "each@broadcast" not in await group.admin.topic_consumers("T")


async def test_a_proxy_begins_where_the_broadcasting_group_stands(tmp_path: Path) -> None:
    # behaviour 64: B-36
    async with broadcasting(tmp_path) as group:
        await group.shows(3)
        group.slow.suspend()
        await group.send(b"3", b"4")
        await group.cluster.until(lambda: len(group.got) == 5, "the fast one goes on")
        told = await proxy_pull(group.cluster, "phone", -1)
        assert (told.code, told.header.next_begin_offset) == (21, 3)
        pulled = await proxy_pull(group.cluster, "phone", 3)
        assert pulled.bodies == [b"3", b"4"]


async def test_a_member_that_turns_to_a_proxy_goes_on_where_it_was(tmp_path: Path) -> None:
    # behaviour 64: B-36
    async with broadcasting(tmp_path) as group:
        await group.shows(3)
        await group.send(b"3")
        await group.cluster.until(lambda: len(group.got) == 4, "both go on")
        await group.shows(4)
        client_id = group.fast.client_id
        await group.fast.stop()
        told = await proxy_pull(group.cluster, client_id, 0)
        assert (told.code, told.header.next_begin_offset) == (21, 4)


async def test_a_4_9_broker_notes_nothing_of_a_broadcast(tmp_path: Path) -> None:
    # behaviour 64: B-36
    async with broadcasting(tmp_path, "4.9") as group:
        await group.cluster.advance(20)
        assert group.cluster.brokers["a"].offsets.query(SHOWN, "T", 0) is None
