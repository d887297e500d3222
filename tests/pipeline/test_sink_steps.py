"""What a task of the sink does first and last, and when its rows fail; nothing is sent."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pocketmq.pipeline.sending import bad_rows, sender, sink_rows
from pocketmq.pipeline.spark.sink import TaskSent, send_rows


class Noted:
    """In the places of the sender and of the rows' encoder."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.fails_at = ""
        self.sent_rows = self.sent_batches = 2
        self.sent_bytes = self.repeated = 0
        self.refused = ["late"]

    def note(self, what: str) -> None:
        self.done.append(what)
        if what == self.fails_at:
            raise OSError(what)

    def __call__(self, *_: object) -> Noted:
        return self

    def queues_of(self, _topic: str) -> list[object]:
        return []

    def uniq_keys(self) -> None:
        return None

    def encode(self, rows: str) -> Iterator[str]:
        yield rows

    def rest(self) -> Iterator[str]:
        yield "rest"

    def send(self, batch: str) -> None:
        self.note(f"send {batch}")

    def take_refused(self) -> list[str]:
        taken, self.refused = self.refused, []
        return taken

    def finish(self) -> None:
        self.note("finish")

    def cancel(self) -> None:
        self.note("cancel")


class NotedBadRows:
    """In the place of the bad rows' table; what it does is noted beside the rest."""

    def __init__(self, noted: Noted) -> None:
        self._noted = noted
        self.count = 1

    def __call__(self, *_: object) -> NotedBadRows:
        return self

    def add(self, row: str) -> None:
        self._noted.note(f"bad {row}")

    def finish(self) -> None:
        self._noted.note("bad rows finish")

    def cancel(self) -> None:
        self._noted.note("bad rows cancel")


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> Noted:
    both = Noted()
    monkeypatch.setattr(sender, "Sender", both)
    monkeypatch.setattr(sink_rows, "RowEncoder", both)
    monkeypatch.setattr(bad_rows, "BadRowTable", NotedBadRows(both))
    return both


def send(*, bad_path: str = "") -> TaskSent:
    settings: Any = SimpleNamespace(
        access=None, group="P", in_flight=1, columns=None, topic="T", batch_rows=1, batch_bytes=1,
        wait_store_ok=True, bad_path=bad_path, bad_topic="",
    )  # fmt: skip
    return send_rows(settings, iter(["rows"]), "write", 0, 0)


def test_a_task_is_done_when_all_of_its_rows_are_acknowledged(noted: Noted) -> None:
    assert send().rows == 2
    assert noted.done == ["send rows", "send rest", "finish"]


def test_bad_rows_appear_after_all_others_are_acknowledged(noted: Noted) -> None:
    assert send(bad_path="/bad").bad == 1
    assert noted.done == ["send rows", "bad late", "send rest", "finish", "bad rows finish"]


@pytest.mark.parametrize("fails_at", ["send rows", "send rest", "finish"])
def test_a_task_that_fails_sends_nothing_more(noted: Noted, fails_at: str) -> None:
    noted.fails_at = fails_at
    with pytest.raises(OSError, match=fails_at):
        send(bad_path="/bad")
    assert noted.done[-2:] == ["cancel", "bad rows cancel"]
