"""Testcontainers: a test gets a cluster in a container of its own, on free ports."""

import json
import socket
import urllib.request

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import HealthcheckWaitStrategy

from pocketmq.client import Message
from pocketmq.client.sync import Producer

with socket.create_server(("127.0.0.1", 0)) as free:
    BROKER = free.getsockname()[1]  # the broker tells it to clients: inside as outside
CLUSTER = (
    DockerContainer("pocketmq", command="--clock manual")
    .with_envs(POCKETMQ_CLUSTER_BROKER_PORT=str(BROKER), POCKETMQ_CONTROL_TOKEN="of-this-test")
    .with_bind_ports(BROKER, BROKER)
    .with_exposed_ports(9876, 9870)
    .waiting_for(HealthcheckWaitStrategy())
)


def ask(container: DockerContainer, path: str, body: dict | None = None) -> str:
    data = json.dumps(body).encode() if body is not None else None
    url = f"http://127.0.0.1:{container.get_exposed_port(9870)}{path}"
    request = urllib.request.Request(url, data, {"Authorization": "Bearer of-this-test"})
    return urllib.request.urlopen(request).read().decode()


def test_an_order_survives_its_broker() -> None:
    with CLUSTER as container:
        ask(container, "/topics", {"name": "orders"})
        with Producer("shop", nameservers=f"127.0.0.1:{container.get_exposed_port(9876)}") as shop:
            shop.send(Message("orders", b"order 17", delay_level=16))  # in half an hour
        for deed in ("kill", "restart"):  # as kill -9 does
            ask(container, f"/roles/broker-a/{deed}", {})
        ask(container, "/clock/advance", {"seconds": 1860})
        assert "order 17" in ask(container, "/messages?topic=orders")
