"""The route table, step by step (N-2 to N-34)."""

from __future__ import annotations

from typing import Any, cast

import pytest
from msgspec.structs import replace

from pocketmq.nameserver.acting_master import LeastIdChange, has_no_master
from pocketmq.nameserver.liveness import BrokerKey
from pocketmq.nameserver.registration import Outcome, Registered, Registration
from pocketmq.nameserver.route_table import RouteTable
from pocketmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.dispatch import Peer
from pocketmq.runtime.profile import PROFILE_4_9, PROFILE_5_X
from support.nameserver_rig import topic_configs

NO_PEER = cast("Peer", object())


def speaks(table: RouteTable, broker_id: int = 0, now: float = 0.0, **said: Any) -> Registered:
    """A broker `b` at `h:<id>` of cluster `c` registers the topics T and U."""
    topics = topic_configs(said.pop("topics", ["T", "U"]), **said.pop("config", {}))
    version = DataVersion(**said.pop("version", {"timestamp": 1, "counter": 1}))
    fields = {
        "cluster": "c",
        "broker_name": "b",
        "address": f"h:{broker_id}",
        "channel": NO_PEER,
        "ha_address": f"ha:{broker_id}",
        "enable_acting_master": False,
    }
    return table.register(
        Registration(broker_id=broker_id, topics=topics, data_version=version, **(fields | said)),
        now,
    )


def routed(table: RouteTable, topic: str) -> TopicRouteData:
    route = table.route(topic)
    assert route is not None
    return route


def addresses_of(table: RouteTable, name: str = "b") -> dict[int, str]:
    broker = table.broker(name)
    assert broker is not None
    return broker.broker_addrs


def test_all_that_a_registration_says_is_told() -> None:  # N-4, N-5, N-6
    table = RouteTable()
    config = {"read_queue_nums": 3, "write_queue_nums": 2, "perm": 7, "topic_sys_flag": 1}
    first = speaks(table, zone_name="z", enable_acting_master=True, config=config, now=5.0)
    assert first == Registered(is_new=True, topics_applied=2)
    [queue], [broker] = routed(table, "T").queue_datas, routed(table, "T").broker_datas
    assert queue == QueueData(broker_name="b", **config)
    assert (broker.cluster, broker.broker_addrs) == ("c", {0: "h:0"})
    assert (broker.enable_acting_master, broker.zone_name) == (True, "z")
    live = table.live.get(table.key("c", "h:0"))
    assert live is not None
    assert (live.broker_name, live.broker_id, live.ha_address) == ("b", 0, "ha:0")
    assert (live.seen_at, live.expires_at) == (5.0, 125.0)
    assert speaks(table, now=6.0) == Registered(is_new=False, topics_applied=0)
    [broker] = routed(table, "T").broker_datas
    assert (broker.enable_acting_master, broker.zone_name) == (False, None)
    speaks(table, broker_name="other", address="o:0", topics=["V", "W"])
    assert [each.broker_name for each in routed(table, "V").broker_datas] == ["other"]


def test_what_the_budget_counts() -> None:
    table = RouteTable()
    assert (table.queues.count, table.broker_count) == (0, 0)
    speaks(table)
    assert (table.queues.count, table.broker_count) == (2, 1)
    assert (table.queues.has("T", "b"), table.queues.has("T", "x")) == (True, False)
    assert not table.queues.has("X", "b")
    lacking = [table.queues.lacking(["T", "U", "X"], name) for name in "bx"]
    assert lacking == [1, 3], "what a registration would add"
    known = [("c", "b", "h:0"), ("c", "b", "h:1"), ("c", "x", "h:0"), ("x", "b", "h:0")]
    assert [table.is_known(*each) for each in known] == [True, False, False, False]
    speaks(table, 1)
    assert (table.queues.count, table.broker_count) == (2, 2), "two addresses of one name"
    table.live.remove(table.key("c", "h:0"))
    table.live.remove(table.key("c", "h:1"))
    assert table.broker_count == 1, "a name without an address"
    speaks(table, broker_name="other", address="o:0")
    assert (table.queues.count, table.broker_count) == (4, 2)


