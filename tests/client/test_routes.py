"""The route table: what a name server's answer means for senders and consumers."""

from __future__ import annotations

import random

import msgspec
import pytest

from pocketmq.client import routes
from pocketmq.client.heartbeat import heartbeat_addresses
from pocketmq.client.name_servers import NameServers, parse_addresses
from pocketmq.client.routes import (
    RouteTable,
    TopicPublishInfo,
    clipped_to_default,
    publish_queues,
    same_route,
    subscribe_queues,
)
from pocketmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.scalars import Perm
from support.worked_examples import rows


def queue_data(name: str, *, read: int = 2, write: int = 2, perm: int = 6) -> QueueData:
    return QueueData(broker_name=name, read_queue_nums=read, write_queue_nums=write, perm=perm)


def broker_data(name: str, *ids: int) -> BrokerData:
    addresses = {i: f"{name}-{i}:1" for i in ids or (0,)}
    return BrokerData(cluster="c", broker_name=name, broker_addrs=addresses)


def route(*names: str) -> TopicRouteData:
    return TopicRouteData(
        queue_datas=[queue_data(name) for name in names],
        broker_datas=[broker_data(name) for name in names],
    )


def texts(queues: list[MessageQueue]) -> list[str]:
    return [f"{queue.broker_name}{queue.queue_id}" for queue in queues]


def test_publish_queues_need_write_permission_and_a_master() -> None:  # P-12
    given = TopicRouteData(
        queue_datas=[
            queue_data("c"),
            queue_data("a", read=1, write=3),
            queue_data("readonly", perm=4),
            queue_data("slaves"),
            queue_data("unknown"),
        ],
        broker_datas=[
            broker_data("a"),
            broker_data("c"),
            broker_data("readonly"),
            broker_data("slaves", 1),
        ],
    )
    assert texts(publish_queues("T", given)) == ["a0", "a1", "a2", "c0", "c1"]


def test_subscribe_queues_need_read_permission_but_no_master() -> None:  # P-13
    given = TopicRouteData(
        queue_datas=[
            queue_data("b", read=3, write=1),
            queue_data("a", perm=4),
            queue_data("w", perm=2),
        ],
        broker_datas=[broker_data("a", 1)],
    )
    assert texts(subscribe_queues("T", given)) == ["a0", "a1", "b0", "b1", "b2"]


def test_an_order_configuration_names_the_queues_exactly() -> None:  # P-12
    given = msgspec.structs.replace(route("a"), order_topic_conf="b:2;a:1;nonsense;c:x")
    assert texts(publish_queues("T", given)) == ["b0", "b1", "a0"]
    info = RouteTable()
    info.apply("T", given)
    assert info.publish_info("T").ordered  # type: ignore[union-attr]


def test_a_model_topic_is_clipped_to_4_queues() -> None:  # P-14
    given = TopicRouteData(
        queue_datas=[queue_data("a", read=8, write=8), queue_data("b", read=2, write=9)]
    )
    clipped = clipped_to_default(given, 4)
    assert [(d.read_queue_nums, d.write_queue_nums) for d in clipped.queue_datas] == [
        (4, 4),
        (2, 2),
    ]


def test_the_order_of_an_answer_is_no_change() -> None:  # P-11
    assert same_route(route("a", "b"), route("b", "a"))
    assert not same_route(route("a", "b"), route("a"))
    assert not same_route(route("a"), msgspec.structs.replace(route("a"), order_topic_conf="a:1"))


def test_a_change_replaces_brokers_and_queues() -> None:  # P-11
    table = RouteTable()
    assert table.apply("T", route("a"))
    assert not table.apply("T", route("a"))
    before = table.publish_info("T")
    assert table.publish_info("T") is before
    changes = table.changes
    assert not table.apply("T", route("a"))
    assert table.changes == changes
    moved = route("a")
    moved.broker_datas[0].broker_addrs = {0: "new:1", 2: "slave:1"}
    assert table.apply("T", moved)
    assert table.changes != changes, "who remembers an address looks again"
    assert table.master("a") == "new:1"
    assert table.publish_info("T") is not before
    assert table.publish_info("unknown") is None


@pytest.mark.parametrize(
    ("ids", "wanted", "found"),
    [
        ((0, 1), 0, 0),
        ((0, 1), 1, 1),
        ((0, 2), 1, 2),  # the next id, when a slave was asked for
        ((0,), 1, 0),
        ((1, 2), 0, 1),  # any, when the master is gone
    ],
)
def test_which_broker_is_read_from(ids: tuple[int, ...], wanted: int, found: int) -> None:  # C-38
    table = RouteTable()
    table.apply("T", TopicRouteData(broker_datas=[broker_data("a", *ids)]))
    broker = table.broker("a", wanted)
    assert broker is not None
    assert (broker.address, broker.broker_id) == (f"a-{found}:1", found)
    only = table.broker("a", wanted, only_this=True)
    assert (only is not None) == (found in (wanted, wanted + 1 if wanted else wanted))


def test_members_are_asked_of_a_random_brokers_master_or_of_a_slave() -> None:  # C-24
    table = RouteTable()
    assert table.broker_of_topic("T", lambda names: names[0]) is None
    table.apply("T", TopicRouteData(broker_datas=[broker_data("b", 0, 1), broker_data("a", 2, 3)]))
    assert table.broker_of_topic("T", lambda names: names[-1]) == "b-0:1"
    assert table.broker_of_topic("T", lambda names: names[0]) == "a-2:1"


