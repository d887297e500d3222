"""What a broker counts and tells of a message that was sent back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pocketmq.broker.sending.retry import RetryPlan
from pocketmq.broker.sending.send_back_reports import SendBackReports
from pocketmq.operation.events.event import Event
from pocketmq.operation.events.messages import MessageDead, MessageSentBack
from pocketmq.operation.metrics import SENT_TO_DLQ
from pocketmq.simulation.event_recorder import EventRecorder


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize(("to_dlq", "kind"), [(False, MessageSentBack), (True, MessageDead)])
def test_each_is_counted_and_told_once_as_what_it_is(
    *, to_dlq: bool, kind: type[Event], watched: bool
) -> None:
    counted: list[tuple[object, ...]] = []
    told: list[Event] = []
    meters = SimpleNamespace(add=lambda *what: counted.append(what))
    stats: Any = SimpleNamespace(
        meters=meters, note_send_back=lambda *what: counted.append(("back", *what))
    )
    unwatched: Any = SimpleNamespace(is_on=False)
    sink = EventRecorder(told.append, lambda: 0).sink("broker-a", lambda: 0)
    reports = SendBackReports(stats, lambda _: True, sink if watched else unwatched, "broker-a")
    record: Any = SimpleNamespace(
        properties={}, topic="orders", reconsume_times=3, commit_log_offset=100
    )
    reports.stored(record, "readers", "%RETRY%readers", RetryPlan(to_dlq, 5))
    dead = [(SENT_TO_DLQ, "readers", "orders")] if to_dlq else []
    assert sorted(counted, key=str) == sorted([("back", "orders", "readers"), *dead], key=str)
    assert [type(event) for event in told] == ([kind] if watched else [])