def test_an_address_leaves_its_other_ids_and_no_others_do() -> None:  # N-12
    table = RouteTable()
    speaks(table, 1)
    speaks(table, 2)
    speaks(table, 0, address="h:1")
    assert addresses_of(table) == {0: "h:1", 2: "h:2"}
    speaks(table, 0, address="h:9", topics=[])
    assert addresses_of(table) == {0: "h:9", 2: "h:2"}


def test_an_id_goes_to_another_address_unless_its_holder_is_newer() -> None:  # N-13
    table = RouteTable()
    speaks(table, 0, version={"state_version": 5})
    speaks(table, 1, version={"state_version": 4})
    late = speaks(table, 0, address="h:1", version={"state_version": 4, "counter": 9})
    assert late == Registered(outcome=Outcome.IGNORED)
    assert addresses_of(table) == {0: "h:0"}
    assert table.live.get(table.key("c", "h:1")) is None, "it has lost both ids"
    again = speaks(table, 0, version={"state_version": 3})
    assert again.outcome is Outcome.ACCEPTED, "the same address may go back"
    equal = speaks(table, 0, address="h:2", version={"state_version": 3})
    assert equal.outcome is Outcome.ACCEPTED
    table.live.remove(table.key("c", "h:2"))
    alone = speaks(table, 0, address="h:3")
    assert (alone.outcome, addresses_of(table)) == (Outcome.ACCEPTED, {0: "h:3"})
    old = RouteTable(PROFILE_4_9.nameserver)
    speaks(old, 0, version={"state_version": 5})
    assert speaks(old, 0, address="h:1").outcome is Outcome.ACCEPTED


def test_topics_of_a_new_id_count_whatever_its_version() -> None:  # N-15
    table = RouteTable()
    speaks(table)
    speaks(table, 1)  # takes the group over, with the version that is known of it
    table.unregister("c", "b", "h:0")
    took = speaks(table, 0, address="h:1", config={"read_queue_nums": 9})
    assert took.topics_applied == 2
    assert routed(table, "T").queue_datas[0].read_queue_nums == 9


def test_a_slave_may_not_be_written_to_if_it_acts_as_master() -> None:  # N-15
    for is_acting, perm in ((True, 4), (False, 6)):
        table = RouteTable()
        assert speaks(table, 1, enable_acting_master=is_acting).topics_applied == 2
        assert routed(table, "T").queue_datas[0].perm == perm
        assert speaks(table, 2, topics=["V", "W"]).topics_applied == 0
    old = RouteTable(PROFILE_4_9.nameserver)
    assert speaks(old, 1, enable_acting_master=False).topics_applied == 0
    assert [speaks(old).topics_applied for _ in range(2)] == [2, 0], "nothing has changed"


def test_a_slave_hears_of_a_master_that_lives() -> None:  # N-17
    table = RouteTable()
    assert speaks(table, 1).master_address is None
    master = speaks(table, 0)
    assert (master.master_address, master.master_ha_address) == (None, None)
    slave = speaks(table, 1)
    assert (slave.master_address, slave.master_ha_address) == ("h:0", "ha:0")
    table.live.remove(table.key("c", "h:0"))
    slave = speaks(table, 1)
    assert (slave.master_address, slave.master_ha_address) == (None, None)


def test_a_time_out_is_the_broker_s_own_under_5_x_only() -> None:  # N-2
    for profile, expires_at in ((PROFILE_5_X, 17.0), (PROFILE_4_9, 127.0)):
        table = RouteTable(profile.nameserver)
        speaks(table, now=7.0, timeout_s=10.0)
        live = table.live.get(table.key("c", "h:0"))
        assert live is not None
        assert live.expires_at == expires_at
    assert RouteTable(PROFILE_5_X.nameserver).key("c", "h:0") == BrokerKey("c", "h:0")
    assert RouteTable(PROFILE_4_9.nameserver).key("c", "h:0") == BrokerKey("", "h:0")


