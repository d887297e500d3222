"""pytest-asyncio: the test's own loop beside a cluster on manual time."""

from pocketmq.client import Message, Producer, PushConsumer
from pocketmq.testing import Cluster


async def test_an_order_survives_its_broker(pocketmq_clock: Cluster) -> None:
    cluster = pocketmq_clock  # started, and ready
    topic = await cluster.create_topic("orders")
    bodies: list[bytes] = []
    billing = PushConsumer("billing", nameservers=cluster.nameservers)
    billing.subscribe(topic)
    billing.listen(lambda message: bodies.append(message.body))
    async with billing, Producer("shop", nameservers=cluster.nameservers) as shop:
        await shop.send(Message(topic, b"order 17", delay_level=16))  # in half an hour
        await cluster.kill("broker-a")  # as kill -9 does
        await cluster.restart("broker-a")
        took_s = await cluster.advance_until(lambda: bodies == [b"order 17"])
    assert 1800 <= took_s < 1900
