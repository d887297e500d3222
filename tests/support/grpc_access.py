"""Users at the gRPC door: signed headers, and a proxy in front of brokers that check users."""

from __future__ import annotations

import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from pocketmq.client import Admin
from support.eventually import eventually
from support.memory_cluster import MemoryCluster
from support.proxy_rig import ProxyRig, proxy_rig

TOPICS: Final = ("orders", "bills")
DATE: Final = "20231227T194619Z"
ADMIN: Final = ("admin", "rooted")
SHOP: Final = ("shop", "s3cret")
_INNER: Final = json.dumps({"accessKey": "inner", "secretKey": "hidden"})
SECURE: Final[dict[str, Any]] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": json.dumps({"username": "admin", "password": "rooted"}),
    "inner_client_authentication_credentials": _INNER,
}
CHECKS: Final[dict[str, Any]] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "inner_client_authentication_credentials": _INNER,
}
"""Options of a proxy in front of such brokers."""


def signed(user: str, secret: str, date: str = DATE) -> dict[str, str]:
    """The headers of a call as Python's SDK signs it."""
    made = hmac.digest(secret.encode(), date.encode(), "sha1").hex()
    return {
        "x-mq-date-time": date,
        "authorization": f"MQv2-HMAC-SHA1 Credential={user}, SignedHeaders=x-mq-date-time, "
        f"Signature={made}",
    }


def admin_of(cluster: MemoryCluster) -> Admin:
    """Who makes topics, users and rules."""
    return Admin(**cluster.client_options, credentials=ADMIN)


@asynccontextmanager
async def secured_rig(
    folder: Path, *broker_names: str, proxy: dict[str, Any] | None = None, **broker: Any
) -> AsyncIterator[ProxyRig]:
    """A proxy and brokers that check users, with the topics `orders` and `bills` and the user shop.

    Shop may Pub and Sub at `orders`, and Sub in the group `billing`.
    """
    options = CHECKS | (proxy or {})
    async with proxy_rig(folder, *broker_names, options=options, **(SECURE | broker)) as rig:
        async with admin_of(rig.cluster) as admin:
            for topic in TOPICS:
                await admin.create_topic(topic)
            wanted = 4 * len(rig.cluster.brokers)
            await eventually(
                lambda: all(len(rig.cluster.queues_of(each)) == wanted for each in TOPICS),
                "the topics are registered",
            )
            await admin.create_user(*SHOP)
            await admin.grant("shop", ["Topic:orders"], ["Pub", "Sub"])
            await admin.grant("shop", ["Group:billing"], ["Sub"])
        yield rig


async def stored(rig: ProxyRig, topic: str) -> list[bytes]:
    """The bodies of all messages of a topic."""
    async with admin_of(rig.cluster) as admin:
        return [
            message.body
            for queue in rig.cluster.queues_of(topic)
            for message in (await admin.read(queue, 0)).messages
        ]
