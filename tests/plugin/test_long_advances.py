"""What is sent while the clock is moved far: as much as in the same time on a real clock."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.testing import Cluster
from support.eventually import PATIENCE_S

ADVANCE_S = 3600
QUEUES = 5
"""Four of the topic and that of retries."""

EXPECTED = {
    RequestCode.REGISTER_BROKER: ADVANCE_S // 30,  # B-3
    RequestCode.HEART_BEAT: ADVANCE_S // 30,  # P-5
    RequestCode.PULL_MESSAGE: QUEUES * ADVANCE_S // 15,  # B-70: held for 15 s
    RequestCode.UPDATE_CONSUMER_OFFSET: QUEUES * ADVANCE_S // 5,  # P-5
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: 2 * ADVANCE_S // 20,  # C-20, for each topic
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Requests that any role has processed, by code."""
    found: Counter[int] = Counter()
    process = Dispatcher.process

    def counted(self: Dispatcher, peer: Any, command: Command) -> Any:
        found[command.code] += 1
        return process(self, peer, command)

    monkeypatch.setattr(Dispatcher, "process", counted)
    return found


def test_each_request_of_an_idle_hour_is_sent(asked: Counter[int], pocketmq_clock: Cluster) -> None:
    cluster = pocketmq_clock.sync
    cluster.create_topic("orders")
    with cluster.consumer("billing", "orders"):
        cluster.group("billing").assigned(limit_s=PATIENCE_S)
        cluster.advance(minutes=1)
        before = asked.copy()
        cluster.advance(ADVANCE_S)
        sent = {code: asked[code] - before[code] for code in EXPECTED}
    # A topic that was created is registered in between (B-6).
    sent[RequestCode.REGISTER_BROKER] = min(
        sent[RequestCode.REGISTER_BROKER], EXPECTED[RequestCode.REGISTER_BROKER]
    )
    assert sent == EXPECTED


def test_an_advance_does_what_is_due_at_its_very_end_too(pocketmq_clock: Cluster) -> None:
    cluster, control = pocketmq_clock.sync, pocketmq_clock.control
    cluster.create_topic("orders")
    with cluster.consumer("billing", "orders"):
        cluster.group("billing").assigned(limit_s=PATIENCE_S)
        for seconds in (10, 5, 15, 30):  # moments at which several members have a timer
            cluster.advance(seconds)
            due = pocketmq_clock.thread.result(control.deadlines())
            assert [each for each in due if each.at_ms <= cluster.time_ms] == []