def test_filter_servers_are_told_by_the_address_that_named_them() -> None:  # N-8
    table = RouteTable()
    speaks(table, 0, filter_servers=["f:1", "f:2"])
    speaks(table, 1)
    speaks(table, broker_name="other", address="o:0", filter_servers=["f:3"], topics=["V", "W"])
    assert routed(table, "T").filter_server_table == {"h:0": ["f:1", "f:2"]}
    speaks(table, 0)
    assert routed(table, "T").filter_server_table == {"h:0": ["f:1", "f:2"]}, "None keeps them"
    table.unregister("c", "other", "o:0")
    speaks(table, broker_name="other", address="o:0", topics=["V", "W"])
    assert routed(table, "V").filter_server_table == {}
    speaks(table, 0, filter_servers=[])
    assert routed(table, "T").filter_server_table == {}


def test_who_unregisters_is_told_and_its_name_goes_with_its_last_address() -> None:  # N-20
    table = RouteTable()
    gone: list[str] = []
    table.unregistered.connect(lambda broker: gone.append(broker.key.address))
    speaks(table)
    speaks(table, 1)
    speaks(table, cluster="d")
    speaks(table, broker_name="other", address="o:0", cluster="d")
    assert not table.unregister("c", "nobody", "h:7")
    assert not table.unregister("c", "b", "h:0")
    assert (gone, addresses_of(table)) == (["h:0"], {1: "h:1"})
    assert table.unregister("c", "b", "h:1")
    assert gone == ["h:0", "h:1"]
    assert (table.broker("b"), table.queues.has("T", "b")) == (None, False)
    assert table.cluster_info().cluster_addr_table == {"d": ["other"]}
    assert [each.broker_name for each in routed(table, "T").queue_datas] == ["other"]
    live = table.live.get(table.key("d", "o:0"))
    assert live is not None
    assert table.forget(live)
    assert (table.queues.topics(), gone) == ([], ["h:0", "h:1"]), "who expires did not unregister"


def test_4_9_removes_an_id_whoever_holds_it() -> None:  # N-20
    table = RouteTable(PROFILE_4_9.nameserver)
    speaks(table)
    speaks(table, 1)
    assert not table.unregister("c", "b", "h:9", broker_id=0)
    assert addresses_of(table) == {1: "h:1"}
    assert not table.unregister("c", "b", "h:9", broker_id=0), "twice"
    assert table.unregister("c", "b", "h:9", broker_id=1)


def test_a_topic_goes_from_one_cluster_or_from_all() -> None:  # N-30
    table = RouteTable()
    for cluster in ("c", "d"):
        speaks(table, cluster=cluster, broker_name=f"b-{cluster}", address=f"{cluster}:0")
    table.delete_topic("T", "x")
    assert len(routed(table, "T").queue_datas) == 2
    table.delete_topic("T", "c")
    assert [each.broker_name for each in routed(table, "T").queue_datas] == ["b-d"]
    assert table.topics_of_cluster("c") == ["U"]
    assert table.topics_of_cluster("d") == ["T", "U"]
    table.delete_topic("T", "d")
    assert table.queues.topics() == ["U"]
    table.delete_topic("U")
    table.delete_topic("U")
    assert (table.queues.topics(), table.topics_of_cluster("x")) == ([], [])


def test_queues_by_hand_and_permissions() -> None:  # N-31, N-32
    table = RouteTable()
    speaks(table)
    speaks(table, broker_name="other", address="o:0", topics=["V", "W"])
    queues = [
        QueueData(broker_name=name, read_queue_nums=1, write_queue_nums=1, perm=6)
        for name in ("b", "nobody", "other")
    ]
    table.add_topic("X", queues)
    assert table.route("X") is None, "a new topic is entered whole or not at all"
    table.add_topic("X", queues[:1])
    table.add_topic("X", [replace(queues[0], write_queue_nums=2), *queues[1:]])
    assert routed(table, "X").queue_datas[0].write_queue_nums == 2
    assert [each.broker_name for each in routed(table, "X").queue_datas] == ["b"]
    assert table.queues.set_perm("b", keep=~2, add=0) == 3
    assert [routed(table, topic).queue_datas[0].perm for topic in "TUVX"] == [4, 4, 6, 4]
    assert table.queues.set_perm("nobody", keep=~0, add=0) == 0


