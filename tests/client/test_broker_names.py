"""Requests name the broker that they are for, as rocketmq-proxy needs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pocketmq.client import ConsumeConcurrentlyStatus, ConsumeFromWhere, Message
from pocketmq.protocol.codes import RequestCode
from support.memory_cluster import memory_cluster

NAMING = {
    RequestCode.SEND_MESSAGE_V2: "n",
    RequestCode.PULL_MESSAGE: "bname",
    RequestCode.QUERY_CONSUMER_OFFSET: "bname",
    RequestCode.UPDATE_CONSUMER_OFFSET: "bname",
    RequestCode.CONSUMER_SEND_MSG_BACK: "bname",
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: "bname",
}


async def test_every_request_about_a_queue_names_its_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: dict[int, set[str]] = {}
    async with memory_cluster(tmp_path) as cluster:
        dispatcher = cluster.brokers["a"].dispatcher
        process, gather = dispatcher.process, dispatcher.gather

        def note(request: Any) -> None:
            field = NAMING.get(request.code)
            if field is not None:
                named.setdefault(request.code, set()).add(str(request.fields.get(field)))

        def listen(peer: Any, request: Any) -> Any:
            note(request)
            return process(peer, request)

        def listen_to_all(peer: Any, requests: Any, *more: Any) -> Any:
            for request in requests:
                note(request)
            return gather(peer, requests, *more)

        monkeypatch.setattr(dispatcher, "process", listen)
        monkeypatch.setattr(dispatcher, "gather", listen_to_all)
        await cluster.create_topic("T", queues=1)

        def refuse(_: object) -> ConsumeConcurrentlyStatus:
            return ConsumeConcurrentlyStatus.RECONSUME_LATER

        consumer = cluster.consumer(
            consume_from_where=ConsumeFromWhere.TIMESTAMP, consume_timestamp=1_600_000_000_000
        )
        consumer.subscribe("T")
        consumer.listen(refuse)
        async with cluster.producer() as producer, consumer:
            await producer.send(Message("T", b"1"))
            await cluster.until(
                lambda: RequestCode.CONSUMER_SEND_MSG_BACK in named, "it is sent back"
            )
            await cluster.advance(20)
    assert named == {code: {"a"} for code in NAMING}
