"""Frames to the byte: what is kept, when a frame is there, and which lengths are too long."""

from __future__ import annotations

import pytest

from pocketmq.protocol.codes import LanguageCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.frame import FrameDecoder
from support.cost import cost_s, slowest_s
from support.wire_pair import frame_bytes, raw_frame

ENCODINGS = [Encoding.JSON, Encoding.ROCKETMQ, Encoding.MSGPACK, Encoding.JSON]
FRAMES = [
    frame_bytes(Command(code, {"a": "b"}, b"body" * code, code, encoding=encoding))
    for code, encoding in enumerate(ENCODINGS)
]


def test_a_frame_is_there_with_its_last_byte_and_nothing_is_kept_of_it() -> None:
    decoder = FrameDecoder()
    assert (decoder.is_between, decoder.pending_bytes, decoder.pending) == (True, 0, b"")
    for code, frame in enumerate(FRAMES):
        for size in range(1, len(frame)):
            assert decoder.feed(frame[size - 1 : size]) == []
            assert (decoder.pending_bytes, decoder.pending) == (size, frame[:size])
            assert not decoder.is_between
        [command] = decoder.feed(frame[-1:])
        assert (command.code, command.encoding) == (code, ENCODINGS[code])
        assert (decoder.is_between, decoder.pending_bytes, decoder.pending) == (True, 0, b"")


def test_a_stream_may_be_cut_once_wherever() -> None:
    stream = b"".join(FRAMES)
    ends = {sum(map(len, FRAMES[:count])) for count in range(1, 5)}
    for cut in range(1, len(stream)):
        decoder = FrameDecoder()
        first = decoder.feed(stream[:cut])
        assert decoder.is_between == (cut in ends)
        commands = first + decoder.feed(stream[cut:])
        assert [(each.code, each.encoding) for each in commands] == list(enumerate(ENCODINGS))
        assert decoder.is_between


def test_a_short_frame_behind_a_long_one_does_not_wait_for_as_many_bytes() -> None:
    long, short = frame_bytes(Command(1, body=bytes(5_000))), frame_bytes(Command(2))
    decoder = FrameDecoder()
    assert decoder.feed(long[:20]) == []
    assert [each.code for each in decoder.feed(long[20:] + short[:2])] == [1]
    assert [each.code for each in decoder.feed(short[2:])] == [2]


def test_a_long_frame_in_small_pieces_is_not_put_together_at_each() -> None:
    frame = frame_bytes(Command(1, body=bytes(8 << 20)))

    def fed() -> None:
        decoder = FrameDecoder()
        for at in range(0, len(frame), 1024):
            commands = decoder.feed(frame[at : at + 1024])
        assert len(commands) == 1

    assert cost_s(fed) < slowest_s()


@pytest.mark.parametrize("piece", [4, 200])
def test_lengths_from_4_to_the_limit_are_taken(piece: int) -> None:
    def failure(total: int, header: int, size: int) -> str:
        data = total.to_bytes(4) + bytes([0]) + header.to_bytes(3) + bytes(100)
        decoder = FrameDecoder(max_frame_bytes=100)
        for at in range(0, size, piece):
            decoder.feed(data[:size][at : at + piece])
        return str(decoder.failure or "")

    assert failure(4, 0, 4) == failure(96, 0, 4) == failure(96, 92, 99) == ""
    assert "header cannot be read" in failure(4, 0, 8)
    assert "header cannot be read" in failure(96, 92, 100)
    assert failure(4, 1, 8) == "a header of 1 bytes in a frame of 4"
    assert failure(96, 93, 8) == "a header of 93 bytes in a frame of 96"
    for total in (3, 97, 104):
        for size in (4, 8, 108):
            error = f"frame length {total} is not between 4 and 96"
            assert failure(total, 0, size) == error


def test_a_header_at_the_limit_is_read_and_a_longer_one_passed_over() -> None:
    frame = frame_bytes(Command(1, {"name": "value"}, b"body", 7))
    header_bytes = int.from_bytes(frame[5:8])
    assert [each.code for each in FrameDecoder(1000, header_bytes).feed(frame)] == [1]
    decoder = FrameDecoder(len(frame), header_bytes - 1)
    assert decoder.feed(frame) == []
    assert [each.request.opaque for each in decoder.too_long] == [7]
    assert (decoder.failure, decoder.is_between, decoder.pending_bytes) == (None, False, 0)
    assert decoder.feed(frame[:-1]) == []
    assert decoder.pending_bytes > 0
    assert [each.code for each in decoder.feed(frame[-1:] + frame_bytes(Command(2)))] == [2]
    assert [each.code for each in decoder.feed(frame + frame_bytes(Command(3)))] == [3]


def test_frames_before_a_header_without_an_opaque_are_still_answered() -> None:
    decoder = FrameDecoder(1000, int.from_bytes(FRAMES[1][5:8]))
    commands = decoder.feed(FRAMES[1] + raw_frame(0, b" " * 200) + FRAMES[1])
    assert [each.code for each in commands] == [1]
    assert "nor does it tell its opaque" in str(decoder.failure)


def test_frames_before_a_header_that_cannot_be_read_are_still_answered() -> None:
    decoder = FrameDecoder()
    commands = decoder.feed(FRAMES[1] + raw_frame(0, b"{") + FRAMES[1])
    assert [each.code for each in commands] == [1]
    assert "the JSON header cannot be read" in str(decoder.failure)


@pytest.mark.parametrize(("known", "unknown"), [(0, 2), (1, 2), (1, 3), (77, 38), (77, 154)])
def test_an_unknown_encoding_behind_a_known_one_is_refused(known: int, unknown: int) -> None:
    frame = next(each for each in FRAMES if each[4] == known)
    decoder = FrameDecoder()
    assert len(decoder.feed(frame + raw_frame(unknown, frame[8:]))) == 1
    assert f"unknown header encoding {unknown}" in str(decoder.failure)


def test_a_language_that_nobody_knows_yet_is_other() -> None:
    frame = frame_bytes(Command(1, encoding=Encoding.ROCKETMQ))
    unknown = frame[:10] + b"\x63" + frame[11:]
    assert FrameDecoder().feed(frame)[0].language != LanguageCode.OTHER
    assert FrameDecoder().feed(unknown)[0].language == LanguageCode.OTHER
