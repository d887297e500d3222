"""Where a group's progress is written down, while the group moves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from pocketmq.client import MessageQueue
from pocketmq.client.api import ClientApi
from pocketmq.client.broker_addresses import BrokerAddresses
from pocketmq.client.consumer.progress.offset_store import RemoteBrokerOffsetStore
from pocketmq.client.consumer.progress.offset_table import Offset, ReadOffsetType
from pocketmq.client.routes import RouteTable
from pocketmq.protocol.headers.offsets import UpdateConsumerOffsetRequestHeader
from pocketmq.runtime.errors import PeerError

OWNED, NEW, GIVEN_UP = (MessageQueue("T", "a", number) for number in range(3))


async def test_a_queue_that_comes_while_offsets_are_written_keeps_its_offset() -> None:  # C-65
    brought: list[MessageQueue] = []

    async def rebalance_meanwhile(_topic: str) -> bool:
        if not brought:
            brought.append(NEW)
            store.table.update(NEW, 7, increase_only=False)
        return False

    no_api = cast(ClientApi, None)  # no broker is known, so none is told
    store = RemoteBrokerOffsetStore(
        "group", no_api, BrokerAddresses(RouteTable(), rebalance_meanwhile)
    )
    for queue in (OWNED, GIVEN_UP):
        store.table.update(queue, 5, increase_only=False)
    await store.persist_all([OWNED])
    assert store.table.get(NEW) == 7
    assert store.table.get(OWNED) == 5
    assert GIVEN_UP not in store.table.offsets


def test_offsets_are_not_written_at_once_where_no_broker_is_known() -> None:  # P-5
    async def nobody(_topic: str) -> bool:
        return False

    store = RemoteBrokerOffsetStore(
        "group", cast(ClientApi, None), BrokerAddresses(RouteTable(), nobody)
    )
    store.table.update(GIVEN_UP, 5, increase_only=False)
    assert not store.persist_at_once([OWNED])
    assert GIVEN_UP in store.table.offsets, "nothing was done: `persist_all` has it to do"


async def test_written_at_once_is_what_is_owned_and_the_rest_is_forgotten() -> None:  # C-65, P-5
    sent: list[tuple[int, int]] = []

    class Open:
        def oneway(self, header: UpdateConsumerOffsetRequestHeader) -> None:
            sent.append((header.queue_id, header.commit_offset))

    routes = SimpleNamespace(broker=lambda _name: SimpleNamespace(address="127.0.0.1:10911"))
    addresses: Any = SimpleNamespace(routes=routes)
    api: Any = SimpleNamespace(open_channel=lambda _address: Open())
    store = RemoteBrokerOffsetStore("group", api, addresses)
    for queue in (OWNED, GIVEN_UP):
        store.table.update(queue, 5, increase_only=False)
    assert store.persist_at_once([OWNED, NEW])
    assert sent == [(0, 5)], "of a new queue nothing is known yet"
    assert GIVEN_UP not in store.table.offsets


async def test_a_broker_that_cannot_be_asked_has_not_said_that_it_has_no_offset() -> None:
    # B-34: after "no offset" a group begins where its settings say, and would skip messages.
    async def silent(*_: object) -> int | None:
        raise PeerError("it does not answer")

    async def empty(*_: object) -> int | None:
        return None

    async def address(_queue: MessageQueue) -> str:
        return "127.0.0.1:10911"

    for answer, found in ((silent, Offset.FAILED), (empty, Offset.NOT_FOUND)):
        api: Any = SimpleNamespace(consumer_offset=answer)
        addresses: Any = SimpleNamespace(master_or_replica=address)
        store = RemoteBrokerOffsetStore("group", api, addresses)
        assert await store.read(OWNED, ReadOffsetType.READ_FROM_STORE) == found
        assert OWNED not in store.table.offsets
