"""A synchronous program that serves each request in a thread, as Django and Flask do."""

from collections.abc import Callable, Iterable
from typing import Any

from pocketmq.client import Message
from pocketmq.testing import SyncProducer

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def make_app(producer: SyncProducer, topic: str) -> App:
    """The WSGI application: POST /orders stores an order."""

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        order = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        sent = producer.send(Message(topic, order, delay_level=16))
        start_response("202 Accepted", [("Content-Type", "text/plain")])
        return [str(sent.queue).encode()]

    return app
