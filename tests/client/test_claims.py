"""What can happen to the claim of a queue, and who is told."""

from __future__ import annotations

from pocketmq.client.rebalance.claims import Claims
from pocketmq.protocol.messages.message import MessageQueue
from support.claims import QUEUE, claimed

OTHER = MessageQueue("U", "b", 1)


def test_idle_and_lock_limits_are_strict() -> None:  # C-25.2, C-52
    claim = claimed()
    assert not claim.is_pull_expired(120.0)
    assert claim.is_pull_expired(120.001)
    assert not claim.is_lock_expired(30.0)
    assert claim.is_lock_expired(30.001)


def test_a_pull_and_a_granted_lock_keep_a_claim_alive() -> None:  # C-25.2, C-52
    claims = Claims()
    claim = claims.take(QUEUE, 0.0)
    claims.pulled(claim, 50.0)
    assert claim.last_pull_at == 50.0
    assert claims.locks_answered([QUEUE], {QUEUE}, 60.0) == []
    assert (claim.locked, claim.last_lock_at) == (True, 60.0)


def test_a_lock_is_lost_once() -> None:  # C-52
    claims = Claims()
    claim = claims.take(QUEUE, 0.0, locked=True)
    assert claims.locks_answered([OTHER, QUEUE], set(), 20.0) == [QUEUE], "OTHER is not ours"
    assert (claim.locked, claim.last_lock_at) == (False, 0.0)
    assert claims.locks_answered([QUEUE], set(), 40.0) == []


def test_a_dropped_claim_counts_until_it_is_released() -> None:  # C-30
    claims = Claims()
    claims.take(OTHER, 0.0)
    claim = claims.take(QUEUE, 0.0)
    assert claims.owned() == [QUEUE, OTHER]
    claims.drop(QUEUE)
    assert claims.owned() == [OTHER]
    assert QUEUE in claims
    claims.release_refused(QUEUE)
    assert claim.release_tries == 1
    assert claims.release(QUEUE)
    assert not claims.release(QUEUE)
    assert QUEUE not in claims


def test_events_of_a_former_claim_do_not_touch_the_new_one() -> None:  # C-43, C-44
    claims = Claims()
    former = claims.take(QUEUE, 0.0)
    claims.release(QUEUE)
    claim = claims.take(QUEUE, 10.0)
    claims.pulled(former, 99.0)
    claims.correct(former)
    assert former.dropped
    assert (claim.last_pull_at, claim.dropped, claim.correcting) == (10.0, False, False)
    claims.correct(claim)
    assert claim.dropped
    assert claim.correcting


def test_how_long_ago_is_counted_from_the_claim_and_from_each_pull_and_lock() -> None:
    claims = Claims()
    claim = claims.take(QUEUE, 1_000.0)
    assert not claim.is_pull_expired(1_120.0)
    assert claim.is_pull_expired(1_120.001)
    assert not claim.is_lock_expired(1_030.0)
    assert claim.is_lock_expired(1_030.001)


def test_what_is_claimed_can_be_looked_through_while_it_changes() -> None:
    claims = Claims()
    claim, other = claims.take(QUEUE, 0.0), claims.take(OTHER, 0.0, locked=True)
    assert (claims.get(QUEUE), claims.get(OTHER), len(claims)) == (claim, other, 2)
    assert (claim.locked, other.locked) == (False, True), "locked only if the broker said so"
    for each in claims:
        claims.release(each.queue)
    assert (claims.get(QUEUE), len(claims), list(claims)) == (None, 0, [])


def test_how_many_queues_are_ours_is_known_without_a_look_at_them() -> None:
    claims = Claims()
    first = claims.take(QUEUE, 0.0)
    claims.take(OTHER, 0.0)
    assert claims.owned_count == 2
    claims.drop(QUEUE)
    claims.drop(QUEUE)
    claims.correct(first)
    assert (claims.owned_count, claims.owned()) == (1, [OTHER])
    again = claims.take(QUEUE, 1.0)
    assert (claims.owned_count, first.dropped, again.dropped) == (2, True, False)
    claims.correct(again)
    assert claims.owned_count == 1
    claims.release(QUEUE)
    claims.release(OTHER)
    assert (claims.owned_count, claims.owned(), len(claims)) == (0, [], 0)
    assert vars(claims) == vars(Claims()), "topics that are gone leave nothing behind"


def test_claims_of_a_topic_are_those_and_no_others() -> None:
    claims = Claims()
    mine, other = claims.take(QUEUE, 0.0), claims.take(OTHER, 0.0)
    claims.drop(QUEUE)
    assert (claims.of_topic("T"), claims.of_topic("U"), claims.of_topic("V")) == (
        [mine],
        [other],
        [],
    )
    assert (claims.owned("T"), claims.owned("U"), claims.owned("V")) == ([], [OTHER], [])