@pytest.mark.parametrize(("flag", "topics"), [(0, ["T", "U"]), (1, ["V", "W"])])
def test_topics_are_listed_by_the_flag_of_their_first_broker(flag: int, topics: list[str]) -> None:
    table = RouteTable()
    speaks(table)
    speaks(
        table, broker_name="other", address="o:0", topics=["T", "V", "W"],
        config={"topic_sys_flag": 1},
    )  # fmt: skip
    assert table.queues.topics_where(lambda each: each == flag) == topics


def test_names_of_clusters_and_brokers_and_one_address_to_ask() -> None:  # N-34
    table = RouteTable()
    assert (table.system_topics().topic_list, table.system_topics().broker_addr) == ([], None)
    speaks(table, topics=["T"])  # refused; it has no address
    speaks(table, broker_name="other", address="o:0")
    told = table.system_topics()
    assert (told.topic_list, told.broker_addr) == (["c", "b", "other"], "o:0")
    info = table.cluster_info()
    assert info.cluster_addr_table == {"c": ["b", "other"]}
    assert list(info.broker_addr_table) == ["b", "other"]
    speaks(table, cluster="d", broker_name="other", address="o:0")
    assert table.system_topics().topic_list == ["c", "b", "other", "d"], "each name once"


def test_what_an_option_says_of_topics_that_are_registered_no_more() -> None:  # N-15
    for does_delete, topics in ((False, ["T", "U", "V", "W"]), (True, ["U", "V", "W"])):
        table = RouteTable(delete_topic_with_registration=lambda does=does_delete: does)
        for name in ("b", "other"):
            speaks(table, broker_name=name, address=f"{name}:0", topics=["U", "V", "W"])
        speaks(table, topics=["T", "U"])
        speaks(table, topics=["U", "V"])
        assert sorted(table.queues.topics()) == topics
        assert table.queues.has("W", "b") is not does_delete
        assert table.queues.has("W", "other")
    kept = RouteTable()
    speaks(kept)
    speaks(kept, topics=["V", "W"])
    assert kept.queues.has("T", "b"), "they stay by default"


def test_a_smaller_id_is_told_once_and_a_slave_acts_only_if_the_option_says_so() -> None:  # Z-6
    table = RouteTable()
    told: list[LeastIdChange] = []
    table.least_id_changed.connect(told.append)
    for broker_id in (2, 2, 3, 1, 1):
        speaks(table, broker_id, enable_acting_master=True)
    assert told == [
        LeastIdChange(broker_name="b", members={2: "h:2", 3: "h:3", 1: "h:1"}, ha_address="ha:1")
    ]
    assert (told[0].least_id, sorted(told[0].told)) == (1, ["h:2", "h:3"])
    alone = LeastIdChange(broker_name="b", members={1: "h:1"})
    assert alone.told == ["h:1"], "it is the only one left"
    assert sorted(routed(table, "T").broker_datas[0].broker_addrs) == [1, 2, 3]
    acting = RouteTable(support_acting_master=lambda: True)
    for broker_id in (1, 2):
        speaks(acting, broker_id, enable_acting_master=True)
    assert routed(acting, "T").broker_datas[0].broker_addrs == {0: "h:1", 2: "h:2"}


def test_a_group_without_anybody_has_no_slaves_to_act() -> None:
    groups = [{}, {0: "h:0", 1: "h:1"}, {1: "h:1"}]
    found = [
        has_no_master(BrokerData(cluster="c", broker_name="b", broker_addrs=addresses))
        for addresses in groups
    ]
    assert found == [False, False, True]
