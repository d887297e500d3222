"""Where an export or a replay goes on, and what it says is lost: no store, no broker."""

from __future__ import annotations

import pytest

from pocketmq.pipeline.errors import DataLossError
from pocketmq.pipeline.progress.checkpoint import Checkpoint, Mark
from pocketmq.pipeline.progress.resume import (
    Losses,
    Resumed,
    check_unchanged,
    left,
    marked_places,
    moved_on,
    resume,
)
from pocketmq.protocol.messages.message import MessageQueue

QUEUE = MessageQueue("T", "broker-a", 0)
OTHER = MessageQueue("T", "broker-a", 1)
WAS, NOW = Mark(1000, 4711), Mark(2000, 4711)


@pytest.mark.parametrize("at", [10, 15, 20])
def test_a_queue_that_is_as_it_was_is_read_on(at: int) -> None:
    stand = Checkpoint({QUEUE: at}, {QUEUE: WAS})
    assert resume(QUEUE, stand, (10, 20), WAS) == Resumed(at)
    assert resume(QUEUE, stand, (10, 20), None) == Resumed(at)  # retention took the message
    assert resume(QUEUE, Checkpoint({QUEUE: at}), (10, 20), NOW) == Resumed(at)


@pytest.mark.parametrize(
    ("at", "now", "count", "told"),
    [
        (9, None, 1, r"offsets 9 to 9 \(1 message\).*now begins at 10"),
        (0, None, 10, r"offsets 0 to 9 \(10 messages\)"),
        (21, None, 10, "offset 21 does not exist; the queue now ends at 20: the topic was made"),
        (15, NOW, 10, "offset 14 has another message .*stored at 2000 ms and not at 1000 ms"),
        (15, Mark(1000, 4712), 10, "offset 14 has another message"),
    ],
)
def test_a_loss_is_named_and_reading_goes_on_at_the_begin_only_if_asked(
    at: int, now: Mark | None, count: int, told: str
) -> None:
    stand = Checkpoint({QUEUE: at}, {QUEUE: WAS})
    offset, loss = resume(QUEUE, stand, (10, 20), now)
    assert offset == 10
    with pytest.raises(DataLossError, match=f"{told}.*; do this$"):
        Losses(fails=True, advice="do this").judge([loss])
    counted = Losses(fails=False, advice="")
    counted.judge([None, loss])
    assert counted.count == count


def test_a_queue_that_nothing_is_noted_of_is_new_only_where_all_queues_are_noted() -> None:
    assert resume(OTHER, Checkpoint({}), (10, 20), None) == Resumed(10)
    assert resume(OTHER, Checkpoint({QUEUE: 5}), (10, 20), None) == Resumed(10)
    stand = Checkpoint({QUEUE: 5}, {QUEUE: WAS})
    assert resume(OTHER, stand, (0, 20), None) == Resumed(0)
    offset, loss = resume(OTHER, stand, (10, 20), None)
    assert offset == 10
    assert loss is not None
    assert (
        loss.what == "is new and begins at 10: messages 0 to 9 were removed before they were read"
    )


def test_a_queue_that_is_not_there_is_missed_once_and_what_is_left_of_it_each_time() -> None:
    stand = Checkpoint({QUEUE: 5}, {QUEUE: WAS})
    told = Checkpoint({QUEUE: 5}, {QUEUE: WAS}, {QUEUE})
    assert left(QUEUE, stand, 5) is None
    for end in (None, 4):
        losses = Losses(fails=False, advice="")
        losses.judge([left(QUEUE, stand, end)])
        assert (losses.count, losses.gone) == (0, {QUEUE})
        assert left(QUEUE, told, end) is None
    for each in (stand, told):
        losses = Losses(fails=False, advice="")
        losses.judge([left(QUEUE, each, 7)])
        assert (losses.count, losses.gone) == (2, set())
    assert not moved_on(told, {QUEUE: (6, NOW)}).gone


def test_the_first_of_several_losses_is_named() -> None:
    stand = Checkpoint({QUEUE: 30, OTHER: 40})
    losses = [resume(queue, stand, (0, 20), None).loss for queue in (OTHER, QUEUE)]
    with pytest.raises(DataLossError, match=r"queueId=0\]: offset 30 .* \(and 1 more queue like"):
        Losses(fails=True, advice="do this").judge(losses)


def test_marks_are_compared_where_their_message_can_be_stored() -> None:
    other = MessageQueue("U", "broker-a", 0)
    stand = Checkpoint({QUEUE: 10, OTHER: 5, other: 7}, {QUEUE: WAS, OTHER: WAS, other: WAS})
    assert marked_places(stand, {QUEUE: (9, 10), OTHER: (5, 9)}) == {QUEUE: 9}
    assert marked_places(stand, {QUEUE: (0, 9)}) == {}


def test_a_queue_that_changes_while_it_is_read_is_noticed() -> None:
    stand = Checkpoint({QUEUE: 10, OTHER: 5}, {QUEUE: WAS})
    check_unchanged(stand, {QUEUE: WAS, OTHER: NOW})
    check_unchanged(stand, {})
    with pytest.raises(DataLossError, match="offset 9 has another message"):
        check_unchanged(stand, {QUEUE: NOW})


def test_a_mark_belongs_to_its_offset() -> None:
    stand = Checkpoint({QUEUE: 10, OTHER: 5}, {QUEUE: WAS, OTHER: WAS})
    assert moved_on(stand, {QUEUE: (12, NOW)}) == Checkpoint(
        {QUEUE: 12, OTHER: 5}, {QUEUE: NOW, OTHER: WAS}
    )
    assert moved_on(stand, {QUEUE: (12, None)}) == Checkpoint({QUEUE: 12, OTHER: 5}, {OTHER: WAS})
