"""Plain pytest: a cluster of the test's own, whose time moves only when the test moves it."""

from pocketmq.client import Message
from pocketmq.testing import Cluster


def test_an_order_survives_its_broker(pocketmq_clock: Cluster) -> None:
    cluster = pocketmq_clock.sync  # started, and ready
    topic = cluster.create_topic("orders")
    with cluster.producer() as shop, cluster.consumer("billing", topic) as billing:
        shop.send(Message(topic, b"order 17", delay_level=16))  # in half an hour
        cluster.kill("broker-a")  # as kill -9 does
        cluster.restart("broker-a")
        cluster.advance(minutes=31)
        assert billing.receive().body == b"order 17"