def test_addresses_that_no_route_names_are_forgotten() -> None:  # P-10
    table = RouteTable()
    table.apply("T", route("a", "b"))
    table.apply("U", route("a"))
    table.apply("T", route("a"))
    assert table.addresses() == [("a", 0, "a-0:1"), ("b", 0, "b-0:1")]
    before = table.changes
    assert table.clean_offline_brokers() == ["b-0:1"]
    assert table.addresses() == [("a", 0, "a-0:1")]
    assert table.changes != before, "who remembers an address looks again"
    before = table.changes
    assert table.clean_offline_brokers() == []
    assert table.changes == before


def test_the_round_robin_begins_anywhere_and_takes_each_in_turn() -> None:  # P-30
    queues = [MessageQueue("T", "a", i) for i in range(3)]
    info = TopicPublishInfo("T", queues, first_index=2**31 - 2)
    assert [info.next_queue().queue_id for _ in range(4)] == [1, 0, 1, 2]  # wraps at 2^31
    assert len({TopicPublishInfo("T", queues).next_index() for _ in range(20)}) > 1
    assert TopicPublishInfo("T", queues).ordered is False


def test_name_servers_are_kept_until_they_fail() -> None:  # P-9
    names = NameServers(["a:1", "b:1", "c:1"])
    first = names.current
    assert names.current == first
    names.failed(first)
    second = names.current
    assert second != first
    names.failed(first)  # somebody else noticed as well
    assert names.current == second
    assert len(names) == 3


def test_addresses_are_separated_by_semicolons() -> None:  # P-9
    assert parse_addresses(" a:1; b:2;;a:1") == ("a:1", "b:2")
    assert parse_addresses(["a:1", "b:2"]) == ("a:1", "b:2")
    assert parse_addresses(None) == ()


def test_a_broker_id_that_left_the_route_is_not_asked_any_more() -> None:  # P-11, C-38
    table = RouteTable()
    queues = [queue_data("a")]
    table.apply("T", TopicRouteData(queue_datas=queues, broker_datas=[broker_data("a", 0, 1)]))
    table.apply("T", TopicRouteData(queue_datas=queues, broker_datas=[broker_data("a", 0)]))
    assert table.broker("a", 1, only_this=True) is None
    assert table.addresses() == [("a", 0, "a-0:1")]


def test_only_a_name_with_slaves_or_without_a_master_may_fail_over() -> None:  # W-12
    table = RouteTable()
    table.brokers = {"pair": {0: "a:1", 1: "b:1"}, "slave": {1: "c:1"}, "alone": {0: "d:1"}}
    table.brokers["none"] = {}
    found = {name for name in (*table.brokers, "unknown") if table.may_fail_over(name)}
    assert found == {"pair", "slave"}


def test_masters_only_leaves_slaves_out() -> None:  # P-8
    table = RouteTable()
    table.brokers = {"b": {0: "b:1", 1: "b:2"}, "a": {2: "a:3"}}
    assert table.addresses() == [("a", 2, "a:3"), ("b", 0, "b:1"), ("b", 1, "b:2")]
    assert table.addresses(masters_only=True) == [("b", 0, "b:1")]
    assert heartbeat_addresses(table, has_consumers=True) == table.addresses()
    assert heartbeat_addresses(table, has_consumers=False) == [("b", 0, "b:1")]


def test_a_broker_name_without_addresses_is_forgotten() -> None:  # P-10
    table = RouteTable()
    table.brokers = {"gone": {0: "x:1"}}
    assert table.clean_offline_brokers() == ["x:1"]
    assert table.brokers == {}


def test_the_round_robin_begins_anywhere_and_again_anywhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # P-30, P-33
    asked: list[int] = []
    drawn = iter([4, 8])

    def getrandbits(bits: int) -> int:
        asked.append(bits)
        return next(drawn)

    monkeypatch.setattr(random, "getrandbits", getrandbits)
    info = TopicPublishInfo("T", [MessageQueue("T", "a", i) for i in range(10)])
    assert info.next_queue().queue_id == 5
    info.randomise()
    assert info.next_queue().queue_id == 9
    assert asked == [31, 31]  # never negative, as RocketMQ's index


def test_the_route_that_the_module_opens_with() -> None:  # P-12, P-13
    shown = rows(routes, "broker ")
    perms = {"RW": Perm.READ | Perm.WRITE, "R": Perm.READ}
    given = TopicRouteData(
        queue_datas=[queue_data(name, perm=perms[perm]) for name, perm, *_ in shown],
        broker_datas=[
            broker_data(name, *(("master" not in who) + at for at in range(len(who.split(", ")))))
            for name, _, who, *_ in shown
        ],
    )
    for queues, column in ((publish_queues, 3), (subscribe_queues, 4)):
        found = texts(queues("T", given))
        assert found == [name for row in shown for name in row[column].split() if name != "-"]


def test_addresses_that_stay_are_no_change_however_many_topics_tell_them() -> None:
    table = RouteTable()
    table.apply("T", route("a", "b"))
    before = table.changes
    for number in range(3):
        assert table.apply(f"T{number}", route("a", "b"))
    assert table.apply("T", route("a"))
    assert table.changes == before
    moved = msgspec.structs.replace(route("a"), broker_datas=[broker_data("a", 0, 1)])
    assert table.apply("T", moved)
    assert table.changes != before


def test_brokers_to_consume_from_are_those_with_queues_that_can_be_read() -> None:
    table = RouteTable()
    given = [queue_data("b"), queue_data("a"), queue_data("w", perm=2), queue_data("none", read=0)]
    table.apply("T", TopicRouteData(queue_datas=given))
    assert table.readable_brokers("T") == ["a", "b"]
    assert table.readable_brokers("unknown") == []
