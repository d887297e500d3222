"""What seeds draw: subsets of the troubles, shapes of workloads; and the ledger of seeds."""

from __future__ import annotations

import random
from collections import Counter

from pocketmq.simulation.scenario import Kind
from pocketmq.simulation.seed_ledger import Entry, parse, render
from pocketmq.simulation.swarm import scenario
from pocketmq.simulation.workload import Turns, Workload, is_wanted

SCENARIOS = [scenario(seed) for seed in range(300)]


def test_a_seed_has_some_kinds_of_trouble_and_not_others() -> None:
    sizes = Counter(len({event.kind for event in each.events}) for each in SCENARIOS)
    assert min(sizes) <= 1
    assert max(sizes) >= 10
    alone = {next(iter({e.kind for e in s.events})) for s in SCENARIOS
             if len({e.kind for e in s.events}) == 1}  # fmt: skip
    assert len(alone) >= 5, "many kinds come alone in some seed"


def test_every_kind_and_every_shape_is_drawn() -> None:
    assert {event.kind for each in SCENARIOS for event in each.events} == set(Kind)
    loads = [each.workload for each in SCENARIOS]
    for shape in ("burst_share", "batch_share", "delayed_share", "flaky_share", "poison_share",
                  "long_share", "tagged"):  # fmt: skip
        assert {bool(getattr(load, shape)) for load in loads} == {False, True}, shape
    assert {len(each.groups) for each in SCENARIOS} == {1, 2, 3}
    assert {len(each.brokers) for each in SCENARIOS} == {1, 2}


def test_power_is_cut_and_disks_fail_only_where_brokers_promise_to_have_synced() -> None:
    kinds = {Kind.POWER_CUT, Kind.SLOW_DISK, Kind.HUNG_DISK, Kind.FAILING_DISK}
    for each in SCENARIOS:
        assert each.sync_flush or not kinds & {event.kind for event in each.events}


def test_a_burst_is_many_messages_a_batch_is_one_request() -> None:
    bursts = Turns(Workload(1.0, burst_share=1.0, burst_size=3, delayed_share=1.0, levels=(2,)),
                   "T", random.Random(1))  # fmt: skip
    turn = bursts.next(poison=True)
    assert [(m.body, m.delay_level) for m in turn.messages] == [
        (b"m0", 2), (b"m1", 2), (b"m2", 2),
    ]  # fmt: skip
    assert not turn.is_batch
    batch = Turns(Workload(1.0, batch_share=1.0, tagged=True), "T", random.Random(1))
    turn = batch.next(poison=True)
    assert turn.is_batch
    assert len(turn.messages) > 1
    assert all(m.body.decode()[-1] == m.tags for m in turn.messages)


def test_poison_is_sent_while_there_is_time_for_its_retries() -> None:
    turns = Turns(Workload(1.0, poison_share=1.0), "T", random.Random(1))
    assert turns.next(poison=True).messages[0].body == b"m0!"
    assert turns.next(poison=False).messages[0].body == b"m1"


def test_a_group_wants_its_tags() -> None:
    assert is_wanted("m1a?", "")
    assert is_wanted("m1a?", "ab")
    assert not is_wanted("m1c!", "ab")


def test_the_ledger_keeps_each_seed_once_and_the_fastest_first() -> None:
    entries = [Entry(2.0, 7, "slow"), Entry(0.25, 123, "quick: 3 of 4"), Entry(1.0, 7, "again")]
    text = render(entries)
    assert parse(text) == [Entry(0.25, 123, "quick: 3 of 4"), Entry(2.0, 7, "slow")]
    assert render(parse(text)) == text
