"""The mark that a table has changes which its file lacks."""

from __future__ import annotations

from pocketmq.broker.tables.unsaved import Unsaved


def test_it_is_told_once_until_the_mark_is_taken() -> None:
    unsaved, told = Unsaved(), list[str]()
    unsaved.began.connect(lambda: told.append("began"))
    assert (bool(unsaved), unsaved.take()) == (False, False)
    unsaved.note()
    unsaved.note()
    assert (bool(unsaved), told) == (True, ["began"])
    assert (unsaved.take(), unsaved.take(), bool(unsaved)) == (True, False, False)
    unsaved.note()
    assert told == ["began", "began"]
