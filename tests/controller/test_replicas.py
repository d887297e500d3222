"""Replicas: which commands are refused, and what the others leave (D-20 to D-26)."""

from __future__ import annotations

from pocketmq.controller import commands
from pocketmq.controller.limits import Limits
from pocketmq.controller.replicas import Outcome, Replicas
from pocketmq.protocol.codes import ResponseCode


def apply_id(state: Replicas, broker_id: int, *, name: str = "a", cluster: str = "c") -> Outcome:
    claim = f"{name}-{broker_id}:1;claim"
    return state.apply(commands.ApplyId(cluster, name, broker_id, claim))


def refusal(state: Replicas, broker_id: int, limits: Limits, *, name: str = "a") -> str:
    """What a claim under limits is told; empty: it is taken."""
    claim = f"{name}-{broker_id}:1;claim"
    return str(state.apply(commands.ApplyId("c", name, broker_id, claim, limits)).remark or "")


def registered(*ids: int) -> Replicas:
    """Replicas of `a`, of which 1 is master and alone in sync."""
    state = Replicas()
    for each in ids:
        assert apply_id(state, each).code == 0
    group = state.groups["a"]
    group.master_id, group.in_sync = 1, {1}
    return state


def clean(
    state: Replicas, *ids: int, cluster: str = "", forced: bool = False, alive: tuple[int, ...] = ()
) -> Outcome:
    return state.apply(commands.Clean(cluster, "a", list(ids), forced, list(alive)))


def test_an_address_is_the_claim_s_first_word_until_it_changes() -> None:  # D-20, D-22
    state = registered(1)
    assert state.groups["a"].address_of(1) == "a-1:1"
    assert state.apply(commands.SetAddress("c", "a", 1, "new:1")).code == 0
    assert state.groups["a"].address_of(1) == "new:1"
    found = state.apply(commands.SetAddress("c", "a", 2, "x:1"))
    assert found.code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    assert found.remark is not None
    assert found.remark.startswith("id 2 of a is not registered")


def test_names_replicas_and_ids_are_bounded() -> None:  # D-20
    state = registered(1)
    few = Limits(names=1, replicas_per_name=2)
    assert "at most 1 broker names (budget.broker_names)" in refusal(state, 1, few, name="b")
    assert "ids from 1 on" in refusal(state, 0, few)
    assert refusal(state, 2, few) == ""
    assert "may have 2 replicas (budget.replicas_per_name)" in refusal(state, 3, few)
    assert refusal(state, 2, few) == ""  # the same claim again
    assert (state.next_id("a"), state.next_id("b")) == (3, 1)
    assert (state.get("a"), state.get("b")) == (state.groups["a"], None)
    assert "belongs to cluster c" in str(apply_id(state, 1, cluster="d").remark)


def test_replicas_of_all_names_are_bounded_together() -> None:
    state = registered(1, 2)
    few = Limits(replicas=3)
    assert refusal(state, 1, few, name="b") == ""
    for name, broker_id in (("a", 3), ("b", 2), ("c", 1)):
        found = refusal(state, broker_id, few, name=name)
        assert "at most 3 replicas (budget.replicas)" in found
    assert state.get("c") is None
    assert clean(state, 2).code == 0
    assert refusal(state, 1, few, name="c") == ""  # the place is free again


def test_what_the_replicas_have_as_texts_is_bounded() -> None:
    state = registered(1)
    there = state.kept.size_bytes
    claim = len('"b""c""b-1:1""b-1:1;claim"')  # name, cluster, address and claim in a snapshot
    assert "(budget.replica_bytes)" in refusal(
        state, 1, Limits(size_bytes=there + claim - 1), name="b"
    )
    assert refusal(state, 1, Limits(size_bytes=there + claim), name="b") == ""
    full = Limits(size_bytes=there + claim)

    def move(address: str) -> str:
        return str(state.apply(commands.SetAddress("c", "a", 1, address, full)).remark or "")

    assert "(budget.replica_bytes)" in move("a-1:12")
    assert move("a-2:1") == ""
    assert move("x:1") == ""
    assert move("a-1:1") == ""
    assert state.groups["a"].address_of(1) == "a-1:1"


