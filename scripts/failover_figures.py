"""Measures replicas as processes: throughput, catch-up, and how long a lost master is missed.

    python scripts/failover_figures.py              # about three minutes
    python scripts/failover_figures.py --rounds 5   # kills and stops so often

Beside other work the machine's load tells in every figure; throughputs are therefore ratios to a
single broker that is measured in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from pocketmq.client import Admin, ConsumeFromWhere, Message, Producer, PushConsumer
from pocketmq.client.producer.send_result import SendStatus
from pocketmq.cluster.local import local_cluster
from pocketmq.cluster.replica_sets import in_sync, replicas
from pocketmq.cluster.supervisor import Supervisor
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import PocketMQError

BODY = b"x" * 1024
LANES = 64
SECONDS = 5.0
LIMIT_S = 120.0
TOPIC = "figures"

clock = SystemClock()


def main() -> int:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3, help="kills and stops of a master")
    parser.add_argument("--only-losses", action="store_true", help="measure no throughput")
    options = parser.parse_args()
    asyncio.run(_measure(options.rounds, only_losses=options.only_losses))
    return 0


async def _measure(rounds: int, *, only_losses: bool) -> None:
    if not only_losses:
        await _throughputs()
    for _ in range(rounds):
        await _lose_one_of_two()
    for how in ("SIGKILL", "SIGSTOP"):
        for _ in range(rounds):
            await _lose_master(how)


async def _throughputs() -> None:
    alone = await _throughput("a single broker", 1, ())
    some = await _throughput("three replicas, async", 3, ("--no-all-ack-in-sync-state-set",))
    every = await _throughput("three replicas, all-ack", 3, ())
    print(f"ratios to a single broker: async {some / alone:.2f}, all-ack {every / alone:.2f}")


async def _throughput(what: str, count: int, arguments: Sequence[str]) -> float:
    """Messages of 1 KiB per second; with replicas with a controller."""
    controllers = 1 if count > 1 else 0
    async with local_cluster(
        controllers=controllers, replicas=count, broker_arguments=arguments
    ) as cluster:
        await _until_in_sync(cluster, count)
        async with Admin(nameservers=cluster.namesrv_addr) as admin:
            await admin.create_topic(TOPIC, queues=4)
        sent = 0
        async with Producer("p", nameservers=cluster.namesrv_addr) as producer:
            until = clock.monotonic() + SECONDS

            async def lane() -> None:
                nonlocal sent
                while clock.monotonic() < until:
                    result = await producer.send(Message(TOPIC, BODY))
                    sent += result.status is SendStatus.SEND_OK

            await asyncio.gather(*(lane() for _ in range(LANES)))
        print(f"{what}: {sent / SECONDS:,.0f} msg/s of 1 KiB")
    return sent / SECONDS


async def _until_in_sync(cluster: Supervisor, count: int) -> None:
    if count < 2:
        return
    async with clock.timeout(LIMIT_S):
        while len(await in_sync(cluster)) < count:
            await clock.sleep(0.05)


async def _lose_one_of_two() -> None:
    """From the loss of one of two masters until the next SEND_OK; nobody is elected there."""
    async with local_cluster(brokers=2) as cluster:
        async with Admin(nameservers=cluster.namesrv_addr) as admin:
            await admin.create_topic(TOPIC, queues=4)
        async with Producer("p", nameservers=cluster.namesrv_addr) as producer:
            for _ in range(50):
                await producer.send(Message(TOPIC, BODY))
            lost_at = clock.monotonic()
            await cluster["broker-a"].kill()
            worst_s = 0.0
            for _ in range(50):  # each queue is tried, those of the dead one too
                sent_at = clock.monotonic()
                await producer.send(Message(TOPIC, BODY))
                worst_s = max(worst_s, clock.monotonic() - sent_at)
            took_s = clock.monotonic() - lost_at
        print(
            f"SIGKILL of one of two masters: 50 sends, none failed, the slowest {worst_s:.2f} s,"
            f" all in {took_s:.2f} s"
        )


async def _lose_master(how: str) -> None:
    """From the loss of the master until the next SEND_OK, and until that message is consumed."""
    async with local_cluster(controllers=3, replicas=3) as cluster:
        await _until_in_sync(cluster, 3)
        async with Admin(nameservers=cluster.namesrv_addr) as admin:
            await admin.create_topic(TOPIC, queues=4)
        got: dict[bytes, float] = {}
        consumer = PushConsumer(
            "g",
            nameservers=cluster.namesrv_addr,
            consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        )
        consumer.subscribe(TOPIC)

        async def listener(message: object) -> None:
            got.setdefault(bytes(message.body), clock.monotonic())  # type: ignore[attr-defined]

        consumer.listen(listener)
        async with (
            Producer("p", nameservers=cluster.namesrv_addr, send_timeout_ms=1000) as producer,
            consumer,
        ):
            number = 0

            async def send() -> bytes | None:
                nonlocal number
                body = b"%d" % number
                number += 1
                try:
                    result = await producer.send(Message(TOPIC, body))
                except PocketMQError:
                    await clock.sleep(0.02)
                    return None
                return body if result.status is SendStatus.SEND_OK else None

            for _ in range(50):
                await send()
            await clock.sleep(4.0)  # slaves copy topics and groups every 3 s
            address = (await replicas(cluster)).master_address
            [master] = [each for each in cluster.of_role("broker") if each.address == address]
            lost_at = clock.monotonic()
            await (master.kill() if how == "SIGKILL" else master.freeze())
            async with clock.timeout(LIMIT_S):
                while (body := await send()) is None:
                    pass
                sent_s = clock.monotonic() - lost_at
                while body not in got:
                    await clock.sleep(0.01)
            print(f"{how}: sends again after {sent_s:.2f} s, reads it {got[body] - lost_at:.2f} s")
            if how == "SIGSTOP":
                master.thaw()


if __name__ == "__main__":
    sys.exit(main())
