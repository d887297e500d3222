"""Signals: who listens hears everything after it connected, in order."""

from __future__ import annotations

import pytest

from pocketmq.runtime.signals import Signal


def test_all_listeners_hear_in_the_order_in_which_they_connected() -> None:
    heard: list[tuple[str, str, int]] = []
    arrived: Signal[[str, int]] = Signal()
    arrived.emit("nobody", 0)
    arrived.connect(lambda topic, queue_id: heard.append(("first", topic, queue_id)))
    arrived.connect(lambda topic, queue_id: heard.append(("second", topic, queue_id)))
    arrived.emit("orders", 3)
    assert heard == [("first", "orders", 3), ("second", "orders", 3)]


def test_who_connects_during_an_emit_hears_the_next_one() -> None:
    heard: list[str] = []
    signal: Signal[[]] = Signal()
    signal.connect(lambda: signal.connect(lambda: heard.append("late")))
    signal.emit()
    assert heard == []
    signal.emit()
    assert heard == ["late"]


def test_an_error_in_a_listener_reaches_the_emitter() -> None:
    signal: Signal[[]] = Signal()

    def fail() -> None:
        raise ValueError("no")

    signal.connect(fail)
    with pytest.raises(ValueError, match="no"):
        signal.emit()
