"""Where a group's progress is written down, while the group moves."""

from __future__ import annotations

from typing import cast

from pocketmq.client import MessageQueue
from pocketmq.client.api import ClientApi
from pocketmq.client.broker_addresses import BrokerAddresses
from pocketmq.client.consumer.progress.offset_store import RemoteBrokerOffsetStore
from pocketmq.client.routes import RouteTable

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
