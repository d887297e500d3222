"""The recorded frames are what their names say, read without any code of ours."""

from __future__ import annotations

import struct

import pytest

from support.golden import wire_frames
from support.raw_remoting import parse, split_frames

ENCODINGS = ("json", "rocketmq")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_each_golden_file_holds_exactly_one_frame_in_its_encoding(encoding: str) -> None:
    frames = dict(wire_frames(encoding))
    assert len(frames) > 70
    for name, frame in frames.items():
        assert list(split_frames(frame)) == [frame], name
        assert parse(frame)[0] == encoding, name


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_recorded_response_answers_the_request_beside_it(encoding: str) -> None:
    frames = dict(wire_frames(encoding))
    for name, frame in frames.items():
        _, header = parse(frame)
        if name.endswith(".response"):
            _, request = parse(frames[name.removesuffix("response") + "request"])
            assert header.is_response, name
            assert header.opaque == request.opaque, name


def test_both_encodings_hold_the_same_exchanges() -> None:
    names = [sorted(name for name, _ in wire_frames(encoding)) for encoding in ENCODINGS]
    assert names[0] == names[1]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_found_pull_carries_records_that_fill_its_body(encoding: str) -> None:
    _, header = parse(dict(wire_frames(encoding))["pull_message.response"])
    at = count = 0
    while at < len(header.body):
        (size,) = struct.unpack_from(">i", header.body, at)
        at, count = at + size, count + 1
    assert at == len(header.body)
    assert count > 0
