"""What a controller remembers of names whose masters died."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pocketmq.controller import commands
from pocketmq.controller.election import Candidate
from pocketmq.controller.elections import Elections
from pocketmq.controller.liveness import LiveBroker, LiveBrokers, LiveKey
from pocketmq.controller.replicas import Replicas
from pocketmq.protocol.codes import ResponseCode
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.broker_rig import FakePeer


def test_a_name_that_is_cleaned_while_its_master_is_dead_leaves_nothing_behind() -> None:
    clock, replicas, live = ManualClock(0), Replicas(), LiveBrokers()
    made: Any = Elections
    consensus = SimpleNamespace(replicas=replicas, serves=False)
    elections = made(consensus, live, clock, allows_unclean=lambda: False, scan_s=5.0, settle_s=0.0)
    for name in ("stays", "goes"):
        peer: Any = FakePeer()
        replicas.apply(commands.ApplyId("c", name, 1, "h:1;"))
        chosen = replicas.apply(commands.Elect("c", name, 1, False, [Candidate(1, 1, 0)], False))
        assert chosen.code == ResponseCode.SUCCESS
        live.put(LiveBroker(LiveKey(name, 1), "h:1", Candidate(1, 1, 0), 0, 0.0, 10.0, peer))
        live.closed(peer, 0.0)
    elections.scan()
    assert sorted(elections._lost) == ["goes", "stays"]
    replicas.apply(commands.Clean("c", "goes", [], True, []))
    elections.scan()
    assert elections._lost == {"stays": "closed"}
