"""The route table under any history of registrations and departures (N-4 to N-20, N-30, N-32)."""

from __future__ import annotations

from typing import cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pocketmq.nameserver.registration import Outcome, Registration
from pocketmq.nameserver.route_table import RouteTable
from pocketmq.protocol.bodies.route import QueueData
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.dispatch import Peer
from pocketmq.runtime.profile import PROFILE_4_9, PROFILE_5_X
from support.nameserver_rig import topic_configs

clusters = st.sampled_from(["c1", "c2"])
broker_names = st.sampled_from(["broker-a", "broker-b"])
broker_ids = st.integers(0, 2)
addresses = st.sampled_from(["h:1", "h:2", "h:3", "h:4"])
topic_sets = st.sets(st.sampled_from(["T1", "T2", "T3", "T4"]), max_size=4)
versions = st.builds(
    DataVersion,
    state_version=st.integers(0, 1),
    timestamp=st.integers(0, 1),
    counter=st.integers(0, 2),
)
NO_PEER = cast("Peer", object())


class Histories(RuleBasedStateMachine):
    """Brokers come and go in any order; the four tables must agree after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.table = RouteTable(PROFILE_5_X.nameserver)
        self.now = 0.0

    @rule(
        cluster=clusters,
        name=broker_names,
        broker_id=broker_ids,
        address=addresses,
        topics=topic_sets,
        version=versions,
        acting=st.sampled_from([None, False, True]),
    )
    def register(
        self,
        cluster: str,
        name: str,
        broker_id: int,
        address: str,
        topics: set[str],
        version: DataVersion,
        acting: bool | None,
    ) -> None:
        registered = self.table.register(
            Registration(
                cluster=cluster,
                broker_name=name,
                broker_id=broker_id,
                address=address,
                channel=NO_PEER,
                topics=topic_configs(sorted(topics)),
                data_version=version,
                enable_acting_master=acting,
            ),
            self.now,
        )
        if registered.outcome is Outcome.ACCEPTED:
            broker = self.table.broker(name)
            assert broker is not None
            assert broker.broker_addrs[broker_id] == address
            assert not self.table.is_changed(cluster, address, version)
            if broker_id == 0:
                for topic in topics:
                    route = self.table.route(topic)
                    assert route is not None
                    assert name in [queue.broker_name for queue in route.queue_datas]

    @rule(cluster=clusters, name=broker_names, address=addresses)
    def unregister(self, cluster: str, name: str, address: str) -> None:
        self.table.unregister(cluster, name, address)
        assert self.table.live.get(self.table.key(cluster, address)) is None

    @rule(seconds=st.integers(1, 130))
    def wait(self, seconds: int) -> None:
        self.now += seconds
        for broker in self.table.live.expired(self.now):
            self.table.forget(broker)
        assert self.table.live.expired(self.now) == []

    @rule(topic=st.sampled_from(["T1", "T2"]), cluster=st.none() | clusters)
    def delete(self, topic: str, cluster: str | None) -> None:
        self.table.delete_topic(topic, cluster)
        assert cluster is not None or self.table.route(topic) is None

    @rule(topic=st.sampled_from(["T1", "T9"]), name=broker_names)
    def add_by_hand(self, topic: str, name: str) -> None:
        queue = QueueData(broker_name=name, read_queue_nums=1, write_queue_nums=1, perm=6)
        self.table.add_topic(topic, [queue])

    @invariant()
    def every_queue_belongs_to_a_known_broker_and_no_topic_is_empty(self) -> None:
        for topic in self.table.queues.topics():
            route = self.table.route(topic)
            assert route is not None
            for queue in route.queue_datas:
                assert self.table.broker(queue.broker_name) is not None

    @invariant()
    def the_routes_are_as_many_as_they_are_counted(self) -> None:
        queues = self.table.queues
        assert queues.count == sum(len(queues.of(topic)) for topic in queues.topics())

    @invariant()
    def every_name_in_a_cluster_is_a_known_broker(self) -> None:
        info = self.table.cluster_info()
        for names in info.cluster_addr_table.values():
            assert names
            assert set(names) <= set(info.broker_addr_table)

    @invariant()
    def no_address_stands_under_two_ids_of_one_broker(self) -> None:  # N-12
        for broker in self.table.cluster_info().broker_addr_table.values():
            held = list(broker.broker_addrs.values())
            assert len(held) == len(set(held))


TestHistories = Histories.TestCase


def test_a_refused_broker_shows_without_an_address() -> None:  # N-14, as in RocketMQ
    table = RouteTable(PROFILE_5_X.nameserver)
    one_topic = Registration(
        cluster="c",
        broker_name="b",
        broker_id=0,
        address="h:1",
        channel=NO_PEER,
        topics=topic_configs(["T"]),
        data_version=DataVersion(),
    )
    assert table.register(one_topic, 0).outcome is Outcome.REFUSED
    assert table.cluster_info().broker_addr_table["b"].broker_addrs == {}
    assert table.route("T") is None
    assert RouteTable(PROFILE_4_9.nameserver).register(one_topic, 0).outcome is Outcome.ACCEPTED