def test_what_is_kept_is_counted_the_same_after_a_snapshot() -> None:
    state = registered(1, 2, 3)
    for name in ("b", "c"):
        assert apply_id(state, 1, name=name).code == 0
    assert state.apply(commands.SetAddress("c", "a", 2, "elsewhere:10911")).code == 0
    assert clean(state, 3).code == 0
    assert state.apply(commands.Clean("", "b", [], True, [])).code == 0
    copy = Replicas()
    copy.restore(state.snapshot())
    assert vars(copy.kept) == vars(state.kept)
    assert (state.kept.names, state.kept.replicas) == (2, 3)
    for name in ("a", "c"):
        assert state.apply(commands.Clean("", name, [], True, [])).code == 0
    assert vars(state.kept) == {"names": 0, "replicas": 0, "size_bytes": 0}
    copy.restore(copy.snapshot())  # what was counted before does not count twice
    assert (copy.kept.names, copy.kept.replicas) == (2, 3)


def test_a_limit_below_what_is_there_refuses_only_more() -> None:
    state = registered(1, 2)
    low = Limits(names=1, replicas_per_name=1, replicas=1, size_bytes=1)
    assert refusal(state, 1, low) == ""
    assert "budget." in refusal(state, 3, low)
    assert state.apply(commands.SetAddress("c", "a", 1, "a:1", low)).code == 0


def elect(state: Replicas, asked_by: int, *, name: str = "a", **more: object) -> Outcome:
    given = {"is_designated": False, "candidates": [], "allow_unclean": False} | more
    return state.apply(
        commands.Elect("", name, asked_by, **given)  # type: ignore[arg-type]
    )


def test_only_registered_replicas_are_asked_for_a_master() -> None:  # D-25
    state = registered(1)
    needed = ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    unknown, stranger = elect(state, 1, name="b"), elect(state, 7)
    assert (unknown.code, stranger.code) == (needed, needed)
    assert str(unknown.remark).startswith("b is not registered")
    assert str(stranger.remark).startswith("id 7 of a is not registered")
    before = state.snapshot()
    assert elect(state, -1, expected_epoch=5).elected == ""
    assert state.snapshot() == before


def test_a_set_of_an_unknown_name_is_not_altered() -> None:  # D-24
    found = Replicas().apply(commands.AlterSet("a", 1, 1, [1], 1, [1]))
    assert "a is not registered" in str(found.remark)


def test_what_may_not_be_cleaned_is_said() -> None:  # D-26
    assert "a is not registered" in str(clean(Replicas()).remark)
    state = registered(1, 2, 3)
    assert "belongs to cluster c" in str(clean(state, 2, cluster="d").remark)
    assert "has a master, replica 1" in str(clean(state).remark)
    assert "replicas [2] of a are alive" in str(clean(state, 2, 3, alive=(1, 2)).remark)
    assert "without [1] nobody of a is in sync" in str(clean(state, 1).remark)
    assert "without [1, 2] nobody" in str(clean(state, 1, 2).remark)
    assert set(state.groups["a"].replicas) == {1, 2, 3}


def test_a_replica_of_a_name_that_had_no_master_yet_is_cleaned() -> None:  # D-26
    state = Replicas()
    for each in (1, 2):
        assert apply_id(state, each).code == 0
    assert clean(state, 2).code == 0, "nobody is in sync that could be the last one"
    assert set(state.groups["a"].replicas) == {1}


def test_what_is_cleaned_is_no_master_and_in_no_set() -> None:  # D-26
    state = registered(1, 2, 3)
    state.groups["a"].in_sync = {1, 2}
    assert clean(state, 2, cluster="c").code == 0
    group = state.groups["a"]
    assert (set(group.replicas), group.in_sync, group.master_id) == ({1, 3}, {1}, 1)
    assert clean(state, 1, forced=True, alive=(1,)).code == 0
    assert (set(group.replicas), group.in_sync, group.master_id) == ({3}, set(), None)
    assert clean(state, 3).code == 0
    assert state.groups == {}
    state = registered(1)
    assert clean(state, 1).code == 0, "all of the name"
    assert state.groups == {}
