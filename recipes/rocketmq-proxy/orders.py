"""One message of each kind, with RocketMQ's own SDK: `python orders.py 127.0.0.1:8081`."""

import sys
import time

from rocketmq import (
    ClientConfiguration,
    Credentials,
    FilterExpression,
    Message,
    Producer,
    SimpleConsumer,
)

where = ClientConfiguration(sys.argv[1], Credentials(), request_timeout=10)
topics = ("orders", "payments")
producer = Producer(where, topics)
producer.startup()
for topic in topics:
    message = Message()
    message.topic, message.body = topic, b"hello"
    if topic == "payments":
        message.message_group = "customer-17"  # FIFO: in order with others of this group
    producer.send(message)
producer.shutdown()

for topic in topics:
    consumer = SimpleConsumer(where, f"{topic}-billing", {topic: FilterExpression()}, 10)
    consumer.startup()
    # Before its settings have arrived the SDK is refused, and it has no call that waits for them.
    time.sleep(2)  # noqa: TID251
    while not (received := consumer.receive(1, 30)):
        pass
    consumer.ack(received[0])
    print(topic, received[0].message_group, received[0].body.decode())
    consumer.shutdown()
