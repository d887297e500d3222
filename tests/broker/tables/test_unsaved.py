"""The mark that a table has changes which its file lacks."""

from __future__ import annotations

import pytest

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


def fail_to_save(unsaved: Unsaved) -> None:
    with unsaved.taken():
        raise RuntimeError


def test_a_save_that_fails_leaves_the_mark_and_so_does_a_change_meanwhile() -> None:
    unsaved = Unsaved()
    with pytest.raises(RuntimeError):
        fail_to_save(unsaved)
    assert not unsaved, "there was nothing to save"
    unsaved.note()
    with pytest.raises(RuntimeError):
        fail_to_save(unsaved)
    with unsaved.taken() as has_changed:
        assert has_changed
        unsaved.note()
    assert unsaved
    with unsaved.taken() as has_changed:
        assert has_changed
        assert not unsaved
    assert not unsaved
