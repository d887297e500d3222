"""Secured brokers for other clients: ACL 1.0 in profile 4.9, ACL 2.0 in profile 5.3."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.server import Broker
from pocketmq.broker.store import StoreConfig
from pocketmq.client import Admin
from pocketmq.nameserver.config import NameServerConfig
from pocketmq.nameserver.server import NameServer
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.profile import PROFILE_4_9, PROFILE_5_3, Profile
from support.broker_rig import SMALL_FILES
from support.eventually import PATIENCE_MS, eventually
from support.nameserver_rig import MemoryStorage
from support.tls import server_tls

ACCOUNTS = """
accounts:
  - accessKey: shopkey
    secretKey: shop-secret
    topicPerms: [orders=PUB|SUB]
    groupPerms: [billing=SUB]
  - accessKey: adminkey
    secretKey: admin-secret
    admin: true
"""
ADMIN = ("adminkey", "admin-secret")


@dataclass
class Secured:
    """A nameserver and a broker that take both TLS and plaintext, on free ports."""

    nameserver: NameServer
    broker: Broker
    folder: Path

    def admin(self) -> Admin:
        """Of the user who may do everything."""
        return Admin(
            nameservers=self.nameserver.address, credentials=ADMIN, api_timeout_ms=PATIENCE_MS
        )


@asynccontextmanager
async def secured(folder: Path, profile: Profile, **options: Any) -> AsyncIterator[Secured]:
    """With topics `orders` and `bills`."""
    clock, network = SystemClock(), TcpNetwork(server_tls=server_tls())
    nameserver = NameServer(
        NameServerConfig(port=0), clock, network, profile, kv_storage=MemoryStorage()
    )
    await nameserver.start()
    config = BrokerConfig(
        name="broker-a", data=folder / "broker-a", port=0, nameservers=(nameserver.address,),
        **options,
    )  # fmt: skip
    broker = Broker(config, clock, network, profile, store_config=StoreConfig(**SMALL_FILES))
    await broker.start()
    found = Secured(nameserver, broker, folder)
    try:
        async with found.admin() as admin:
            for topic in ("orders", "bills"):
                await admin.create_topic(topic, queues=1)
                await eventually(partial(admin.route, topic), f"{topic} has a route")
        yield found
    finally:
        await broker.stop()
        await nameserver.stop()


@asynccontextmanager
async def with_accounts(folder: Path) -> AsyncIterator[tuple[Secured, Path]]:
    """ACL 1.0 in profile 4.9, and its file."""
    path = folder / "conf" / "plain_acl.yml"
    path.parent.mkdir()
    path.write_text(ACCOUNTS)
    async with secured(folder, PROFILE_4_9, acl_enable=True, plain_acl_file=path) as found:
        yield found, path


@asynccontextmanager
async def with_users(folder: Path) -> AsyncIterator[Secured]:
    """ACL 2.0 in profile 5.3: user `shopkey`, and `gonekey` who is disabled."""
    async with secured(
        folder,
        PROFILE_5_3,
        authentication_enabled=True,
        authorization_enabled=True,
        init_authentication_user='{"username":"adminkey","password":"admin-secret"}',
    ) as found:
        async with found.admin() as admin:
            for name in ("shopkey", "gonekey"):
                await admin.create_user(name, f"{name[:4]}-secret")
                await admin.grant(name, ["Topic:orders"], ["Pub", "Sub"])
                await admin.grant(name, ["Group:billing"], ["Sub"])
            await admin.update_user("gonekey", is_enabled=False)
        yield found
