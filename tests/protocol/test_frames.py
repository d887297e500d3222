"""Where frames begin and end, wherever the stream is cut (E-1, E-2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.command import Buffer, Command, Encoding
from pocketmq.protocol.errors import FrameError
from pocketmq.protocol.frame import MAX_FRAME_BYTES, FrameDecoder, encode_frame
from support.cost import peak_bytes
from support.strategies import mutated
from support.wire_pair import frame_bytes, raw_frame, request_bytes

ENCODINGS = list(Encoding)

commands = st.builds(
    Command,
    st.integers(0, 0x7FFF),
    st.dictionaries(st.text("abc", max_size=5), st.text("xyz", max_size=5), max_size=3),
    st.binary(max_size=60),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 3),
    st.none() | st.text("remark", min_size=1, max_size=5),
    encoding=st.sampled_from(ENCODINGS),
)


def facts(command: Command) -> tuple[object, ...]:
    return (
        command.code,
        command.opaque,
        command.flag,
        command.remark,
        dict(command.fields),
        bytes(command.body_view),
        command.encoding,
    )


@given(st.lists(commands, max_size=5), st.data())
def test_a_stream_of_frames_may_be_cut_anywhere(sent: list[Command], data: st.DataObject) -> None:
    stream = b"".join(map(frame_bytes, sent))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    decoder, read = FrameDecoder(), []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        if begin != end:
            read += decoder.feed(stream[begin:end])
    assert decoder.failure is None
    assert decoder.pending_bytes == 0
    assert list(map(facts, read)) == list(map(facts, sent))


@given(st.lists(commands, min_size=1, max_size=3))
def test_a_stream_may_arrive_byte_by_byte(sent: list[Command]) -> None:
    stream = b"".join(map(frame_bytes, sent))
    decoder, read = FrameDecoder(), []
    for at in range(len(stream)):
        read += decoder.feed(stream[at : at + 1])
        ended = sum(len(frame_bytes(command)) for command in sent[: len(read)])
        assert decoder.pending_bytes == at + 1 - ended
    assert list(map(facts, read)) == list(map(facts, sent))


def test_a_body_is_a_view_of_what_arrived_and_not_a_copy() -> None:
    data = request_bytes(body=b"x" * 1000)
    [command] = FrameDecoder().feed(data)
    assert isinstance(command.body_view, memoryview)
    assert command.body_view.obj is data


def test_a_body_in_parts_is_written_in_their_order_without_joining_them() -> None:
    parts: list[Buffer] = [memoryview(b"ab"), b"cd", bytearray(b"ef")]
    framed = encode_frame(Command(1, None, parts))
    assert [bytes(part) for part in framed[1:]] == [b"ab", b"cd", b"ef"]
    assert framed[1] is parts[0]
    [command] = FrameDecoder().feed(b"".join(framed))
    assert bytes(command.body_view) == b"abcdef"


# -- bad input (faults 25 and 26) ---------------------------------------------------

BAD_LENGTHS = {
    "16 MiB + 1": 16 * 1024 * 1024 + 1 - 4,
    "2^31 - 1": 2**31 - 1,
    "-1": -1,
    "-2^31": -(2**31),
    "0": 0,
    "less than the header word": 3,
}


@pytest.mark.parametrize("length", BAD_LENGTHS.values(), ids=BAD_LENGTHS.keys())
def test_a_bad_length_is_refused_as_soon_as_its_four_bytes_are_there(
    length: int,
) -> None:  # fault 25
    data = length.to_bytes(4, signed=True)
    decoder = FrameDecoder()
    assert decoder.feed(data) == []
    assert isinstance(decoder.failure, FrameError)
    assert str(length) in str(decoder.failure)
    bytewise = FrameDecoder()
    for byte in data:
        bytewise.feed(bytes([byte]))
    assert bytewise.failure is not None


@pytest.mark.parametrize("length", [*BAD_LENGTHS.values(), MAX_FRAME_BYTES - 4])
def test_nothing_is_allocated_on_the_word_of_a_length(length: int) -> None:  # fault 25
    data = length.to_bytes(4, signed=True) + bytes([77, 0, 0, 9]) + b"short"
    decoder = FrameDecoder()
    assert peak_bytes(lambda: decoder.feed(data)) < 10_000


def test_a_frame_of_exactly_16_mib_is_read_and_one_byte_more_is_not() -> None:
    start = Command(1)
    room = MAX_FRAME_BYTES - len(frame_bytes(start))
    fits = frame_bytes(Command(1, body=bytes(room)))
    assert len(fits) == MAX_FRAME_BYTES
    [command] = FrameDecoder().feed(fits)
    assert len(command.body_view) == room
    with pytest.raises(FrameError, match="may have at most"):
        encode_frame(Command(1, body=bytes(room + 1)))


@pytest.mark.parametrize("cut", [8, 9, 30])
def test_a_header_longer_than_its_frame_is_refused_before_the_frame_is_there(cut: int) -> None:
    frame = (100).to_bytes(4) + bytes([0]) + (97).to_bytes(3) + bytes(96)  # fault 26
    decoder = FrameDecoder()
    decoder.feed(frame[:cut])
    assert decoder.failure is not None
    assert "header" in str(decoder.failure)


@pytest.mark.parametrize("encoding", [2, 3, 76, 78, 0x16, 255])
def test_an_unknown_encoding_is_refused_before_the_frame_is_there(
    encoding: int,
) -> None:  # fault 26
    decoder = FrameDecoder()
    decoder.feed(raw_frame(encoding, b"{}", bytes(5_000))[:8])
    assert decoder.failure is not None
    assert f"encoding {encoding}" in str(decoder.failure)


def test_frames_before_a_bad_one_are_still_answered_and_none_after_it() -> None:
    good, bad = request_bytes(), raw_frame(9, b"x")
    decoder = FrameDecoder()
    assert len(decoder.feed(good + good + bad + good)) == 2
    assert decoder.failure is not None
    assert decoder.feed(good) == []


sound = st.lists(commands, min_size=1, max_size=3).map(
    lambda sent: b"".join(frame_bytes(command) for command in sent)
)


@given(st.binary(max_size=200) | mutated(sound), st.lists(st.integers(1, 50), max_size=6))
def test_whatever_arrives_is_commands_or_one_failure(data: bytes, sizes: list[int]) -> None:
    decoder, at = FrameDecoder(), 0
    for size in [*sizes, len(data)]:
        for command in decoder.feed(data[at : at + size]):
            assert str(command)
            assert isinstance(command.fields, dict)
        at += size
    assert decoder.failure is None or isinstance(decoder.failure, FrameError)


@given(st.sampled_from(ENCODINGS), st.binary(max_size=120))
def test_any_bytes_as_a_header_are_a_command_or_a_frame_error(
    encoding: Encoding, header: bytes
) -> None:
    decoder = FrameDecoder()
    commands = decoder.feed(raw_frame(encoding, header))
    assert bool(commands) != isinstance(decoder.failure, FrameError)
