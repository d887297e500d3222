"""Clocks are moved beside frozen roles, which nobody waits for."""

from __future__ import annotations

import pytest

from pocketmq.runtime.manual_time import manual_clock
from pocketmq.testing import start_cluster
from support.eventually import PATIENCE_S


def test_time_goes_on_beside_a_frozen_nameserver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manual_clock, "PEER_PATIENCE_S", 1000.0)  # longer than the clock's guard
    monkeypatch.delenv("POCKETMQ_API_TIMEOUT_MS")  # which tests make longer, too
    with start_cluster(nameservers=2, clock="manual") as cluster:
        cluster.sync.create_topic("orders")
        with cluster.sync.consumer("billing", "orders"):
            cluster.sync.group("billing").assigned(limit_s=PATIENCE_S)
            cluster.sync.freeze("nameserver-1")
            cluster.sync.advance(minutes=10)
            # Its registrations end after 24 s of the cluster's time (B-4), so that the other
            # name server hears of the broker every 30 s.
            cluster.sync.group("billing").assigned(members=1, limit_s=PATIENCE_S)
