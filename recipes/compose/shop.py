"""A service with RocketMQ's SDK: `python shop.py HOST:PORT`, the address of the proxy."""

import sys

from rocketmq import (
    ClientConfiguration,
    Credentials,
    FilterExpression,
    Message,
    Producer,
    SimpleConsumer,
)

where = ClientConfiguration(sys.argv[1], Credentials(), request_timeout=10)

producer = Producer(where, ("orders",))
producer.startup()
order = Message()
order.topic, order.body = "orders", b"order 17"
producer.send(order)
producer.shutdown()

billing = SimpleConsumer(where, "billing", {"orders": FilterExpression()}, 10)
billing.startup()
while not (received := billing.receive(1, 30)):
    pass
billing.ack(received[0])
print("billed", received[0].body.decode())
billing.shutdown()
