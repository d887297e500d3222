"""Formats like kcat's, positions, and bodies as people read them."""

from __future__ import annotations

import pytest

from pocketmq.cluster.messages.bodies import shown
from pocketmq.cluster.messages.formats import MessageFormat
from pocketmq.cluster.messages.positions import Position, position, queue_name
from pocketmq.runtime.errors import CallerError
from support.messages import pulled_message

MESSAGE = pulled_message(
    topic="orders", queue_id=3, offset=17, body=b"\xff hi", broker_name="broker-a",
    properties="KEYS\x01k1 k2\x02TAGS\x01new\x02UNIQ_KEY\x017F01\x02colour\x01blue\x02",
    reconsume_times=2,
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (r"%t [%p] at %o: %s\n", b"orders [3] at 17: \xff hi\n"),
        (r"%b %k %g %K %S\n", b"broker-a k1 k2 new 5 4\n"),
        (r"%T %B %r %i", b"2 1 2 7F01"),
        ("%I", b"7F00000100002A9F00000000000006A4"),
        ("%h", b"KEYS=k1 k2,TAGS=new,UNIQ_KEY=7F01,colour=blue"),
        (r"100%%\t\r\0\\\x41", b"100%\t\r\0\\A"),
        ("%R%s", b"\x00\x00\x00\x04\xff hi"),
        ("", b""),
        ("é", "é".encode()),
    ],
)
def test_a_format_writes_what_its_letters_mean(text: str, line: bytes) -> None:
    assert MessageFormat(text).line(MESSAGE) == line


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("%q", "'%q' at character 1"),
        ("a%", "'%' at character 2"),
        (r"\q", r"'\\q' at character 1"),
        (r"ab\x4", r"'\\x4' at character 3"),
        (r"\xzz", r"'\\xzz' at character 1"),
        ("\\", r"'\\' at character 1"),
    ],
)
def test_an_illegal_format_is_named_with_its_place(text: str, what: str) -> None:
    with pytest.raises(CallerError) as caught:
        MessageFormat(text)
    assert what in str(caught.value)
    assert "%t" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("start", Position(offset=0)),
        ("end", Position(before_end=0)),
        ("120", Position(offset=120)),
        ("-10", Position(before_end=10)),
        ("10m-ago", Position(ago_ms=600_000)),
        ("1.5h-ago", Position(ago_ms=5_400_000)),
        ("2026-11-22T09:30:00+01:00", Position(time_ms=1_795_336_200_000)),
        ("2026-11-22T08:30:00Z", Position(time_ms=1_795_336_200_000)),
    ],
)
def test_a_position_is_read(text: str, meant: Position) -> None:
    assert position(text) == meant


@pytest.mark.parametrize("text", ["", "soon", "--5", "-x", "²", "ago", "9999-99-99"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(CallerError, match="is not a position; write start, end, an offset"):
        position(text)


def test_a_queue_is_named_by_broker_and_number() -> None:
    assert str(queue_name("broker-a/3")) == "broker-a/3"
    for text in ("broker-a", "/3", "broker-a/x", "broker-a/²"):
        with pytest.raises(CallerError, match="write broker-a/0"):
            queue_name(text)


def test_a_body_is_shown_as_json_text_or_hex() -> None:
    assert shown(b'{"a":1}') == '{\n  "a": 1\n}'
    assert shown(b'{"a":1}', "text") == '{"a":1}'
    assert shown(b"hello", "json") == "hello"
    assert shown(b"hello\xff") == (
        "00000000  68 65 6c 6c 6f ff                                 hello."
    )
    assert shown(b"\xff", "text") == "\N{REPLACEMENT CHARACTER}"
    assert len(shown(bytes(40), "hex").splitlines()) == 3
