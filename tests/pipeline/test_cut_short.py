"""Exports and replays after a failover to a shorter log: told as such, nothing is read twice."""

from __future__ import annotations

import pytest

from pocketmq.pipeline.errors import DataLossError
from pocketmq.pipeline.jobs import sources
from pocketmq.pipeline.options.offsets import Offsets
from pocketmq.pipeline.progress.checkpoint import Checkpoint, Mark
from pocketmq.pipeline.progress.cut_short import cuts_by
from pocketmq.pipeline.progress.losses import Loss
from pocketmq.pipeline.progress.resume import Losses, others, resume
from pocketmq.pipeline.topics.settings import ReadSettings
from pocketmq.protocol.messages.message import MessageQueue
from support.fake_topics import FakeClient, FakeTopics

QUEUE = MessageQueue("T", "a", 0)

Found = tuple[int, Loss | None]


def read_up_to(cluster: FakeTopics, count: int) -> Checkpoint:
    """What an export or replay notes that has read so many messages."""
    cluster.send(count)
    return Checkpoint({QUEUE: count}, {QUEUE: cluster.queue().messages[count - 1]})


async def replayed(
    cluster: FakeTopics, stand: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> Found:
    """Where a replay goes on, and what it tells."""
    settings = ReadSettings({"nameServer": "127.0.0.1:1", "topic": "T"})
    client = FakeClient(settings, cluster)
    monkeypatch.setattr("pocketmq.pipeline.topics.cluster_client.client_on_loop", lambda _: client)
    (found,) = await sources._topic_queues(settings, stand)
    return found.low, found.loss


def stored(cluster: FakeTopics, stand: Checkpoint) -> Found:
    """The same of a store, whose marks are read at once."""
    messages = cluster.queue().messages

    def marks(places: Offsets) -> dict[MessageQueue, Mark]:
        return {queue: messages[at] for queue, at in places.items() if 0 <= at < len(messages)}

    bounds = {QUEUE: (0, len(messages))}
    now = marks({QUEUE: stand.offsets[QUEUE] - 1})
    suspects = others(stand, bounds, now)
    cut = cuts_by(marks, stand, suspects, {QUEUE: 0}, {QUEUE: len(messages)})
    return resume(QUEUE, stand, bounds[QUEUE], now.get(QUEUE), cut.get(QUEUE))


async def every_way(
    cluster: FakeTopics, stand: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> list[Found]:
    return [
        await replayed(cluster, stand, monkeypatch),
        stored(cluster, stand),
    ]


@pytest.mark.parametrize("since", [0, 4, 10, 30])
async def test_a_queue_that_was_cut_short_is_read_on_behind_what_is_left_of_it(
    since: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeTopics()
    stand = read_up_to(cluster, 5_010)
    cluster.cut(10)
    cluster.send(since)
    says = "the same queue up to 5000: its last 10 messages are lost.* reads nothing twice"
    for begin, loss in await every_way(cluster, stand, monkeypatch):
        assert begin == 5_000
        with pytest.raises(DataLossError, match=says):
            Losses(fails=True, advice="").judge([loss])
        counted = Losses(fails=False, advice="")
        counted.judge([loss])
        assert counted.count == 10


@pytest.mark.parametrize("again", [0, 4, 10, 30])
async def test_a_queue_that_was_made_anew_is_said_to_be_read_from_its_beginning(
    again: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeTopics()
    stand = read_up_to(cluster, 10)
    cluster.remake()
    cluster.send(again)
    says = "the topic was made anew.*reads all of it, what was copied into it a second time"
    for begin, loss in await every_way(cluster, stand, monkeypatch):
        assert begin == 0
        with pytest.raises(DataLossError, match=says):
            Losses(fails=True, advice="").judge([loss])


@pytest.mark.parametrize("count", [5, 30])
async def test_a_queue_that_was_made_anew_in_the_same_millisecond_is_told_by_places_in_the_log(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeTopics()
    stand = Checkpoint({QUEUE: 10}, {QUEUE: Mark(1_000, 900)})
    cluster.queue().messages = [Mark(1_000, 1_000 + 100 * each) for each in range(count)]
    for begin, loss in await every_way(cluster, stand, monkeypatch):
        assert begin == 0
        assert loss is not None
        assert "made anew" in loss.what


async def test_what_comes_with_a_clock_that_is_behind_is_not_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing tells where it begins, so all of the queue is read, and that is said."""
    cluster = FakeTopics()
    stand = read_up_to(cluster, 10)
    cluster.cut(2)
    cluster.now_ms -= 40
    cluster.send(2)
    for begin, loss in await every_way(cluster, stand, monkeypatch):
        assert begin == 0
        assert loss is not None
        assert "reads all of it" in loss.what


async def test_a_queue_that_is_as_it_was_costs_no_look_at_early_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = FakeTopics()
    stand = read_up_to(cluster, 10)
    cluster.send(3)
    for begin, loss in await every_way(cluster, stand, monkeypatch):
        assert (begin, loss) == (10, None)
