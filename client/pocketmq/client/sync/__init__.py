"""Producers, consumers and the admin client for programs without an event loop.

The names are those of `pocketmq.client`, without `async` and `await`:

    from pocketmq.client.sync import Message, Producer, PushConsumer

    with Producer("shop", nameservers="127.0.0.1:9876") as producer:
        producer.send(Message("orders", b"hello", tags="new"))

    consumer = PushConsumer("billing", nameservers="127.0.0.1:9876")
    consumer.subscribe("orders", "new || changed")
    with consumer:
        for message in consumer:
            print(message.body)

Any thread may use a client. All of them share one loop in a thread of its own, and calls wait for
what happens there. Listeners that are plain functions run in a pool of threads, and may use these
clients. Selectors, allocation strategies, and callbacks about queues run in the loop's thread,
where a call that waits is refused with a `CallerError`.
"""

from __future__ import annotations

from typing import Any

from pocketmq import client
from pocketmq.client.blocking import DERIVED, blocking

__all__ = list(client.__all__)


def __getattr__(name: str) -> Any:
    if name not in client.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(client, name)
    if name in DERIVED:
        found = blocking(found, __name__)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
