"""Recordings: what is written comes back, and what is broken is opened as far as it goes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.cluster.recordings.reader import open_index, open_recording
from pocketmq.cluster.recordings.writer import RecordingWriter, index_path
from pocketmq.operation.events import VOCABULARY, Event
from pocketmq.operation.events.frames import (
    FRAME_MS,
    IndexBuilder,
    decode_index,
    encode_index,
    index_of,
)
from pocketmq.operation.events.groups import RouteLearned, queue_texts
from pocketmq.operation.events.messages import MessageStored
from pocketmq.operation.events.recording import (
    MOST_LINE_BYTES,
    RecordingHeader,
    RecordingReader,
    encode_line,
    encode_recording,
    header_of,
)
from pocketmq.operation.events.roles import ClockMoved, EventsCounted
from pocketmq.operation.events.sink import NO_EVENTS, Counted, Place, no_events
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.errors import DiskError
from pocketmq.simulation.event_recorder import EventRecorder
from support.decoded import decode_recording

NUMBERS = st.integers(min_value=-(2**63), max_value=2**63 - 1)
KINDS: dict[type[msgspec.inspect.Type], st.SearchStrategy[object]] = {
    msgspec.inspect.IntType: NUMBERS,
    msgspec.inspect.StrType: st.text(),
    msgspec.inspect.NoneType: st.none(),
}
HEADER = header_of("orders", 1_000, ["nameserver-1", "broker-a"])


def values(kind: msgspec.inspect.Type) -> st.SearchStrategy[object]:
    if isinstance(kind, msgspec.inspect.UnionType):
        return st.one_of(*map(values, kind.types))
    if isinstance(kind, msgspec.inspect.LiteralType):
        return st.sampled_from(kind.values)
    if isinstance(kind, msgspec.inspect.ListType):
        return st.lists(values(kind.item_type))
    return KINDS[type(kind)]


def events_of(kind: type[Event]) -> st.SearchStrategy[Event]:
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    fields = {field.name: values(field.type) for field in info.fields}
    return st.fixed_dictionaries(fields).map(lambda each: kind(**each))  # type: ignore[arg-type]


EVENTS = st.one_of(*map(events_of, VOCABULARY))


def stored(offset: int, at_ms: int = 1_000, real_us: int = 0, key: str | None = None) -> Event:
    return MessageStored(
        at_ms, "broker-a", offset + 1, real_us, topic="orders", broker="broker-a", queue=0,
        offset=offset, physical_offset=100 * offset, size=100, keys=key,
    )  # fmt: skip


@given(st.lists(EVENTS))
def test_every_event_comes_back_as_it_was(events: list[Event]) -> None:
    header, found, problems = decode_recording(encode_recording(HEADER, events))
    assert (header, found, problems) == (HEADER, events, [])


@given(st.lists(EVENTS, max_size=5), st.data())
def test_a_recording_may_be_cut_anywhere(events: list[Event], data: st.DataObject) -> None:
    whole = encode_recording(HEADER, events)
    size = data.draw(st.integers(min_value=0, max_value=len(whole)))
    header, found, problems = decode_recording(whole[:size])
    assert found == events[: len(found)]
    assert (header is None) == (size <= len(encode_line(HEADER)) - 1)
    ends = [len(encode_recording(HEADER, events[:n])) for n in range(len(events) + 1)]
    assert bool(problems) == (size not in ends)


@given(st.lists(EVENTS, max_size=5), st.lists(st.binary(max_size=40), max_size=5))
def test_a_recording_comes_in_any_pieces(events: list[Event], noise: list[bytes]) -> None:
    whole = encode_recording(HEADER, events) + b"\n".join(noise)
    at_once, piece_by_piece = RecordingReader(), RecordingReader()
    lines = at_once.feed(whole)
    in_pieces = [
        line
        for begin in range(0, len(whole), 7)
        for line in piece_by_piece.feed(whole[begin : begin + 7])
    ]
    at_once.finish()
    piece_by_piece.finish()
    assert in_pieces == lines
    assert piece_by_piece.problems == at_once.problems
    for line in lines:
        assert whole[line.offset : line.offset + line.size] == encode_line(line.event)


def test_lines_that_nobody_can_read_are_passed_over_and_named() -> None:
    lines = [
        encode_line(HEADER),
        encode_line(stored(0)),
        b'{"event":"message-eaten","at_ms":1}\n',
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b'{"event":"clock-moved","at_ms":"<script>alert(1)</script>"}\n',
        encode_line(stored(1)),
    ]
    header, found, problems = decode_recording(b"".join(lines))
    assert header is not None
    assert found == [stored(0), stored(1)]
    assert [each.split(" is no event")[0] for each in problems] == [
        "line 3", "line 4", "line 5", "line 6",
    ]  # fmt: skip


def test_many_unreadable_lines_are_counted() -> None:
    _, found, problems = decode_recording(encode_line(HEADER) + b"?\n" * 1000)
    assert found == []
    assert len(problems) == 21
    assert problems[-1] == "and 980 more lines that cannot be read"


def test_a_line_without_end_is_not_kept_in_memory() -> None:
    reader = RecordingReader()
    reader.feed(encode_line(HEADER))
    for _ in range(20):
        assert reader.feed(b"x" * (MOST_LINE_BYTES // 4)) == []
    assert reader.feed(b"\n" + encode_line(stored(7)))[0].event == stored(7)
    reader.finish()
    assert reader.problems == [f"line 2 is longer than {MOST_LINE_BYTES} bytes"]


def test_of_a_recording_that_is_too_long_the_beginning_is_opened() -> None:
    lines = encode_recording(HEADER, map(stored, range(1000)))
    reader = RecordingReader(most_bytes=len(lines) // 2)
    found = [*reader.feed(lines), *reader.feed(lines)]
    assert reader.is_over
    assert [line.event for line in found] == [stored(n) for n in range(len(found))]
    assert 450 < len(found) < 500
    assert "is longer than" in reader.problems[0]


def test_another_version_is_opened_as_far_as_it_is_known() -> None:
    newer = b'{"pocketmq_recording":2,"cluster":"c","began_ms":1,"moods":[]}\n'
    header, found, problems = decode_recording(newer + encode_line(stored(0)))
    assert header == RecordingHeader(2, "c", 1)
    assert found == [stored(0)]
    assert problems == ["it has version 2, and this is version 1: what has changed is left out"]


@pytest.mark.parametrize("data", [b"", b"\n", b"{}\n", b"PK\x03\x04\n", b"[1]\n" * 3])
def test_what_is_no_recording_is_named_so(data: bytes) -> None:
    header, found, problems = decode_recording(data)
    assert header is None
    assert found == []
    assert len(problems) == 1


def test_frames_lead_to_the_bytes_of_their_lines() -> None:
    events = [stored(n, at_ms=1_000 + 30 * n, real_us=n) for n in range(20)]
    events.append(ClockMoved(90_000, "cluster", 1, 20, from_ms=1_570))
    events.append(
        EventsCounted(90_000, "broker-a", 21, 21, kind="message-stored", count=5, topic="orders",
                      queue=0, messages=5)
    )  # fmt: skip
    whole = encode_recording(HEADER, events)
    reader = RecordingReader()
    index = index_of(1_000, reader.feed(whole), len(whole))
    assert (index.began_ms, index.ended_ms, index.events) == (1_000, 90_000, 22)
    assert [frame.at_ms // FRAME_MS for frame in index.frames] == [10, 11, 12, 13, 14, 15, 900]
    again: list[Event] = []
    for frame in index.frames:
        lines = whole[frame.offset : frame.offset + frame.size].splitlines(keepends=True)
        assert len(lines) == frame.events
        again += decode_recording(encode_line(HEADER) + b"".join(lines))[1]
    assert again == events
    assert index.frames[0].counts == {"message-stored": {"broker-a orders/0": 4}}
    assert index.frames[-1].counts == {
        "clock-moved": {"cluster": 1}, "message-stored": {"broker-a orders/0": 5},
    }  # fmt: skip


def test_a_file_is_written_with_its_index_and_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "lesson.jsonl"
    events = [stored(n, key="<script>alert(1)</script>") for n in range(5000)]
    with RecordingWriter(path, "orders", 1_000, ["broker-a"]) as writer:
        for event in events:
            writer.write(event)
    recording = open_recording(path)
    assert recording.events == events
    assert recording.problems == []
    index, problems = open_index(path)
    assert index is not None
    assert problems == []
    assert [frame.events for frame in index.frames] == [2000, 2000, 1000]
    made_anew = index_of(1_000, recording.lines, path.stat().st_size)
    assert made_anew == index


def test_an_index_of_another_recording_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "lesson.jsonl"
    with RecordingWriter(path, "orders", 1_000, ["broker-a"]) as writer:
        for n in range(10):
            writer.write(stored(n))
    path.write_bytes(path.read_bytes()[:-20])
    index, problems = open_index(path)
    assert index is not None
    assert index.events == 9
    assert problems == ["it is cut in the middle of line 11; opened up to there"]
    index_path(path).write_bytes(b"?")
    assert open_index(path) == (index, problems)


def test_a_file_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="No such file"):
        open_recording(tmp_path / "none.jsonl")
    with pytest.raises(DiskError, match="choose another file"):
        RecordingWriter(tmp_path / "none" / "x.jsonl", "orders", 1, [])


def test_a_frame_ends_with_its_tenth_of_a_second_of_either_time() -> None:
    builder = IndexBuilder(1_000)
    for number, (at_ms, real_us) in enumerate([(1_099, 0), (1_100, 0), (1_100, 99_999)]):
        builder.add(stored(number, at_ms, real_us), offset=10 * number, size=10)
    builder.add(stored(3, 1_050, 100_000), offset=30, size=12)
    index = builder.index(42)
    assert [(each.at_ms, each.real_us, each.offset, each.size) for each in index.frames] == [
        (1_099, 0, 0, 10), (1_100, 0, 10, 20), (1_050, 100_000, 30, 12),
    ]  # fmt: skip
    assert [each.events for each in index.frames] == [1, 2, 1]
    assert (index.pocketmq_index, index.frame_ms, index.bytes) == (1, 100, 42)
    assert (index.began_ms, index.ended_ms, index.events) == (1_000, 1_100, 4)
    assert decode_index(encode_index(index), 42) == index
    assert decode_index(encode_index(index), 43) is None
    later = msgspec.structs.replace(index, pocketmq_index=2)
    assert decode_index(encode_index(later), 42) is None
    assert decode_index(b"[1", 42) is None
    empty = IndexBuilder(7).index(0)
    assert (empty.began_ms, empty.ended_ms, empty.events, empty.frames) == (7, 7, 0, [])


def test_a_recording_says_what_it_is_and_each_kind_of_event() -> None:
    header = header_of("orders", 1_000, ("a", "b"))
    assert (header.pocketmq_recording, header.cluster, header.began_ms) == (1, "orders", 1_000)
    assert header.roles == ["a", "b"]
    [moved] = [each for each in header.events if each.name == "clock-moved"]
    assert (moved.fields, moved.rule) == (["from_ms"], ClockMoved.RULE)


def test_a_reader_stops_at_its_bound_and_at_what_is_no_recording() -> None:
    lines = encode_recording(HEADER, map(stored, range(4)))
    exact = RecordingReader(most_bytes=len(lines))
    assert len(exact.feed(lines)) == 4
    assert not exact.is_over
    assert exact.feed(b"") == []
    exact.feed(b"x")
    assert exact.is_over
    exact.finish()
    exact.finish()
    assert exact.problems == [f"the recording is longer than {len(lines)} bytes; opened so far"]
    wrong = RecordingReader()
    assert wrong.feed(b"{}\n" + lines) == []
    assert (wrong.is_over, wrong.header) == (True, None)
    empty = RecordingReader()
    empty.finish()
    assert empty.problems == ["the recording is empty"]
    cut = RecordingReader()
    cut.feed(lines[:-1])
    cut.finish()
    assert cut.problems == ["it is cut in the middle of line 5; opened up to there"]


def test_a_line_may_have_a_mebibyte() -> None:
    reader = RecordingReader()
    reader.feed(encode_line(HEADER) + b"x" * (1 << 20))
    assert reader.problems == []
    reader.feed(b"x")
    assert reader.problems == ["line 2 is longer than 1048576 bytes"]
    reader.finish()
    assert reader.problems[1:] == ["it is cut in the middle of line 2; opened up to there"]
    after = RecordingReader()
    after.feed(encode_line(HEADER) + b"x" * ((1 << 20) + 1))
    [line] = after.feed(b"\n" + encode_line(stored(0)))
    assert line.offset == len(encode_line(HEADER)) + (1 << 20) + 2
    assert line.size == len(encode_line(stored(0)))
    many = RecordingReader()
    many.feed(encode_line(HEADER) + b"?\n" * 21)
    assert len(many.problems) == 21
    assert many.problems[-1] == "and 1 more line that cannot be read"


def test_a_recorder_takes_all_that_its_sinks_tell_in_order() -> None:
    written: list[Event] = []
    recorder = EventRecorder(written.append, lambda: 9)
    one, other = recorder.sink("a", lambda: 5), recorder.sink("b", lambda: 6)
    assert one.is_on
    assert one.wants(ClockMoved)
    assert (one.mask(ClockMoved, 5), one.counter(ClockMoved, Place("t", 0, "a")).count) == (0, 0)
    for sink in (one, other, one):
        sink.emit(ClockMoved(*sink.stamp(), from_ms=0))
    assert [(each.at_ms, each.by, each.seq, each.real_us) for each in written] == [
        (5, "a", 1, 9), (6, "b", 1, 9), (5, "a", 2, 9),
    ]  # fmt: skip


def test_nobody_hears_of_events_unless_they_are_asked_for() -> None:
    silent = no_events("a", lambda: 5)
    assert silent is NO_EVENTS
    assert (silent.is_on, silent.wants(ClockMoved), silent.mask(ClockMoved, 7)) == (False, False, 0)
    assert silent.stamp() == (0, "", 0, 0)
    counted = Counted()
    assert (counted.count, counted.messages, counted.size) == (0, 0, 0)
    counted.add(2, 10)
    counted.add(3, 5)
    assert (counted.count, counted.messages, counted.size) == (2, 5, 15)


def test_a_bound_holds_for_a_recording_that_comes_in_pieces() -> None:
    lines = encode_recording(HEADER, [stored(0)])
    one_less = RecordingReader(most_bytes=len(lines) - 1)
    assert one_less.feed(lines[:-1]) == []
    assert not one_less.is_over
    assert one_less.feed(lines[-1:]) == []
    assert one_less.is_over


def test_a_reader_that_is_told_the_end_twice_says_once_that_a_line_is_cut() -> None:
    reader = RecordingReader()
    reader.feed(encode_line(HEADER)[:-1])
    reader.finish()
    reader.finish()
    assert (reader.is_over, len(reader.problems)) == (True, 1)
    assert reader.feed(b"\n" + encode_line(stored(0))) == []


def test_a_frame_ends_with_its_tenth_of_real_time_while_a_clock_stands() -> None:
    builder = IndexBuilder(1_000)
    for number, real_us in enumerate([0, 99_999, 100_000]):
        builder.add(stored(number, 1_000, real_us), offset=10 * number, size=10)
    route = RouteLearned(1_000, "c1", 1, 100_000, client_id="c1", topic="orders", queues=[])
    builder.add(route, offset=30, size=10)
    index = builder.index(40)
    assert [each.events for each in index.frames] == [2, 2]
    assert index.frames[1].counts["route-learned"] == {"c1": 1}


def test_queues_are_named_in_the_order_of_their_numbers() -> None:
    queues = [MessageQueue(*each) for each in (("t", "b", 10), ("t", "b", 9), ("s", "c", 1))]
    assert queue_texts(queues) == ["s c/1", "t b/9", "t b/10"]


@pytest.mark.parametrize(
    ("line", "left_out"),
    [
        ('"message-sent","topic":"t","broker":"b","queue":0,"unique_key":"k","client_id":"c",'
         '"group":"g","size":9', {"count": 1}),
        ('"message-stored","topic":"t","broker":"b","queue":0,"offset":0,"physical_offset":0,'
         '"size":9', {"attempt": 0}),
        ('"message-consumed","topic":"t","broker":"b","queue":0,"offset":0,"group":"g",'
         '"client_id":"c","status":"success"', {"attempt": 0}),
        ('"broker-registered","broker":"b","nameserver":"n"', {"broker_id": 0}),
        ('"trouble-began","kind":"join","who":"b"', {"lasts_ms": 0}),
        ('"events-counted","kind":"k","count":1,"topic":"t","queue":0', {"messages": 0, "size": 0}),
    ],
)  # fmt: skip
def test_what_a_line_leaves_out_is_one_message_or_nothing(
    line: str, left_out: dict[str, int]
) -> None:
    text = f'{{"event":{line},"at_ms":1,"by":"b","seq":1,"real_us":1}}\n'
    _, [event], problems = decode_recording(encode_line(HEADER) + text.encode())
    assert problems == []
    assert {name: getattr(event, name) for name in left_out} == left_out
