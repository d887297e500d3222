"""What a pop, an ack or a change is refused for, at each limit (K-30, K-50, K-54)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.broker.pop.checks import PopChecks
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.headers.pop import PopMessageRequestHeader

NOW_MS = 1_700_000_000_000
PASSED = 0


class Checks:
    """Checks of a broker with the topics `orders`, of two read queues, and `closed`."""

    def __init__(self, **options: Any) -> None:
        self._topics = TopicConfigManager("broker-a", "DefaultCluster")
        for name, perm in (("orders", 6), ("closed", 2)):
            config = TopicConfig(topic_name=name, read_queue_nums=2, write_queue_nums=4, perm=perm)
            self._topics.put(config, NOW_MS)
        self._groups = SubscriptionGroupManager(max_name_chars=120)
        idle = SubscriptionGroupConfig(group_name="idle", consume_enable=False)
        self._groups.put(idle, NOW_MS)
        store = {"timer_wheel_enable": True, "timer_max_delay_sec": 100}
        core: Any = SimpleNamespace(
            config=SimpleNamespace(
                name="broker-a", broker_permission=options.pop("broker_permission", 6)
            ),
            store=SimpleNamespace(
                config=SimpleNamespace(**store | options),
                reads=SimpleNamespace(
                    min_offset=lambda topic, queue_id: 10 + queue_id,
                    max_offset=lambda topic, queue_id: 20 + queue_id,
                ),
            ),
        )
        self.checks = PopChecks(core, self._topics, self._groups)

    def pop(self, late_ms: int = 0, **fields: Any) -> int:
        """The code that a pop is refused with, or PASSED."""
        header = PopMessageRequestHeader(
            **{
                "consumer_group": "readers",
                "topic": "orders",
                "queue_id": 1,
                "max_msg_nums": 32,
                "invisible_time": 100_000,
                "poll_time": 15_000,
                "born_time": NOW_MS,
                "init_mode": 0,
                **fields,
            }
        )
        now_ms = NOW_MS + 15_000 + late_ms
        return refused(lambda: self.checks.pop(header, NOW_MS, now_ms).topic_name == "orders")


def refused(check: Any) -> int:
    """The code that a check refuses with, or PASSED."""
    try:
        assert check() is not False
    except RequestRefusedError as exc:
        return exc.code
    return PASSED


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, PASSED),
        ({"late_ms": 500}, PASSED),
        ({"late_ms": 501}, 210),
        ({"max_msg_nums": 33}, 29),
        ({"invisible_time": 100_001}, 29),
        ({"topic": "nowhere"}, 17),
        ({"topic": "closed"}, 16),
        ({"queue_id": 2}, 29),
        ({"queue_id": -1}, PASSED),
        ({"consumer_group": "idle"}, 16),
        ({"consumer_group": "a/b"}, 26),
        # The first that is wrong answers.
        ({"late_ms": 501, "max_msg_nums": 33}, 210),
        ({"topic": "nowhere", "queue_id": 9, "consumer_group": "idle"}, 17),
        ({"topic": "closed", "queue_id": 9}, 16),
    ],
)
def test_a_pop_is_refused_at_each_limit(fields: dict[str, Any], code: int) -> None:  # K-30
    assert Checks().pop(**fields) == code


def test_a_broker_without_timers_or_its_read_bit_pops_nothing() -> None:  # K-30
    assert Checks(timer_wheel_enable=False).pop() == 1
    closed = Checks(broker_permission=2)
    assert closed.pop() == 16
    assert closed.pop(max_msg_nums=33, invisible_time=100_001) == 16, "the first that is wrong"
    assert closed.pop(late_ms=501) == 210
    assert refused(lambda: closed.checks.read("orders", 0, "readers", NOW_MS)) == 16
    assert Checks(broker_permission=4).pop() == PASSED


@pytest.mark.parametrize(
    ("topic", "queue_id", "code"),
    [
        *(("orders", 0, PASSED), ("orders", 1, PASSED), ("orders", 2, 13), ("orders", -1, 13)),
        *(("nowhere", 0, 17), ("closed", 0, PASSED)),
    ],
)
def test_an_ack_names_a_queue_that_is_there(topic: str, queue_id: int, code: int) -> None:  # K-50
    assert refused(lambda: Checks().checks.queue(topic, queue_id)) == code


@pytest.mark.parametrize(
    ("offset", "of_ack", "of_change"),
    [(10, 208, 208), (11, PASSED, PASSED), (20, PASSED, PASSED), (21, PASSED, 208), (22, 208, 208)],
)
def test_an_ack_names_an_offset_of_its_queue(  # K-50, K-54
    offset: int, of_ack: int, of_change: int
) -> None:
    checks = Checks().checks
    for end_passes, code in ((True, of_ack), (False, of_change)):
        found = refused(lambda e=end_passes: checks.offset("orders", 1, offset, end_passes=e))
        assert found == code
