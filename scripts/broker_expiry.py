"""Broker expiry: a frozen broker is removed from routes after 120 s; takes milliseconds here.

RocketMQ's nameserver removes a broker that has been silent for 120 s (N-2), in a scan every 5 s
(N-3). To avoid the wait, this cluster runs on manual clocks, which are moved together.

    python scripts/broker_expiry.py
"""

import asyncio

from pocketmq.client import Admin
from pocketmq.cluster import Supervisor, local_cluster
from pocketmq.runtime import logs

TOPIC = "orders"


async def show(cluster: Supervisor, when: str) -> None:
    async with Admin(nameservers=cluster.namesrv_addr) as admin:
        route = await admin.route(TOPIC)
    brokers = sorted(queues.broker_name for queues in route.queue_datas) if route else []
    print(f"{when:42} {TOPIC} is on {', '.join(brokers) or 'no broker'}")


async def main() -> None:
    async with local_cluster(brokers=2, clock="manual") as cluster:
        async with Admin(nameservers=cluster.namesrv_addr) as admin:
            await admin.create_topic(TOPIC, queues=4)
        await show(cluster, "at the start")

        await cluster.advance(seconds=126)
        await show(cluster, "126 s later, both registered every 30 s")

        await cluster["broker-a"].freeze()  # the process exists, and its connection stays up
        await cluster.advance(seconds=90)
        await show(cluster, "broker-a silent for at least 90 s")

        await cluster.advance(seconds=36)
        await show(cluster, "broker-a silent for 126 s")

        cluster["broker-a"].thaw()
        cluster_time_ms = await cluster.control("broker-b").time_ms()
        await cluster.control("broker-a").move_to(cluster_time_ms)  # its clock was not moved
        await show(cluster, "broker-a runs again and registers")


if __name__ == "__main__":
    logs.configure("warning")
    asyncio.run(main())
