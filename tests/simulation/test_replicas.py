"""Three replicas and controllers in the simulation: seeds, what they draw, and their ledgers."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from pocketmq.simulation.invariants.replicas import (
    AcknowledgedLedger,
    ElectionLedger,
    LengthLedger,
    LogLedger,
    OffsetLedger,
    RouteLedger,
    StillnessLedger,
    TopicLedger,
)
from pocketmq.simulation.invariants.replicas.elections import SeenController, SeenEntry
from pocketmq.simulation.invariants.replicas.rest import ReplicaAtRest, difference
from pocketmq.simulation.replicas.plan import (
    MASTER,
    B,
    Trouble,
    has_transactions,
    replica_plan,
)
from pocketmq.simulation.replicas.run import run_replicas
from simulation.seeds import REPLICA_SEEDS

PLANS = [replica_plan(seed) for seed in range(300)]
TRANSACTION_SEED = 28
"""One in which another master is elected."""


def test_every_kind_of_trouble_is_drawn_and_also_alone() -> None:
    kinds = [{each.trouble for each in plan.happenings} for plan in PLANS]
    scripted = {Trouble.WIPE}
    assert set().union(*kinds) == set(Trouble) - scripted
    assert {plan.ends_without for plan in PLANS} == {"", MASTER, B}
    assert len({next(iter(each)) for each in kinds if len(each) == 1}) >= 8
    needing = {Trouble.POWER_CUT, Trouble.SLOW_DISK, Trouble.HUNG_DISK}
    assert not any(each & needing for each, plan in zip(kinds, PLANS, strict=True)
                   if not plan.sync_flush)  # fmt: skip
    for plan in PLANS:
        assert all(a.at_s <= b.at_s for a, b in pairwise(plan.happenings))


@pytest.fixture(scope="module")
def counts() -> Counter[str]:
    """What came up in the seeds of CI, none of which violates anything."""
    found: Counter[str] = Counter()
    for seed in REPLICA_SEEDS:
        result = run_replicas(seed)
        assert result.violation is None, f"{result.replay}  # {result.violation}"
        found.update(result.stats)
    return found


def test_no_seed_violates_an_invariant_and_each_has_something_to_say(counts: Counter[str]) -> None:
    for what in (
        "terms with a leader",
        "entries committed",
        "masters",
        "acknowledged",
        "delivered",
        "bytes compared",
        "runs compared at rest",
        "masters shown",
        "decisions",
        "machines lost for good",
        "replicas that learned of a topic",
    ):
        assert counts[what] > 0, what
    assert counts["masters"] > len(REPLICA_SEEDS), "some masters are elected after trouble"


def test_a_seed_with_transactions_violates_nothing_and_has_them() -> None:
    assert {has_transactions(seed) for seed in REPLICA_SEEDS} == {False}
    result = run_replicas(TRANSACTION_SEED)
    assert result.violation is None, f"{result.replay}  # {result.violation}"
    for what in ("halves stored", "halves rolled back", "committed to the log"):
        assert result.stats[what] > 0, what
    assert result.stats["transactions asked for"] > 0
    assert result.stats["masters"] > 1


def test_equal_seeds_make_equal_runs() -> None:
    assert run_replicas(1).digest == run_replicas(1).digest


# -- the ledgers ----------------------------------------------------------------------------------


def seen(
    name: str, term: int, *commands: str, leads: bool = False, commit: int = 0
) -> SeenController:
    entries = [SeenEntry(at, term, each) for at, each in enumerate(commands, 1)]
    return SeenController(name, term, leads, commit, 1, entries)


def test_two_leaders_of_a_term_are_found() -> None:
    violations: list[str] = []
    ledger = ElectionLedger(violations)
    ledger.looked(1.0, seen("n0", 3, leads=True))
    ledger.looked(1.1, seen("n0", 3, leads=True))
    assert violations == []
    ledger.looked(1.2, seen("n1", 3, leads=True))
    assert violations == ["1.200 term 3 has two leaders: n0 and n1"]


def test_a_leader_without_a_committed_entry_and_logs_that_differ_are_found() -> None:
    violations: list[str] = []
    ledger = ElectionLedger(violations)
    ledger.looked(1.0, seen("n0", 1, "a", "b", leads=True, commit=2))
    ledger.looked(2.0, seen("n1", 2, leads=True))
    assert violations.pop() == "2.000 n1 leads term 2 without the committed entry 1"
    ledger.looked(3.0, seen("n2", 1, "a", "x"))
    assert violations.pop() == "3.000 logs differ at entry 2 of term 1"
    ledger.looked(4.0, seen("n2", 1, "a", "b", commit=1))
    ledger.looked(4.0, seen("n2", 1, "a", "b", commit=0))
    assert violations.pop() == "4.000 the commit index of n2 falls"
    ledger.applied(5.0, "n0", 2, "state")
    ledger.applied(5.0, "n1", 2, "another")
    assert violations == ["5.000 after entry 2 the state of n1 is another than elsewhere"]


def test_what_a_later_master_lacks_is_found() -> None:
    violations: list[str] = []
    ledger = AcknowledgedLedger(violations, all_ack=True)
    ledger.leads(1.0, "a1", 1, set())
    ledger.acknowledged("m1")
    ledger.delivered(1.5, 0, 0, "m1")
    ledger.leads(2.0, "a2", 2, {"m1"})
    assert violations == []
    ledger.leads(3.0, "a3", 3, set())
    assert violations == [
        "3.000 a3 leads epoch 3 without 1 messages that were acknowledged: m1",
        "3.000 a3 leads epoch 3 without 1 messages that were consumed: m1",
    ]
    violations.clear()
    ledger.delivered(3.5, 0, 0, "m2")
    assert violations.pop() == "3.500 queue 0 has m2 at 0, where a consumer saw m1"
    ledger.answered(4.0, "a3", 3)
    ledger.answered(4.0, "a1", 3)
    assert violations.pop() == "4.000 a3 and a1 acknowledge in epoch 3"
    ledger.leads(5.0, "a1", 3, {"m1"})
    assert violations[0] == "5.000 epoch 3 has two masters: a3 and a1"


def test_logs_that_differ_where_they_are_confirmed_are_found() -> None:
    violations: list[str] = []
    ledger = LogLedger(violations)
    ledger.confirmed(1.0, "a1", 6, lambda low, high: b"abcdef"[low:high])
    ledger.confirmed(1.0, "a2", 4, lambda low, high: b"abcd"[low:high])
    ledger.confirmed(1.0, "a2", 5, lambda low, high: b"abcde"[low:high])
    assert violations == []
    ledger.confirmed(2.0, "a3", 6, lambda low, high: b"abcXef"[low:high])
    assert violations == [
        "2.000 the log of a3 differs from others' at 3, below its confirmed offset 6"
    ]


def test_offsets_that_fall_back_too_far_or_lie_beyond_the_queue_are_found() -> None:
    violations: list[str] = []
    ledger = OffsetLedger(violations, period_s=10.0)
    ledger.committed(30.0, {("G", 0): 5})
    ledger.committed(45.0, {("G", 0): 9})
    ledger.leads(50.0, "a2", {("G", 0): 5}, {0: 9})
    assert violations == []
    ledger.leads(50.0, "a2", {("G", 0): 4}, {0: 9})
    assert "falls back from 5 to 4 in queue 0" in violations.pop()
    ledger.leads(50.0, "a2", {("G", 0): 10}, {0: 9})
    assert "up to 10, which ends at 9" in violations[0]


def test_offsets_of_a_master_that_died_in_quiet_times_are_compared_and_no_others() -> None:
    violations: list[str] = []
    ledger = OffsetLedger(violations, period_s=10.0)
    ledger.committed(30.0, {("G", 0): 5})
    ledger.committed(45.0, {("G", 0): 9})
    ledger.troubled(45.5, 60.0)  # this one ends the master, and comes after the last look
    ledger.leads(46.0, "a2", {("G", 0): 4}, {0: 9})
    assert "falls back from 5 to 4 in queue 0" in violations.pop()
    ledger.troubled(40.0, 41.0)
    ledger.leads(46.0, "a2", {("G", 0): 4}, {0: 9})
    assert violations == []


def test_the_election_of_a_shorter_log_is_found() -> None:
    violations: list[str] = []
    ledger = LengthLedger(violations)
    ledger.grew(1.0, "a2", 100)
    ledger.grew(1.0, "a3", 150)
    ledger.grew(20.0, "a2", 150)
    ledger.grew(20.0, "a3", 200)
    ledger.leads(20.0, "a2", 2, 150, ["a2", "a3"])
    assert violations == [], "what came within a heartbeat's age need not be known"
    ledger.leads(20.0, "a2", 2, 149, ["a2", "a3"])
    assert violations == [
        "20.000 a2 is elected in epoch 2 with a log up to 149, and a3, alive and in sync, had more:"
        " 150"
    ]


def test_a_route_that_goes_back_to_an_older_master_is_found() -> None:
    violations: list[str] = []
    ledger = RouteLedger(violations)
    ledger.shown(1.0, "a1", 1)
    ledger.shown(2.0, "a2", 2)
    ledger.shown(3.0, "a1", 3)
    assert violations == []
    ledger.shown(4.0, "a2", 2)
    assert "shows a2, the older master of epoch 2, after a1 of epoch 3" in violations[0]


def test_a_topic_that_a_replica_had_and_lacks_is_found() -> None:
    violations: list[str] = []
    ledger = TopicLedger(violations, "T")
    ledger.looked(1.0, "a2", "first process", ["U"])
    ledger.looked(2.0, "a2", "first process", ["T", "U"])
    ledger.looked(3.0, "a2", "second process", [])
    assert violations == []
    ledger.looked(4.0, "a2", "first process", ["U"])
    assert violations == ["4.000 a2 had the topic T, and lacks it"]


def test_decisions_while_nothing_happens_are_found() -> None:
    violations: list[str] = []
    ledger = StillnessLedger(violations, settle_s=25.0)
    ledger.decided(1.0, 1, 1, is_whole=False)
    ledger.decided(2.0, 1, 2, is_whole=True)
    ledger.troubled(40.0)
    ledger.decided(60.0, 1, 3, is_whole=True)
    assert violations == []
    ledger.decided(66.0, 2, 4, is_whole=False)
    assert "nothing happens, and the controllers decide epoch 2 and set 4" in violations[0]


def test_what_differs_at_rest_is_found() -> None:
    one = ReplicaAtRest(10, [(1, 0)], {("T", 0): [(0, 10, 0)]}, ["T"], ["G"], "v1")
    assert difference({"a1": one, "a2": one}) is None
    for words, other in (
        ("the logs end at [9, 10]", one._replace(log_end=9)),
        ("other epochs", one._replace(epochs=[(2, 0)])),
        ("other topics", one._replace(topics=["T", "U"])),
        ("other groups", one._replace(groups=[])),
        ("other versions", one._replace(topic_version="v2")),
        ("queue 0 of T leads elsewhere", one._replace(queues={("T", 0): [(5, 10, 0)]})),
    ):
        assert words in (difference({"a1": one, "a2": other}) or "")
