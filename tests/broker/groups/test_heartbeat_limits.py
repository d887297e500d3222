"""HeartbeatLimits: each limit lets through what reaches it, and refuses one more."""

from __future__ import annotations

import pytest

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.groups.heartbeat_limits import HeartbeatLimits
from pocketmq.broker.overload.overload import Overload, Work
from pocketmq.protocol.bodies.clients import ConsumerData, HeartbeatData, ProducerData
from pocketmq.protocol.budget import Budget
from pocketmq.protocol.errors import OverBudgetError
from support.broker_rig import consumer


def overload(waited_s: float = 0.0) -> Overload:
    """Has waited so long since the turn's first request."""
    times = iter([0.0])
    return Overload(lambda: next(times, waited_s), lambda _: None, {Work.HEARTBEAT: 31.0}.get)


def beat(*consumers: ConsumerData, client: str = "c", producers: int = 0) -> HeartbeatData:
    return HeartbeatData(
        client_id=client,
        consumer_data_set=list(consumers),
        producer_data_set=[ProducerData(group_name=f"p{n}") for n in range(producers)],
    )


AT_THE_LIMIT = {
    "groups": (
        Budget(groups_per_heartbeat=3),
        beat(consumer("a"), producers=2),
        beat(consumer("a"), consumer("b"), producers=2),
    ),
    "subscriptions": (
        Budget(subscriptions_per_heartbeat=3),
        beat(consumer("a", ["t", "u"]), consumer("b", ["t"])),
        beat(consumer("a", ["t", "u"]), consumer("b", ["t", "u"])),
    ),
    "characters of a subscription": (
        Budget(subscription_chars=4),
        beat(consumer("a", {"t": "*", "u": "tags"})),
        beat(consumer("a", {"t": "*", "u": "tag55"})),
    ),
    "client id": (Budget(name_chars=4), beat(client="four"), beat(client="fives")),
    "consumer group": (
        Budget(name_chars=4),
        beat(consumer("four", ["t"])),
        beat(consumer("fives", ["t"])),
    ),
    "topic": (
        Budget(name_chars=4),
        beat(consumer("a", ["four"])),
        beat(consumer("a", ["t", "fives"])),
    ),
}


@pytest.mark.parametrize("case", AT_THE_LIMIT)
def test_what_reaches_a_limit_passes_and_one_more_does_not(case: str) -> None:
    budget, fits, is_over = AT_THE_LIMIT[case]
    limits = HeartbeatLimits(overload(), lambda: budget)
    limits.check(fits)
    with pytest.raises(OverBudgetError):
        limits.check(is_over)


def test_a_producer_group_has_a_length_too() -> None:
    limits = HeartbeatLimits(overload(), lambda: Budget(name_chars=4))
    limits.check(HeartbeatData(client_id="c", producer_data_set=[ProducerData(group_name="four")]))
    with pytest.raises(OverBudgetError):
        limits.check(
            HeartbeatData(client_id="c", producer_data_set=[ProducerData(group_name="fives")])
        )


def test_a_heartbeat_without_subscriptions_is_short_enough() -> None:
    limits = HeartbeatLimits(overload(), lambda: Budget(subscription_chars=0))
    limits.check(beat(consumer("a", [])))


def test_what_has_waited_for_more_than_31_s_is_refused() -> None:  # B-161
    waiting = overload(waited_s=31.1)
    limits = HeartbeatLimits(waiting, Budget)
    limits.check_waited()
    with pytest.raises(RequestRefusedError):
        limits.check_waited()
