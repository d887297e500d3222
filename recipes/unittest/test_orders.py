"""unittest: the cluster starts in setUp and stops by itself."""

import unittest

from pocketmq.client import Message
from pocketmq.testing import start_cluster


class OrdersTest(unittest.TestCase):
    def setUp(self) -> None:
        self.cluster = self.enterContext(start_cluster(clock="manual")).sync

    def test_an_order_survives_its_broker(self) -> None:
        cluster = self.cluster
        cluster.create_topic("orders")
        with cluster.producer() as shop, cluster.consumer("billing", "orders") as billing:
            shop.send(Message("orders", b"order 17", delay_level=16))  # in half an hour
            cluster.kill("broker-a")  # as kill -9 does
            cluster.restart("broker-a")
            cluster.advance(minutes=31)
            self.assertEqual(billing.receive().body, b"order 17")
