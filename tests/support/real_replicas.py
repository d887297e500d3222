"""Our brokers among those of a real RocketMQ."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.server import Broker
from pocketmq.broker.store import StoreConfig
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.clock import SystemClock
from support.golden import STORE_SIZES
from support.real_rocketmq import free_port

SIZES = {
    "mapped_file_size_commit_log": STORE_SIZES["mappedFileSizeCommitLog"],
    "mapped_file_size_consume_queue": STORE_SIZES["mappedFileSizeConsumeQueue"],
    "max_hash_slot_num": STORE_SIZES["maxHashSlotNum"],
    "max_index_num": STORE_SIZES["maxIndexNum"],
    "max_message_size": STORE_SIZES["maxMessageSize"],
}


@asynccontextmanager
async def our_broker(
    folder: Path, nameserver: str, *, port: int = 0, **options: Any
) -> AsyncIterator[Broker]:
    """A broker of this process that RocketMQ's peers understand."""
    config = BrokerConfig(
        data=folder,
        nameservers=(nameserver,),
        port=port or free_port((-2, 0, 1)),
        encoding="json",
        **options,
    )
    broker = Broker(config, SystemClock(), TcpNetwork(), store_config=StoreConfig(**SIZES))
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()
