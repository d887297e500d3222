"""Topics, brokers and clusters, as brokers registered them (N-4 to N-32).

Each broker tells every nameserver its address and its topics; a client asks one nameserver where a
topic is. Master 0 and slave 1 of broker-a in cluster C, with topic T of 4 queues, are held as:

    clusters   C -> broker-a                                                     N-6
    brokers    broker-a -> cluster C, {0: 10.0.0.1:10911, 1: 10.0.0.2:10911}     N-5
    queues     T -> {broker-a: 4 read queues, 4 write queues, perm 6}            N-4, in `queues`
    live       (C, 10.0.0.1:10911) -> last heard at 30 s, ...                    N-7, liveness.py
               (C, 10.0.0.2:10911) -> ...

`register` enters a broker step by step in RocketMQ's order, which decides what happens when an
address changes its role or a slave speaks for a group without master. `route` joins the tables
again: T is on broker-a, whose addresses are these. When the last address of broker-a goes
(`unregister`, `forget`), so do its queues, and T with them.

Pure: the caller brings the time. One event loop calls it, so there is no lock. What a query returns
shares its `QueueData` with the table; they are replaced and never modified, so a returned route
does not change later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from pocketmq.nameserver.acting_master import LeastIdChange, has_no_master, shown
from pocketmq.nameserver.liveness import BROKER_EXPIRY_S, BrokerKey, LiveBroker, LiveBrokers
from pocketmq.nameserver.registration import Outcome, Registered, Registration
from pocketmq.nameserver.topic_queues import TopicQueues
from pocketmq.protocol.bodies.route import (
    MASTER_ID,
    BrokerData,
    ClusterInfo,
    QueueData,
    TopicList,
    TopicRouteData,
)
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.messages.validation import MEMBERS_TOPIC_PREFIX
from pocketmq.protocol.scalars import Perm
from pocketmq.runtime.profile.nameserver import NAMESERVER_5_X, NameServerProfile
from pocketmq.runtime.signals import Signal


class RouteTable:
    """The tables of a nameserver (N-4, N-5, N-6, N-8), and the live table N-7."""

    def __init__(
        self,
        profile: NameServerProfile = NAMESERVER_5_X,
        *,
        delete_topic_with_registration: Callable[[], bool] = lambda: False,
        support_acting_master: Callable[[], bool] = lambda: False,
    ) -> None:
        self._profile = profile
        self._support_acting_master = support_acting_master
        self._delete_topic_with_registration = delete_topic_with_registration
        self.queues = TopicQueues()
        self._brokers: dict[str, BrokerData] = {}
        self._clusters: dict[str, dict[str, None]] = {}
        """Broker names in order of arrival; a dict serves as an ordered set."""
        self._filter_servers: dict[BrokerKey, tuple[str, ...]] = {}
        self.live = LiveBrokers()
        self.unregistered: Signal[[LiveBroker]] = Signal()
        """Emitted with a live broker that unregistered."""
        self.least_id_changed: Signal[[LeastIdChange]] = Signal()
        """Emitted when a broker with a smaller id comes to a group, and, of groups that may act
        without their master, when the one with the least id goes (Z-6)."""

    @property
    def broker_count(self) -> int:
        """Addresses and names of brokers, each name once for each of its clusters."""
        return max(len(self.live), sum(map(len, self._clusters.values())))

    def is_known(self, cluster: str, broker_name: str, address: str) -> bool:
        """Whether a broker's registration would enter nobody new."""
        is_named = broker_name in self._clusters.get(cluster, ())
        return is_named and self.live.get(self.key(cluster, address)) is not None

    # -- registration -------------------------------------------------------------------------

    def register(self, registration: Registration, now: float) -> Registered:
        """Enter a broker and its topics, in RocketMQ's order (N-11 to N-17).

        The caller answers by `Registered.outcome`: REFUSED is SYSTEM_ERROR (1), the others are
        SUCCESS (0).
        """
        name, cluster = registration.broker_name, registration.cluster
        self._clusters.setdefault(cluster, {})[name] = None
        broker = self._brokers.get(name)
        is_first = broker is None
        if broker is None:
            broker = self._brokers[name] = BrokerData(cluster=cluster, broker_name=name)
        # Brokers of 4.x do not send this, so their slaves may not act as master (N-20).
        broker.enable_acting_master = self._profile.slaves_may_act and bool(
            registration.enable_acting_master
        )
        broker.zone_name = registration.zone_name

        addresses, broker_id = broker.broker_addrs, registration.broker_id
        # Before the broker is entered: the others are notified of a new lowest id (Z-6).
        is_less = bool(addresses) and broker_id < min(addresses)
        for other_id, address in list(addresses.items()):
            if address == registration.address and other_id != broker_id:
                del addresses[other_id]  # one process changed between slave and master (N-12)
        # A broker that comes back after a failover is ignored while its state is the older one
        # (N-13).
        if self._is_outdated(registration, addresses.get(broker_id)):
            self.live.remove(self.key(cluster, registration.address))
            return Registered(outcome=Outcome.IGNORED)
        # A single topic from an unknown id is a part of a registration that never came whole
        # (N-14).
        if (
            self._profile.refuse_first_incremental_registration
            and broker_id not in addresses
            and len(registration.topics) == 1
        ):
            # As in RocketMQ the broker's name stays entered, without an address.
            return Registered(outcome=Outcome.REFUSED)
        # The name is known, but not this id: its topics are entered as those of a new broker.
        is_first |= broker_id not in addresses
        addresses[broker_id] = registration.address

        applied = 0
        if self._speaks_for_group(registration, addresses):
            applied = self._enter_queues(registration, is_first=is_first)
        is_new = self._enter_live(registration, now)
        if is_less:
            self.least_id_changed.emit(
                LeastIdChange(
                    broker_name=name,
                    members=dict(addresses),
                    ha_address=registration.ha_address or None,
                )
            )
        return self._answer(registration, broker, is_new=is_new, topics_applied=applied)

    def key(self, cluster: str, address: str) -> BrokerKey:
        """The key of a broker process in the live table (N-7)."""
        return BrokerKey(cluster if self._profile.live_brokers_by_cluster else "", address)

    def is_changed(self, cluster: str, address: str, version: DataVersion) -> bool:
        """Whether a broker's topics differ from those known here (N-24)."""
        live = self.live.get(self.key(cluster, address))
        return live is None or not self._is_same(live.data_version, version)

    def _is_same(self, one: DataVersion, other: DataVersion) -> bool:
        if self._profile.state_version_in_data_version:
            return one == other
        # 4.9's versions have no state, so it is not compared (N-24).
        return (one.timestamp, one.counter) == (other.timestamp, other.counter)

    def _is_outdated(self, registration: Registration, holder: str | None) -> bool:
        """Whether another address holds the id with a larger stateVersion (N-13)."""
        if not self._profile.state_version_in_data_version:
            return False
        # Nobody holds the id, or this broker itself: it cannot be outdated (N-13).
        if holder is None or holder == registration.address:
            return False
        live = self.live.get(self.key(registration.cluster, holder))
        mine = registration.data_version.state_version
        return live is not None and live.data_version.state_version > mine

    def _speaks_for_group(self, registration: Registration, addresses: Mapping[int, str]) -> bool:
        """Whether the topics of this registration count (N-15): the master's, or in 5.x those of
        the smallest slave of a group without master."""
        if registration.broker_id == MASTER_ID:
            return True
        is_new_version = registration.enable_acting_master is not None
        return (
            self._profile.apply_topics_per_topic
            and is_new_version
            and registration.broker_id == min(addresses)
        )

    def _enter_queues(self, registration: Registration, *, is_first: bool) -> int:
        """Enter the topics that may have changed; returns their number (N-15). O(topics)."""
        name, topics = registration.broker_name, registration.topics
        # By option, topics that the broker no longer names are dropped from its queues (N-15).
        if self._delete_topic_with_registration():
            self.queues.forget(name, keep=topics)
        # Compared with the record of the *previous* registration (N-16).
        all_changed = is_first or self.is_changed(
            registration.cluster, registration.address, registration.data_version
        )
        # 4.9 enters all topics of a registration or none; 5.x checks each of them (N-15).
        if not all_changed and not self._profile.apply_topics_per_topic:
            return 0
        # A slave's queues are read only while it may act as master (N-20).
        without_write = bool(
            registration.broker_id != MASTER_ID and registration.enable_acting_master
        )
        return self.queues.enter(name, topics, all_of_them=all_changed, read_only=without_write)

    def _enter_live(self, registration: Registration, now: float) -> bool:
        key = self.key(registration.cluster, registration.address)
        timeout_s = registration.timeout_s
        # 4.9 gives every broker 120 s (N-2).
        if timeout_s is None or not self._profile.heartbeat_timeout_per_broker:
            timeout_s = BROKER_EXPIRY_S
        # None keeps what was known, an empty list removes it (N-11).
        if registration.filter_servers is not None:
            self._filter_servers.pop(key, None)
            if registration.filter_servers:
                self._filter_servers[key] = tuple(registration.filter_servers)
        return self.live.put(
            LiveBroker(
                key=key,
                cluster=registration.cluster,
                broker_name=registration.broker_name,
                broker_id=registration.broker_id,
                ha_address=registration.ha_address,
                data_version=registration.data_version,
                channel=registration.channel,
                seen_at=now,
                timeout_s=timeout_s,
            )
        )

    def _answer(
        self, registration: Registration, broker: BrokerData, *, is_new: bool, topics_applied: int
    ) -> Registered:
        master_address = broker.master_address()
        master = None
        # A slave gets its master's addresses only while the master is alive (N-17).
        if registration.broker_id != MASTER_ID and master_address is not None:
            master = self.live.get(self.key(registration.cluster, master_address))
        return Registered(
            is_new=is_new,
            topics_applied=topics_applied,
            master_address=None if master is None else master_address,
            master_ha_address=None if master is None else master.ha_address,
        )

    # -- leaving ------------------------------------------------------------------------------

    def unregister(
        self, cluster: str, broker_name: str, address: str, broker_id: int | None = None
    ) -> bool:
        """Remove a broker process (N-20); returns whether its broker name is gone with it.

        Args:
            cluster: Its cluster.
            broker_name: Its name, which it may share with other ids.
            address: Its own address.
            broker_id: 4.9 removes by id, whatever address holds it; None removes by address.
        """
        key = self.key(cluster, address)
        live = self.live.remove(key)
        if live is not None:
            self.unregistered.emit(live)
        self._filter_servers.pop(key, None)
        broker = self._brokers.get(broker_name)
        if broker is None:
            return False
        addresses = broker.broker_addrs
        # Before the removal: the others are notified if the lowest id has left (Z-6).
        least = min(addresses, default=MASTER_ID)
        if broker_id is not None:
            # 4.9 removes by id, whatever its address (N-20).
            addresses.pop(broker_id, None)
        else:
            for each_id in [each for each, held in addresses.items() if held == address]:
                del addresses[each_id]
        # Other members are left, so the name and its queues stay.
        if addresses:
            if broker.enable_acting_master:
                self._stay_without(broker, address, least)
            return False
        # The last address is gone, so name, clusters and queues are removed (N-20).
        del self._brokers[broker_name]
        for each_cluster, names in list(self._clusters.items()):
            names.pop(broker_name, None)  # it may have registered in more than one
            if not names:
                del self._clusters[each_cluster]
        self.queues.forget(broker_name)
        return True

    def _stay_without(self, broker: BrokerData, address: str, least: int) -> None:
        """Members of a group whose slaves may act are left (N-20). O(topics) without a master."""
        name = broker.broker_name
        if has_no_master(broker):
            # Without a master the queues become read only (N-20).
            self.queues.set_perm(name, keep=~Perm.WRITE, add=0)
        # The lowest id has left: the others are told its address and the new lowest id (Z-6).
        if least not in broker.broker_addrs:
            members = dict(broker.broker_addrs)
            self.least_id_changed.emit(
                LeastIdChange(broker_name=name, members=members, offline_address=address)
            )

    def forget(self, broker: LiveBroker) -> bool:
        """`unregister` a broker that expired or whose connection closed; always by its address."""
        self.live.remove(broker.key)
        return self.unregister(broker.cluster, broker.broker_name, broker.key.address)

    # -- topics -------------------------------------------------------------------------------

    def route(self, topic: str) -> TopicRouteData | None:
        """Queues and brokers of a topic; None when no known broker has it (N-26, N-28)."""
        queues = self.queues.of(topic)
        if not queues:
            return None
        # A topic may still have queues of brokers that are gone.
        brokers = [self._brokers[name] for name in queues if name in self._brokers]
        if not brokers:
            return None
        as_shown = brokers
        # Topics that list a group's members show the real ids (N-28).
        if self._support_acting_master() and not topic.startswith(MEMBERS_TOPIC_PREFIX):
            as_shown = [shown(broker, queues[broker.broker_name]) for broker in brokers]
        return TopicRouteData(
            queue_datas=list(queues.values()),
            broker_datas=[
                # Copied, because the table changes after the route is handed out.
                replace(broker, broker_addrs=dict(broker.broker_addrs))
                for broker in as_shown
            ],
            filter_server_table=self._filter_servers_of(brokers) if self._filter_servers else {},
        )

    def _filter_servers_of(self, brokers: Iterable[BrokerData]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for broker in brokers:
            for address in broker.broker_addrs.values():
                servers = self._filter_servers.get(self.key(broker.cluster, address))
                if servers:
                    found[address] = list(servers)
        return found

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Remove a topic, or only its queues on one cluster's brokers (N-30)."""
        self.queues.delete(topic, self._clusters.get(cluster, {}) if cluster else None)

    def add_topic(self, topic: str, queues: Iterable[QueueData]) -> None:
        """Enter queues by request; ends at the first whose broker is not known (N-32).

        A topic that is new is then not entered at all.
        """
        known: list[QueueData] = []
        for each in queues:
            if each.broker_name not in self._brokers:
                if not self.queues.of(topic):
                    return
                break
            known.append(each)
        for each in known:
            self.queues.put(topic, each)

    # -- lists --------------------------------------------------------------------------------

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """Topics of which some broker of the cluster holds queues."""
        return self.queues.topics_of(self._clusters.get(cluster, {}).keys())

    def system_topics(self) -> TopicList:
        """Names of clusters and brokers, which are topics too, and one broker to ask (N-34)."""
        names: dict[str, None] = {}
        for cluster, brokers in self._clusters.items():
            names[cluster] = None
            names.update(brokers)  # one may be in two clusters, and is named once
        addresses = (
            address for broker in self._brokers.values() for address in broker.broker_addrs.values()
        )
        return TopicList(topic_list=list(names), broker_addr=next(addresses, None))

    def cluster_info(self) -> ClusterInfo:
        """All brokers and clusters (N-34)."""
        return ClusterInfo(
            broker_addr_table=dict(self._brokers),
            cluster_addr_table={cluster: list(names) for cluster, names in self._clusters.items()},
        )

    def broker(self, broker_name: str) -> BrokerData | None:
        """The group of a broker name."""
        return self._brokers.get(broker_name)
