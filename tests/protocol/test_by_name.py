"""Strategies by their names, and what some of them say for themselves (A-1)."""

from __future__ import annotations

import pytest

from pocketmq.protocol.allocation.by_config import AllocateMessageQueueByConfig
from pocketmq.protocol.allocation.by_name import STRATEGIES, strategy_named
from pocketmq.protocol.allocation.consistent_hash import AllocateMessageQueueConsistentHash
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.errors import ConfigError

QUEUES = [MessageQueue("T", "a", number) for number in range(8)]


class Own(AllocateMessageQueueByConfig):
    """A user's strategy without arguments."""


def test_a_strategy_has_two_names_or_is_the_user_s_own() -> None:
    for name, make in STRATEGIES.items():
        assert type(strategy_named(name)) is type(strategy_named(make().name)) is type(make())
    assert type(strategy_named(f"{__name__}:Own")).__name__ == "Own"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("AVERAGE", "there is no 'AVERAGE'"),
        ("nowhere_at_all:Own", "cannot be made"),
        (f"{__name__}:Nobody", "cannot be made"),
        ("builtins:dict", "is no strategy"),
    ],
)
def test_what_is_no_strategy_is_refused(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        strategy_named(name)


def test_queues_by_configuration_are_counted() -> None:
    strategy = AllocateMessageQueueByConfig(QUEUES[:3])
    assert strategy.explain("c1", QUEUES, ["c1"]).endswith(": 3 queues")
    nothing = AllocateMessageQueueByConfig(None)
    assert nothing.explain("c1", QUEUES, ["c1"]).endswith(": 0 queues")


def test_a_ring_says_its_size_and_a_member_twice_in_it_has_twice_the_points() -> None:
    hashed: list[str] = []

    def by_length(text: str) -> int:
        hashed.append(text)
        return len(hashed)

    ring = AllocateMessageQueueConsistentHash(3, by_length)
    ring.allocate("g", "c1", QUEUES, ["c1", "c2", "c1"])
    points = [text for text in hashed if text.startswith("c")]
    assert points == ["c1-0", "c1-1", "c1-2", "c2-0", "c2-1", "c2-2", "c1-3", "c1-4", "c1-5"]
    whole = AllocateMessageQueueConsistentHash()
    assert whole.explain("c1", QUEUES, ["c1"]) == (
        "8 queues on a ring of 1 member x 10 points: 8 hash just before one of mine"
    )
