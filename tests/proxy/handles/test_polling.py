"""How long a receive waits (G-81)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.proxy.handles.polling import MARGIN_MS, Polling, knows_polling_time, polling


@pytest.mark.parametrize(
    ("asked", "remaining", "poll", "limit"),
    [
        (20_000, 23_000, 20_000, 22_500),  # a push consumer
        (30_000, 33_000, 20_000, 32_500),
        (1_000, 8_000, 5_000, 7_500),
        (None, 8_000, 6_500, 7_500),  # Go's simple consumer says none: the deadline less 3 s / 2
        (None, 60_000, 20_000, 59_500),
        (10_000, 10_000, 9_500, 9_500),  # Rust's deadline is its poll
        (20_000, 6_000, 5_500, 5_500),
        (None, 5_000, 4_500, 4_500),
        (15_000, None, 15_000, None),
    ],
)
def test_a_poll_is_between_5_and_20_seconds_and_ends_before_the_deadline(
    asked: int | None, remaining: int | None, poll: int, limit: int | None
) -> None:
    assert polling(asked, remaining, 3_000) == Polling(poll, limit)


@pytest.mark.parametrize("asked", [None, 1_000, 20_000])
def test_a_deadline_below_5_seconds_is_refused(asked: int | None) -> None:
    with pytest.raises(ValueError, match=r"^The deadline time remaining is not enough for polling"):
        polling(asked, 4_999, 3_000)


def test_a_receive_has_to_say_how_long_it_waits() -> None:
    with pytest.raises(ValueError, match="neither a deadline nor"):
        polling(None, None, 3_000)


@given(st.none() | st.integers(-(2**63), 2**63), st.integers(5_000, 2**63), st.integers(0, 2**40))
def test_whatever_is_asked_the_client_is_answered_in_time(
    asked: int | None, remaining: int, timeout: int
) -> None:
    poll_ms, limit_ms = polling(asked, remaining, timeout)
    assert limit_ms == remaining - MARGIN_MS
    assert 5_000 - MARGIN_MS <= poll_ms <= 20_000


@pytest.mark.parametrize(
    ("version", "knows"),
    [(None, False), ("5.0.2", False), ("5.0.3", True), ("5.1.2", True), ("10.0.0", False)],
)
def test_versions_are_compared_as_texts(version: str | None, knows: bool) -> None:
    assert knows_polling_time(version) is knows
