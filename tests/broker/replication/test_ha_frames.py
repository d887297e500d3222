"""The bytes between master and slave, however the network cuts them (H-20, H-30, H-100, H-101)."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.broker.replication.auto_switch_frames import (
    EpochFrame,
    LinkState,
    MasterHandshake,
    MasterMessages,
    SlaveHandshake,
    SlaveMessages,
    SlaveReport,
    encode_head,
    encode_master_handshake,
    encode_report,
    encode_slave_handshake,
)
from pocketmq.broker.replication.epochs import Epoch
from pocketmq.broker.replication.ha_frames import (
    Frame,
    FrameReader,
    HaStreamError,
    ReportReader,
)
from pocketmq.broker.replication.ha_frames import encode_head as encode_plain_head
from pocketmq.broker.replication.ha_frames import encode_report as encode_plain_report

offsets = st.integers(0, 2**62)
bodies = st.binary(max_size=300)
cuts = st.lists(st.integers(1, 50), min_size=1, max_size=20)


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    """`data` in pieces of these sizes, again and again."""
    pieces, at, n = [], 0, 0
    while at < len(data):
        pieces.append(data[at : at + sizes[n % len(sizes)]])
        at, n = at + len(pieces[-1]), n + 1
    return pieces


def test_plain_messages_are_the_bytes_that_rocketmq_sends() -> None:
    assert encode_plain_report(4096).hex() == "0000000000001000"
    assert encode_plain_head(4096, 100).hex() == "000000000000100000000064"


def test_messages_of_controller_mode_are_the_bytes_that_rocketmq_sends() -> None:
    assert encode_slave_handshake(SlaveHandshake(2)).hex() == "0000000100000000" + (
        "0000000000000002"
    )
    assert encode_master_handshake(4096, 3, [Epoch(3, 0)]).hex() == (
        "000000010000000c000000000000100000000003000000030000000000000000"
    )
    assert encode_report(4096).hex() == "000000020000000000001000"
    assert encode_head(4096, 100, Epoch(3, 2048), 4000).hex() == (
        "00000002000000640000000000001000000000030000000000000800" + "0000000000000fa0"
    )
    assert [state.value for state in LinkState] == [0, 1, 2, 3, 4]


def test_a_master_tells_its_newest_thousand_epochs() -> None:  # H-100
    epochs = [Epoch(n, n) for n in range(1, 1004)]
    [told] = MasterMessages().feed(encode_master_handshake(5000, 1003, epochs))
    assert told == MasterHandshake(5000, 1003, tuple(epochs[3:]))


def test_the_longest_body_and_the_lowest_offset_are_taken() -> None:  # H-100
    plain, body = FrameReader(max_body_bytes=10), b"0123456789"
    assert list(plain.feed(encode_plain_head(-1, 0))) == [Frame(-1, b"")]
    assert list(plain.feed(encode_plain_head(7, 10) + body)) == [Frame(7, body)]
    modern, epoch = MasterMessages(max_body_bytes=10), Epoch(3, 2)
    assert list(modern.feed(encode_head(7, 10, epoch, 4) + body)) == [EpochFrame(7, 3, 2, 4, body)]
    for reader, data in (
        (plain, encode_plain_head(0, 11)),
        (plain, encode_plain_head(-2, 0)),
        (modern, encode_head(0, 11, epoch, 4)),
        (modern, encode_head(-2, 0, epoch, 4)),
    ):
        with pytest.raises(HaStreamError):
            list(reader.feed(data))


def test_a_slave_without_any_log_reports_0() -> None:  # H-30
    assert ReportReader().feed(encode_plain_report(0)) == 0
    assert list(SlaveMessages().feed(encode_report(0))) == [SlaveReport(0)]


@given(frames=st.lists(st.tuples(offsets, bodies), max_size=8), sizes=cuts)
def test_frames_come_out_as_they_went_in(frames: list[tuple[int, bytes]], sizes: list[int]) -> None:
    data = b"".join(encode_plain_head(at, len(body)) + body for at, body in frames)
    reader = FrameReader()
    found = [frame for piece in cut(data, sizes) for frame in reader.feed(piece)]
    assert found == [Frame(*frame) for frame in frames]
    assert reader.waiting_bytes == 0


@given(reports=st.lists(offsets, min_size=1, max_size=9), sizes=cuts)
def test_the_last_report_of_each_read_counts(reports: list[int], sizes: list[int]) -> None:
    data = b"".join(map(encode_plain_report, reports))
    reader = ReportReader()
    pieces = cut(data, sizes)
    heard = [reader.feed(piece) for piece in pieces]
    whole = [end // 8 for end in accumulate(map(len, pieces))]
    expected = [
        reports[count - 1] if count > before else None
        for before, count in zip([0, *whole], whole, strict=False)
    ]
    assert heard == expected


@given(
    ids=st.integers(1, 9), reports=st.lists(offsets, max_size=5), sizes=cuts, flags=st.booleans()
)
def test_a_slaves_messages_wait_for_their_whole_size(
    ids: int, reports: list[int], sizes: list[int], flags: bool
) -> None:
    asked = SlaveHandshake(ids, flags, not flags)
    data = encode_slave_handshake(asked) + b"".join(map(encode_report, reports))
    reader = SlaveMessages()
    found = [each for piece in cut(data, sizes) for each in reader.feed(piece)]
    assert found == [asked, *map(SlaveReport, reports)]


@given(starts=st.lists(offsets, max_size=6, unique=True).map(sorted), body=bodies, sizes=cuts)
def test_a_masters_messages_wait_for_their_whole_size(
    starts: list[int], body: bytes, sizes: list[int]
) -> None:
    epochs = tuple(Epoch(n + 1, start) for n, start in enumerate(starts))
    data = (
        encode_master_handshake(77, len(epochs), epochs)
        + encode_head(5, len(body), Epoch(3, 2), 4)
        + body
        + encode_head(-1, 0, Epoch(3, 2), 4)
    )
    reader = MasterMessages()
    found = [each for piece in cut(data, sizes) for each in reader.feed(piece)]
    assert found == [
        MasterHandshake(77, len(epochs), epochs),
        EpochFrame(5, 3, 2, 4, body),
        EpochFrame(-1, 3, 2, 4, b""),
    ]


@pytest.mark.parametrize(
    ("reader", "data", "says"),
    [
        (FrameReader(), encode_plain_head(0, 5 << 20), "the size from 0 to 4194304"),
        (FrameReader(), encode_plain_head(0, -1), "offset 0 and size -1, but"),
        (FrameReader(), b"GET / HTTP/1.1\r\n\r\n", "a frame of the master has offset"),
        (SlaveMessages(), bytes(12), "state 0"),
        (SlaveMessages(), encode_report(-5), "a report of -5"),
        (MasterMessages(), bytes(40), r"state \(0\)"),
        (MasterMessages(), encode_head(-2, 0, Epoch(3, 2), 4), "a frame for offset -2"),
        (SlaveMessages(), bytes(4), "state 0"),
        (MasterMessages(), bytes(8), r"state \(0\)"),
        (
            MasterMessages(),
            b"\0\0\0\1\0\0\0\5" + bytes(40),
            "have 5 bytes, which is not a multiple",
        ),
    ],
)
def test_other_bytes_are_refused_before_they_are_kept(
    reader: object, data: bytes, says: str
) -> None:
    with pytest.raises(HaStreamError, match=says):
        list(reader.feed(data))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("reader", "head"),
    [
        (FrameReader(), encode_plain_head(0, -1)),
        (SlaveMessages(), bytes(4)),
        (MasterMessages(), bytes(8)),  # what state and length tell
    ],
)
def test_other_bytes_are_refused_as_soon_as_they_tell(reader: object, head: bytes) -> None:
    for at in range(len(head) - 1):
        assert list(reader.feed(head[at : at + 1])) == []  # type: ignore[attr-defined]
    with pytest.raises(HaStreamError):
        list(reader.feed(head[-1:]))  # type: ignore[attr-defined]


def test_a_report_below_0_is_refused() -> None:
    with pytest.raises(HaStreamError, match="does not speak this protocol"):
        ReportReader().feed(b"\xff" * 8)
