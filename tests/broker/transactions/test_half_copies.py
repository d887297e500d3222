"""Which half messages lie once more further behind (X-34)."""

from __future__ import annotations

from typing import Any

import pytest

from pocketmq.broker.transactions import half_copies
from pocketmq.broker.transactions.half_copies import HalfCopies
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt
from support.half_queue import half


def copy(offset: int, key: str, **more: Any) -> MessageExt:
    fields: dict[str, Any] = {names.UNIQ_KEY: key}
    return half(offset, **(fields | more))


def older(*halves: MessageExt) -> list[int]:
    copies = HalfCopies(0, len(halves))
    for each in halves:
        copies.read(each)
    copies.all_read()
    return [offset for offset in range(len(halves)) if copies.is_older(offset)]


def test_only_the_last_copy_of_each_counts() -> None:
    times = names.TRANSACTION_CHECK_TIMES
    assert older(
        copy(0, "a"),
        copy(1, "b"),
        copy(2, "a", **{times: "1"}),
        copy(3, "c"),
        copy(4, "b", **{times: "1", names.CHECK_IMMUNITY_TIME_IN_SECONDS: "9"}),
        copy(5, "a", **{times: "0"}),  # checked anew, by a tool
    ) == [0, 1, 2]


@pytest.mark.parametrize("of_other", [{names.REAL_TOPIC: "x"}, {names.REAL_QUEUE_ID: "7"}])
def test_a_key_alone_does_not_make_two_half_messages_one(of_other: dict[str, str]) -> None:
    assert older(copy(0, "a"), copy(1, "a", **of_other)) == []
    assert older(copy(0, "a"), copy(1, "a", born_ms=1)) == []


def test_without_a_key_none_is_another_s_copy() -> None:
    assert older(copy(0, ""), copy(1, "")) == []


def test_what_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_copies, "MOST_KNOWN", 2)
    assert older(*(copy(n, key) for n, key in enumerate("abcabc"))) == [0, 1]


def test_it_is_read_anew_when_progress_goes_back_or_the_log_was_cut() -> None:
    copies = HalfCopies(0, 2)
    for offset in range(2):
        copies.read(copy(offset, "a"))
    assert copies.serves(0, 2)
    assert copies.serves(1, 9)
    assert not copies.serves(0, 1)
    copies.passed(1)
    assert copies.is_older(0)
    assert not copies.serves(0, 2)
    copies.passed(2)
    assert not copies.is_older(0)
