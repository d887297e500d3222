"""Numbers in sentences."""

from __future__ import annotations

import pytest

from pocketmq.runtime.words import counted, ordinal


def test_nouns_agree_with_their_number() -> None:
    assert [counted(n, "queue") for n in (0, 1, 2, 1000)] == [
        "0 queues", "1 queue", "2 queues", "1,000 queues",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("number", "text"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (13, "13th"), (23, "23rd"),
     (112, "112th")],
)  # fmt: skip
def test_ordinals(number: int, text: str) -> None:
    assert ordinal(number) == text
