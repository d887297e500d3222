"""RocketMQ's Java client at a cluster whose members must prove who they are: it cannot, and gets
routes where strangers may read them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pocketmq.client import Admin
from pocketmq.cluster.local import local_cluster
from support.eventually import PATIENCE_MS
from support.java_versions import run_version

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(1200),  # a first run downloads RocketMQ
]

SOURCE = Path(__file__).resolve().parent / "java_accounts" / "Signed.java"


@pytest.mark.parametrize("reads_routes", [True, False])
async def test_a_java_client_gets_routes_where_strangers_read_them(
    tmp_path: Path, reads_routes: bool
) -> None:
    async with (
        local_cluster(
            tls=True, members_must_prove=True, strangers_read_routes=reads_routes, data=tmp_path
        ) as cluster,
        Admin(
            nameservers=cluster.namesrv_addr,
            network=cluster.network,
            api_timeout_ms=PATIENCE_MS,
        ) as admin,
    ):
        await admin.create_topic("orders", queues=1)
        run = await asyncio.to_thread(
            run_version,
            "4.9.8",
            "Signed",
            cluster.namesrv_addr,
            "send:anykey:any-secret:orders:billing",  # brokers look at no signature
            source=SOURCE,
            properties={"tls.enable": "true"},
        )
        said = run.stdout + run.stderr
        assert ("STEP send SENT" in said) == reads_routes, said[-3000:]
        # Java's client says no more of a refused route than that there is none.
        assert ("No route info of this topic: orders" in said) != reads_routes, said[-3000:]
        stats = await admin.topic_stats("orders")
        assert sum(each.max_offset for each in stats.values()) == int(reads_routes)
