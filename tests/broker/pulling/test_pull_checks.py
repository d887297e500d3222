"""Who may pull what, and what the outcome of a read is called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.filters.message_filters import MessageFilter, MessageFilters
from pocketmq.broker.groups.consumers import ConsumerManager
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.broker.pulling.pull_checks import (
    FOUND,
    MOVED,
    NOT_FOUND,
    RETRY,
    HeldPull,
    PullChecks,
    SlaveReads,
    Verdict,
    response_code,
)
from pocketmq.broker.role import RoleState
from pocketmq.broker.role_names import BrokerRole
from pocketmq.broker.store.queues.lookup import GetStatus
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.budget import Budget
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import FilterError, OverBudgetError
from pocketmq.protocol.messages.subscription import TAG, SubscriptionData, tags_code
from pocketmq.protocol.scalars import Perm
from support.broker_rig import FakePeer, consumer, pull_header

NOW_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Options:
    """Of a broker."""

    broker_permission: int = Perm.RW
    slave_read_enable: bool = False


def slave_reads(
    *, leads: bool = False, enabled: bool = False, master: bool = False, refuses: bool = True
) -> SlaveReads:
    return SlaveReads(
        role=RoleState(BrokerRole.ASYNC_MASTER if leads else BrokerRole.SLAVE, 0 if leads else 1),
        options=lambda: Options(slave_read_enable=enabled),
        master_is_known=lambda: master,
        refuses=refuses,
    )


class House:
    """The managers that the checks ask."""

    def __init__(
        self,
        *,
        auto_create: bool = True,
        options: Options = Options(),
        filters: MessageFilters | None = None,
        **others: Any,
    ) -> None:
        self.topics = TopicConfigManager("broker-a", "DefaultCluster")
        self.groups = SubscriptionGroupManager(auto_create=lambda: auto_create, max_name_chars=120)
        self.consumers = ConsumerManager()
        self.checks = PullChecks(
            self.topics,
            self.groups,
            self.consumers,
            filters or MessageFilters(),
            broker_name="broker-a",
            options=lambda: options,
            **others,
        )
        self.topics.put(
            TopicConfig(topic_name="orders", read_queue_nums=4, write_queue_nums=4), NOW_MS
        )

    def refusal(self, **fields: Any) -> int:
        with pytest.raises(RequestRefusedError) as caught:
            self.checks.check(pull_header(**fields), NOW_MS)
        return caught.value.code

    def group(self, **fields: Any) -> None:
        self.groups.put(SubscriptionGroupConfig(group_name="readers", **fields), NOW_MS)

    def beat(self, **fields: Any) -> None:
        self.consumers.heartbeat(
            consumer(**fields), FakePeer(), "one", language=0, version=479, now=0.0
        )


def test_a_broker_that_may_not_be_read_refuses_every_pull() -> None:  # B-55, B-56
    assert House(options=Options(broker_permission=2)).refusal() == 16


def test_an_unknown_group_is_created_or_refused() -> None:  # B-55, B-56
    house = House()
    house.checks.check(pull_header(), NOW_MS)
    assert house.groups.get("readers") is not None
    assert House(auto_create=False).refusal() == 26


def test_a_group_that_may_not_consume_is_refused() -> None:  # B-55, B-56
    house = House()
    house.group(consume_enable=False)
    assert house.refusal() == 16


def test_an_unknown_topic_is_refused() -> None:  # B-55, B-56
    assert House().refusal(topic="nobody") == 17


def test_a_topic_that_may_not_be_read_is_refused() -> None:  # B-55, B-56
    house = House()
    house.topics.put(TopicConfig(topic_name="orders", perm=2), NOW_MS)
    assert house.refusal() == 16


@pytest.mark.parametrize("queue_id", [-1, 4])
def test_a_queue_that_does_not_exist_is_refused(queue_id: int) -> None:  # B-55, B-56
    assert House().refusal(queue_id=queue_id) == 29
    assert House(invalid_parameter_code=1).refusal(queue_id=queue_id) == 1


def test_a_subscription_in_the_header_counts_by_itself() -> None:  # B-55
    plan = House().checks.check(pull_header(subscription="TagA || TagC"), NOW_MS)
    accept = plan.filter.accept
    assert accept is not None
    accepted = [tag for tag in ("TagA", "TagB", "TagC", None) if accept(tags_code(tag))]
    assert accepted == ["TagA", "TagC"]
    assert House().checks.check(pull_header(subscription="*"), NOW_MS).filter.accept is None


def test_a_subscription_that_cannot_be_read_is_23() -> None:  # B-55
    assert House().refusal(subscription="||") == 23
    assert House().refusal(subscription="a", expression_type="XPATH") == 23


def test_without_a_subscription_in_the_header_the_heartbeats_counts() -> None:  # B-56
    house = House()
    assert house.refusal(sys_flag=0) == 24
    house.beat(topics=["others"])
    assert house.refusal(sys_flag=0) == 24
    house.beat(topics={"orders": "TagA"}, version=5)
    assert house.refusal(sys_flag=0, sub_version=6) == 25
    plan = house.checks.check(pull_header(sys_flag=0, sub_version=5), NOW_MS)
    assert plan.filter.accept is not None
    assert not plan.filter.accept(tags_code("TagB"))


def test_an_expression_that_the_broker_cannot_compile_is_told_by_where_it_came_from() -> None:
    #
    def wrong(_subscription: SubscriptionData) -> MessageFilter:
        raise FilterError("wrong", 0, "no expression")

    filters = MessageFilters()
    filters.add(TAG, wrong)
    house = House(filters=filters)
    assert house.refusal() == 23
    house.beat()
    assert house.refusal(sys_flag=0) == 27


def test_an_expression_is_as_long_as_the_budget_says() -> None:
    house = House(filters=MessageFilters(lambda: Budget(subscription_chars=600)))
    for _ in range(2):  # long ones are read each time
        assert house.checks.check(pull_header(subscription="a" * 600), NOW_MS).filter.accept
    with pytest.raises(OverBudgetError, match="characters of the subscription") as caught:
        house.checks.check(pull_header(subscription="a" * 601), NOW_MS)
    assert caught.value.code == 23


def test_expressions_without_end_are_not_kept() -> None:
    house = House()
    for n in range(2500):
        house.checks.check(pull_header(subscription=f"Tag{n}"), NOW_MS)
    for n in (0, 2499):
        accept = house.checks.check(pull_header(subscription=f"Tag{n}"), NOW_MS).filter.accept
        assert accept is not None
        assert accept(tags_code(f"Tag{n}"))
    assert len(house.checks._filters._parsed) <= 1024


def test_a_group_that_may_not_broadcast_is_refused() -> None:  # B-56
    house = House()
    house.group(consume_broadcast_enable=False)
    house.beat(message_model="BROADCASTING")
    assert house.refusal(sys_flag=0) == 16


def test_members_of_other_groups_may_pull() -> None:  # B-56
    for model, may_broadcast in (("CLUSTERING", False), ("BROADCASTING", True)):
        house = House()
        house.group(consume_broadcast_enable=may_broadcast)
        house.beat(message_model=model)
        assert house.checks.check(pull_header(sys_flag=0), NOW_MS)


@pytest.mark.parametrize(("chars", "is_kept"), [(512, True), (513, False)])
def test_a_consumer_repeats_its_expression_and_has_it_read_once(chars: int, is_kept: bool) -> None:
    house = House()
    first, again = (
        house.checks.check(pull_header(subscription="a" * chars), NOW_MS).subscription
        for _ in range(2)
    )
    assert first == again
    assert (first is again) is is_kept


@pytest.mark.parametrize(("subscribed", "wants"), [("*", True), ("TagA", True), ("TagB", False)])
def test_a_held_pull_wants_what_arrives_from_its_offset_on(subscribed: str, wants: bool) -> None:
    # B-70, B-73
    request = Command(11)
    subscription = SubscriptionData.parse("orders", subscribed, 0)
    held = HeldPull(FakePeer(), request, pull_header(queue_offset=12), subscription, 5.0)
    other, own = tags_code("TagC"), tags_code("TagA")
    assert (held.request, held.queue, held.deadline_at) == (request, ("orders", 0), 5.0)
    assert held.wants(12, [own]) is held.wants(10, [other, other, own]) is wants
    assert held.wants(13, [own]) is wants  # those before are gone
    assert not held.wants(10, [own, own])  # before its offset
    assert not held.wants(9, [own])
    assert (held.is_behind(12), held.is_behind(13)) == (False, True)


def test_sql_is_refused_with_a_word_on_why() -> None:  # B-56
    assert House().refusal(subscription="a > 1", expression_type="SQL92") == 1


@pytest.mark.parametrize(
    ("status", "at_0", "at_5"),
    [
        (GetStatus.FOUND, 0, 0),
        (GetStatus.NO_MATCHED_LOGIC_QUEUE, 19, 21),
        (GetStatus.NO_MESSAGE_IN_QUEUE, 19, 21),
        (GetStatus.OFFSET_TOO_SMALL, 21, 21),
        (GetStatus.OFFSET_OVERFLOW_ONE, 19, 19),
        (GetStatus.OFFSET_OVERFLOW_BADLY, 21, 21),
        (GetStatus.OFFSET_FOUND_NULL, 19, 19),
        (GetStatus.NO_MATCHED_MESSAGE, 20, 20),
        (GetStatus.MESSAGE_WAS_REMOVING, 20, 20),
        (GetStatus.OFFSET_RESET, 21, 21),
    ],
)
def test_each_outcome_of_a_read_has_its_code(  # B-59
    status: GetStatus, at_0: int, at_5: int
) -> None:
    assert response_code(status, 0) == at_0
    assert response_code(status, 5) == at_5


def group_of_slaves() -> SubscriptionGroupConfig:
    return SubscriptionGroupConfig(
        group_name="readers", broker_id=2, which_broker_when_consume_slowly=3
    )


def test_a_slow_consumer_is_sent_to_a_slave_only_where_slaves_are_read() -> None:  # B-63
    def suggested(*, slow: bool, enabled: bool) -> int:
        reads = slave_reads(leads=True, enabled=enabled)
        return reads.verdict(FOUND, 5, 6, group_of_slaves(), slow=slow).suggested_id

    assert suggested(slow=True, enabled=False) == 0
    assert suggested(slow=True, enabled=True) == 3
    assert suggested(slow=False, enabled=True) == 2


@pytest.mark.parametrize(
    ("code", "slow", "master", "expected"),
    [
        (FOUND, False, True, Verdict(FOUND, 6, 0)),
        (NOT_FOUND, False, True, Verdict(RETRY, 6, 0)),  # H-11: nobody parks on a slave
        (NOT_FOUND, False, False, Verdict(NOT_FOUND, 6, 2)),
        (FOUND, True, True, Verdict(FOUND, 6, 3)),
        (MOVED, True, True, Verdict(RETRY, 5, 2)),  # B-60
        (MOVED, False, False, Verdict(RETRY, 5, 2)),
    ],
)
def test_a_slave_sends_consumers_back_and_moves_no_offset(
    code: int, slow: bool, master: bool, expected: Verdict
) -> None:
    reads = slave_reads(enabled=True, master=master)
    reads.check()
    assert reads.verdict(code, 5, 6, group_of_slaves(), slow=slow) == expected


def test_a_slave_that_may_not_be_read_refuses_or_names_its_master() -> None:  # B-58
    with pytest.raises(RequestRefusedError, match="pull from its master"):
        slave_reads().check()
    older = slave_reads(refuses=False)
    older.check()
    for code in (FOUND, NOT_FOUND, RETRY):
        assert older.verdict(code, 5, 6, group_of_slaves(), slow=True) == Verdict(code, 6, 0)
    assert older.verdict(MOVED, 5, 6, group_of_slaves(), slow=True) == Verdict(RETRY, 5, 2)
    slave_reads(leads=True).check()


def test_a_master_moves_offsets_itself() -> None:  # B-60
    reads = slave_reads(leads=True, enabled=True)
    assert reads.verdict(MOVED, 5, 6, group_of_slaves(), slow=False) == Verdict(MOVED, 6, 2)


def test_a_slave_is_not_read_and_knows_no_master_unless_told() -> None:  # B-58, H-11
    role = RoleState(BrokerRole.SLAVE, 1)
    with pytest.raises(RequestRefusedError):
        SlaveReads(role=role, options=Options).check()
    reads = SlaveReads(role=role, options=lambda: Options(slave_read_enable=True))
    verdict = reads.verdict(NOT_FOUND, 5, 6, group_of_slaves(), slow=False)
    assert verdict == Verdict(NOT_FOUND, 6, 2)
