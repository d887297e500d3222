"""What is told of queues that were read and cannot be read any more: no broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, cast

import pytest

from pocketmq.pipeline.progress.checkpoint import Checkpoint
from pocketmq.pipeline.progress.losses import Loss
from pocketmq.pipeline.progress.missing_queues import missing_losses
from pocketmq.pipeline.topics.cluster_client import ClusterClient
from pocketmq.protocol.bodies.route import BrokerData, TopicRouteData
from pocketmq.protocol.messages.message import MessageQueue

HELD, DELETED, AWAY = (MessageQueue("T", f"broker-{name}", 3) for name in "abc")
NO_TOPIC = MessageQueue("U", "broker-a", 0)


class Cluster:
    """Broker a has topic T and holds 12 messages of its queue 3; b lacks the topic; c is away."""

    async def brokers(self) -> set[str]:
        return {"broker-a", "broker-b"}

    async def route_now(self, topic: str) -> TopicRouteData | None:
        if topic != "T":
            return None
        return TopicRouteData(broker_datas=[BrokerData(cluster="c", broker_name="broker-a")])

    async def ends(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        return {queue: {HELD: 12}[queue] for queue in queues}


def lost(offsets: dict[MessageQueue, int], gone: Iterable[MessageQueue] = ()) -> list[Loss]:
    stand = Checkpoint(offsets, {}, set(gone))
    client: Any = Cluster()
    return asyncio.run(missing_losses(cast(ClusterClient, client), stand, offsets))


def test_what_a_broker_holds_and_does_not_give_out_is_lost_behind_what_was_read() -> None:
    assert lost({HELD: 12}) == []
    (loss,) = lost({HELD: 5})
    assert (loss.queue, loss.wanted, loss.count) == (HELD, 5, 7)
    assert "7 messages from offset 5 on not read" in loss.what


def test_a_queue_of_a_topic_that_its_broker_lacks_is_gone_and_told_once() -> None:
    stand = {DELETED: 5, NO_TOPIC: 0}
    assert [each.queue for each in lost(stand)] == [DELETED, NO_TOPIC]
    assert (
        lost({DELETED: 5})[0].what == "there is no such queue any more; it was read up to offset 5"
    )
    assert [each.queue for each in lost(stand, [DELETED])] == [NO_TOPIC]
    assert lost({HELD: 13})[0].what.startswith("there is no such queue any more")  # another one


def test_a_queue_whose_broker_is_away_is_no_loss_but_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert lost({AWAY: 5}) == []
    assert "broker.missed" in caplog.text
    assert "broker-c" in caplog.text
