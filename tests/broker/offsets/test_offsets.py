"""ConsumerOffsetManager: committed offsets, resets, and the file's shape."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.broker.offsets.consumer_offsets import ConsumerOffsetManager
from pocketmq.broker.offsets.topic_groups import TopicGroups
from pocketmq.operation.events.event import Event
from pocketmq.operation.events.messages import OffsetCommitted
from pocketmq.operation.events.sink import EventSink, Place, Stamp
from pocketmq.protocol import fastjson
from pocketmq.protocol.bodies.offsets import ConsumerOffsetTable
from pocketmq.simulation.event_recorder import EventRecorder
from support.broker_rig import BrokerRig
from support.growth import least_s

NOW_MS = 1_700_000_000_000


def test_a_committed_offset_is_found_and_0_is_one() -> None:  # B-31, T-2
    offsets = ConsumerOffsetManager()
    assert offsets.query("g", "t", 0) is None
    offsets.commit("g", "t", 0, 0, NOW_MS)
    assert offsets.query("g", "t", 0) == 0
    assert offsets.query("g", "t", 1) is None
    assert offsets.query("other", "t", 0) is None


def test_a_smaller_offset_is_accepted() -> None:  # B-32
    offsets = ConsumerOffsetManager()
    assert offsets.commit("g", "t", 0, 10, NOW_MS) is None
    assert offsets.commit("g", "t", 0, 3, NOW_MS) == 10
    assert offsets.query("g", "t", 0) == 3


def test_a_commit_of_the_same_offset_tells_what_was_stored_and_needs_no_save() -> None:  # B-32
    offsets = ConsumerOffsetManager()
    offsets.commit("g", "t", 0, 7, NOW_MS)
    assert offsets.unsaved.take()
    assert offsets.commit("g", "t", 0, 7, NOW_MS) == 7
    assert not offsets.unsaved


def test_a_stored_minus_one_reads_as_none() -> None:
    offsets = ConsumerOffsetManager()
    offsets.commit("g", "t", 0, -1, NOW_MS)
    assert offsets.query("g", "t", 0) is None


def test_the_version_moves_every_500_commits() -> None:  # B-32
    offsets = ConsumerOffsetManager()
    for n in range(1499):
        offsets.commit("g", "t", 0, n, NOW_MS)
    assert offsets.data_version.counter == 2
    offsets.commit("g", "t", 0, 1500, NOW_MS)
    assert offsets.data_version.counter == 3


def test_a_reset_waits_for_the_next_pull_and_is_taken_once() -> None:  # B-33, B-34
    offsets = ConsumerOffsetManager()
    offsets.commit("g", "t", 0, 10, NOW_MS)
    offsets.assign_reset("g", "t", 0, 4)
    assert offsets.pending_reset("g", "t", 0) == 4
    assert offsets.query("g", "t", 0) == 4
    assert offsets.take_reset("g", "t", 1) is None
    assert offsets.take_reset("g", "t", 0) == 4
    assert offsets.take_reset("g", "t", 0) is None
    assert offsets.pending_reset("g", "t", 0) is None


def test_the_pull_offset_is_the_last_pull_or_the_committed_one() -> None:  # B-35
    offsets = ConsumerOffsetManager()
    assert offsets.pulled("g", "t", 0) == 0
    offsets.commit("g", "t", 0, 5, NOW_MS)
    assert offsets.pulled("g", "t", 0) == 5
    offsets.note_pull("g", "t", 0, 9)
    assert offsets.pulled("g", "t", 0) == 9


def test_a_deleted_topic_or_group_takes_its_offsets_along() -> None:  # B-16
    offsets = ConsumerOffsetManager()
    for group, topic in (("g", "t"), ("h", "t"), ("g", "u")):
        offsets.commit(group, topic, 0, 1, NOW_MS)
    offsets.forget_topic("t")
    assert [(topic, group) for topic, group, _ in offsets.entries()] == [("u", "g")]
    assert offsets.topics_of("g") == {"u"}
    offsets.forget_group("g")
    assert list(offsets.entries()) == []
    assert offsets.groups_of("u") == frozenset()


def test_offsets_beyond_the_end_of_their_queue_are_pulled_back() -> None:  # fault 7
    offsets = ConsumerOffsetManager()
    offsets.commit("g", "t", 0, 10, NOW_MS)
    offsets.commit("g", "t", 1, 10, NOW_MS)
    assert offsets.clamp(lambda _topic, queue_id: 7 if queue_id else 10) == [("t", "g", 1, 10)]
    assert offsets.query("g", "t", 0) == 10
    assert offsets.query("g", "t", 1) == 7


def test_the_table_has_rocketmqs_shape_in_json() -> None:  # B-31, E-67
    offsets = ConsumerOffsetManager()
    offsets.commit("g", "t", 0, 123, NOW_MS)
    written = msgspec.json.decode(msgspec.json.encode(offsets.wrapper()))
    assert written["offsetTable"] == {"t@g": {"0": 123}}
    assert set(written["dataVersion"]) == {"stateVersion", "timestamp", "counter"}


def test_a_file_with_raw_integer_keys_is_read() -> None:  # B-31, T-7
    text = (
        '{"dataVersion":{"counter":3,"stateVersion":0,"timestamp":9},"offsetTable":{"t@g":{0:5}}}'
    )
    stored = msgspec.convert(fastjson.parse(text), ConsumerOffsetTable, strict=False, str_keys=True)
    offsets = ConsumerOffsetManager()
    offsets.load(stored)
    assert offsets.query("g", "t", 0) == 5
    assert offsets.data_version.counter == 3


names = st.text("ab%-_", min_size=1, max_size=4)


@given(st.lists(st.tuples(names, names, st.integers(0, 3), st.integers(0, 99)), max_size=20))
def test_what_was_stored_is_loaded_again(commits: list[tuple[str, str, int, int]]) -> None:  # B-31
    offsets, again = ConsumerOffsetManager(), ConsumerOffsetManager()
    for group, topic, queue_id, offset in commits:
        offsets.commit(group, topic, queue_id, offset, NOW_MS)
    content = msgspec.json.decode(msgspec.json.encode(offsets.wrapper()))
    again.load(msgspec.convert(content, ConsumerOffsetTable, strict=False, str_keys=True))
    assert again.wrapper() == offsets.wrapper()
    for group, topic, _, _ in commits:
        assert again.groups_of(topic) == offsets.groups_of(topic)
        assert again.topics_of(group) == offsets.topics_of(group)


def test_a_name_that_the_broker_made_up_is_kept_whatever_is_removed() -> None:  # B-36
    offsets, again = ConsumerOffsetManager(), ConsumerOffsetManager()
    offsets.commit("g@broadcast", "t", 0, 5, NOW_MS)
    assert offsets.wrapper().offset_table == {"t@g@broadcast": {0: 5}}
    again.load(offsets.wrapper())
    assert again.query("g@broadcast", "t", 0) == 5
    assert again.groups_of("t") == frozenset(), "nobody consumes under this name"
    again.forget_topic("t")
    assert again.query("g@broadcast", "t", 0) is None


def test_committed_offsets_are_counted_once() -> None:
    offsets = ConsumerOffsetManager()
    assert offsets.count == 0
    for queue_id, offset in [(0, 1), (0, 2), (1, 1)]:
        offsets.commit("g", "t", queue_id, offset, NOW_MS)
    assert offsets.count == 2


def test_a_commit_that_changes_nothing_is_not_told_and_not_saved() -> None:
    told: list[Event] = []
    sink = EventRecorder(told.append, lambda: 0).sink("broker-a", lambda: 0)
    offsets = ConsumerOffsetManager(sink, "broker-a")
    offsets.commit("g", "t", 3, 5, NOW_MS)
    offsets.commit("g", "t", 3, 5, NOW_MS)
    offsets.commit("g", "t", 3, 7, NOW_MS)
    found = [
        (each.group, each.topic, each.broker, each.queue, each.offset, each.before)
        for each in told
        if isinstance(each, OffsetCommitted)
    ]
    assert found == [("g", "t", "broker-a", 3, 5, None), ("g", "t", "broker-a", 3, 7, 5)]


def test_a_commit_that_only_moves_the_version_is_not_told() -> None:  # B-32
    told: list[Event] = []
    recorder = EventRecorder(told.append, lambda: 0)
    offsets = ConsumerOffsetManager(recorder.sink("broker-a", lambda: 0))
    for _ in range(500):
        offsets.commit("g", "t", 3, 5, NOW_MS)
    assert offsets.data_version.counter == 1
    assert len(told) == 1


class Busy(EventSink):
    """Wants no event singly, as a log does that was told very many within half a second."""

    def __init__(self) -> None:
        self.counted: list[tuple[type[Event], Place, int]] = []

    @property
    def is_on(self) -> bool:
        return True

    def stamp(self) -> Stamp:
        raise AssertionError("no event is made")

    def emit(self, event: Event) -> None:
        raise AssertionError("no event is told")

    def wants(self, kind: type[Event], number: int = 0) -> bool:
        return False

    def count(self, kind: type[Event], place: Place, messages: int = 1, size: int = 0) -> None:
        self.counted.append((kind, place, messages))


def test_of_very_many_commits_the_rest_is_counted() -> None:
    busy = Busy()
    offsets = ConsumerOffsetManager(busy, "broker-a")
    offsets.commit("g", "t", 3, 5, NOW_MS)
    place = Place("t", 3, "broker-a", "g")
    assert busy.counted == [(OffsetCommitted, place, 0)], "a commit is about no message of its own"


def test_offsets_are_counted_however_they_come_and_go() -> None:
    offsets = ConsumerOffsetManager()
    offsets.assign_reset("g", "t", 0, 4)
    offsets.assign_reset("g", "t", 1, 4)
    offsets.assign_reset("g", "t", 0, 5)
    assert offsets.count == 2
    offsets.commit("other", "t", 0, 1, NOW_MS)
    offsets.forget("g", "t")
    offsets.forget("g", "t")
    assert offsets.count == 1
    again = ConsumerOffsetManager()
    again.load(offsets.wrapper())
    assert again.count == 1
    again.merge(ConsumerOffsetTable(offset_table={"t@g": {0: 1, 1: 1}, "t@other": {2: 1}}))
    assert again.count == 3, "those of a master, too"
    again.forget_topic("t")
    assert again.count == 0


def test_what_changes_the_table_has_it_saved() -> None:  # B-31
    offsets = ConsumerOffsetManager()
    table = ConsumerOffsetTable(offset_table={"t@g": {0: 7}})
    offsets.commit("g", "t", 0, 5, NOW_MS)
    assert offsets.unsaved.take()
    offsets.commit("g", "t", 0, 5, NOW_MS)
    assert not offsets.unsaved.take()
    offsets.assign_reset("g", "t", 0, 4)
    assert offsets.unsaved.take()
    offsets.merge(table)
    assert offsets.unsaved.take()
    offsets.merge(table)
    assert not offsets.unsaved.take()
    assert offsets.clamp(lambda _topic, _queue_id: 7) == []
    assert not offsets.unsaved.take()
    assert offsets.clamp(lambda _topic, _queue_id: 6) == [("t", "g", 0, 7)]
    assert offsets.unsaved.take()
    offsets.forget("g", "t")
    assert offsets.unsaved.take()


def test_all_groups_of_a_master_are_taken_over() -> None:  # H-70, H-12
    offsets = ConsumerOffsetManager()
    offsets.commit("g", "t", 0, 5, NOW_MS)
    offsets.commit("g", "t", 1, 5, NOW_MS)
    master = {"nonsense": {0: 1}, "t@g": {0: 7}, "t@h": {0: 1}}
    offsets.merge(ConsumerOffsetTable(offset_table=master))
    assert dict(offsets.queues("g", "t")) == {0: 7}
    assert dict(offsets.queues("h", "t")) == {0: 1}


def test_a_group_without_offsets_is_in_no_index() -> None:
    offsets = ConsumerOffsetManager()
    offsets.commit("g", "t", 0, 5, NOW_MS)
    offsets.commit("g", "u", 0, 5, NOW_MS)
    offsets.forget("g", "t")
    assert offsets.topics_of("g") == {"u"}
    offsets.forget_group("g")
    assert offsets._committed_by == TopicGroups()
    offsets.assign_reset("g", "t", 0, 4)
    assert offsets.take_reset("g", "t", 0) == 4
    assert offsets.pending_reset("g", "t", 0) is None
    assert offsets._resets == {}


def test_with_its_topic_or_group_it_is_forgotten_up_to_where_was_pulled() -> None:
    # Who pulls and commits nothing was remembered for ever.
    offsets = ConsumerOffsetManager()
    for topic, group in (("t", "g"), ("t", "h"), ("u", "g")):
        offsets.note_pull(group, topic, 0, 9)
    offsets.forget_topic("t")
    assert list(offsets.pulls()) == [("u", "g", 0, 9)]
    offsets.forget_group("g")
    assert list(offsets.pulls()) == []


def test_who_pulls_without_a_commit_or_a_subscription_is_forgotten_after_a_while() -> None:
    offsets = ConsumerOffsetManager()
    offsets.commit("commits", "t", 0, 5, NOW_MS)
    for group in ("commits", "subscribes", "neither"):
        offsets.note_pull(group, "t", 0, 9)
    offsets.forget_pulls(lambda group, _topic: group == "subscribes")
    assert [group for _, group, _, _ in offsets.pulls()] == ["commits", "subscribes"]
    offsets.note_pull("neither", "t", 0, 10)
    assert offsets.pulled("neither", "t", 0) == 10, "it is known again with its next pull"
    offsets.forget_topic("t")
    assert list(offsets.pulls()) == []


async def test_offsets_stay_though_nobody_subscribes_and_all_messages_are_gone(
    rig: BrokerRig, monkeypatch: pytest.MonkeyPatch
) -> None:  # B-36
    offsets = rig.broker.offsets
    offsets.commit("away", "orders", 0, 5, NOW_MS)
    offsets.note_pull("gone", "orders", 0, 3)
    monkeypatch.setattr(rig.broker.store.reads, "min_offset", lambda _topic, _queue: 9)
    await rig.advance(400)
    assert offsets.query("away", "orders", 0) == 5, "else it would begin at the end"
    assert list(offsets.pulls()) == [], "it committed nothing, and nobody of it is there"


def test_a_table_is_told_without_making_the_names_again() -> None:
    offsets = ConsumerOffsetManager()
    for number in range(50_000):
        offsets.commit(f"group-{number}", "topic", 0, number, NOW_MS)
    plain = dict.fromkeys(range(50_000))
    copied_s = least_s(lambda: dict(plain), runs=10, steps=1)
    assert least_s(offsets.wrapper, runs=10, steps=1) < 8 * copied_s
    told = offsets.wrapper().offset_table
    assert (len(told), told["topic@group-7"]) == (50_000, {0: 7})
