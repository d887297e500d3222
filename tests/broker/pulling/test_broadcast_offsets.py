"""BroadcastOffsets: where each member pulls, what is committed of it, and who is moved."""

from __future__ import annotations

from pocketmq.broker.groups.consumers import ConsumerManager
from pocketmq.broker.offsets.consumer_offsets import ConsumerOffsetManager
from pocketmq.broker.pulling.broadcast_offsets import (
    BroadcastOffsets,
    BroadcastPuller,
    broadcast_group,
)
from pocketmq.protocol.dispatch import Peer
from pocketmq.protocol.headers.pull import PullMessageRequestHeader
from support.broker_rig import FakePeer, consumer, pull_header

NOW_MS = 1_700_000_000_000
START = 90
"""Where a group without an offset begins."""


class Rig:
    """The table with the managers that it looks at."""

    def __init__(self) -> None:
        self.consumers = ConsumerManager()
        self.offsets = ConsumerOffsetManager()
        self.broadcasts = BroadcastOffsets(
            self.consumers, self.offsets, lambda _topic, queue_id: START + queue_id
        )

    def puller(self, peer: Peer, header: PullMessageRequestHeader) -> BroadcastPuller | None:
        members = self.consumers.groups.get(header.consumer_group)
        return self.broadcasts.puller(peer, header, members)

    def beat(self, client_id: str, **fields: object) -> FakePeer:
        """A new connection of a broadcasting client."""
        peer = FakePeer()
        data = consumer(**({"message_model": "BROADCASTING"} | fields))
        self.consumers.heartbeat(data, peer, client_id, language=0, version=479, now=0.0)
        return peer

    def note(
        self,
        client_id: str,
        offset: int,
        now: float = 0.0,
        *,
        queue_id: int = 0,
        proxy: bool = False,
    ) -> None:
        header = pull_header(queue_id=queue_id)
        self.broadcasts.note(header, BroadcastPuller(client_id, proxy), offset, now)

    def init(self, client_id: str, offset: int, *, proxy: bool, queue_id: int = 0) -> int | None:
        header = pull_header(offset=offset, queue_id=queue_id)
        return self.broadcasts.init_offset(header, BroadcastPuller(client_id, proxy))

    def shown(self, now: float, queue_id: int = 0) -> int | None:
        """What `readers@broadcast` has committed after a scan."""
        self.broadcasts.scan(now, NOW_MS)
        return self.offsets.query("readers@broadcast", "orders", queue_id)


def test_the_smallest_offset_of_each_queue_is_committed() -> None:  # B-36
    assert broadcast_group("readers") == "readers@broadcast"
    rig = Rig()
    rig.note("one", 5)
    rig.note("one", 9, queue_id=1)
    rig.note("two", 3)
    assert (rig.shown(5.0), rig.shown(5.0, queue_id=1)) == (3, 9)
    rig.note("two", 8)
    assert rig.shown(10.0) == 5


def test_a_client_that_pulls_from_further_back_stays_where_it_was() -> None:  # B-36
    rig = Rig()
    rig.note("one", 5)
    rig.note("one", 2)
    assert rig.shown(5.0) == 5


def test_only_a_change_is_a_commit() -> None:  # B-36; an idle broker has no file to write
    rig = Rig()
    rig.note("one", 5)
    rig.shown(5.0)
    rig.offsets.dirty = False
    assert rig.shown(10.0) == 5
    assert not rig.offsets.dirty


def test_a_client_that_is_away_counts_for_120_s() -> None:  # B-36
    rig = Rig()
    rig.note("gone", 3)
    rig.note("here", 8, now=119.9)
    assert rig.shown(119.9) == 3
    assert rig.shown(120.0) == 8, "from 120 s on it does not"
    rig.shown(239.9)
    assert not rig.broadcasts, "and is forgotten"


def test_a_client_that_is_connected_counts_for_300_s_whether_it_pulls_or_not() -> None:  # B-36
    rig = Rig()
    rig.beat("idle")
    rig.note("idle", 3)
    rig.note("busy", 8, now=299.0)
    assert rig.shown(299.9) == 3
    assert rig.shown(300.0) == 3, "one last time"
    assert rig.shown(305.0) == 8


def test_connected_in_another_group_is_away() -> None:  # B-36
    rig = Rig()
    rig.beat("gone", group="others")
    rig.note("gone", 3)
    rig.note("here", 8, now=119.9)
    assert rig.shown(120.0) == 8


def test_the_first_offset_to_commit_is_told_of() -> None:  # B-36
    rig = Rig()
    told: list[int] = []
    rig.broadcasts.began.connect(lambda: told.append(1))
    rig.note("one", 1)
    rig.note("two", 1)
    assert len(told) == 1
    rig.shown(120.0)
    rig.note("one", 2, now=121.0)
    assert len(told) == 2


def test_a_client_of_the_broker_is_left_where_it_pulls() -> None:  # B-36
    rig = Rig()
    assert rig.init("one", 7, proxy=False) is None
    assert rig.init("one", -1, proxy=False) is None
    rig.note("one", 7)
    rig.note("two", 3)
    rig.shown(5.0)
    assert rig.init("one", 2, proxy=False) is None
    assert rig.init("one", -1, proxy=False) is None


def test_a_proxy_asks_with_an_offset_below_0() -> None:  # B-36
    rig = Rig()
    assert rig.init("new", -1, proxy=True) == START, "nothing is known"
    assert rig.init("new", 4, proxy=True) is None, "it knows where it is"
    rig.note("one", 5)
    assert rig.init("new", -1, proxy=True) == START, "nothing is committed"
    rig.shown(5.0)
    assert rig.init("new", -1, proxy=True) == 5
    assert rig.init("new", -1, proxy=True, queue_id=1) == START + 1
    rig.note("new", 6, proxy=True)
    assert rig.init("new", -1, proxy=True) == 6, "its own place comes before the group's"
    assert rig.init("new", 0, proxy=True) is None


def test_who_turns_to_a_proxy_or_back_goes_on_where_it_was() -> None:  # B-36
    rig = Rig()
    rig.note("one", 5)
    assert rig.init("one", 0, proxy=True) == 5
    rig.note("one", 5, proxy=True)
    assert rig.init("one", 5, proxy=True) is None
    rig.note("one", 8, proxy=True)
    assert rig.init("one", 2, proxy=False) == 8
    assert rig.init("one", 2, proxy=False, queue_id=1) == START + 1
    rig.note("one", 8)
    assert rig.init("one", 2, proxy=False, queue_id=1) is None, "only the first queue is moved"


def test_only_pushed_broadcasts_and_proxies_have_a_place_here() -> None:  # B-36
    rig = Rig()
    member = rig.beat("one")
    assert rig.puller(member, pull_header()) == BroadcastPuller("one", False)
    assert rig.puller(FakePeer(), pull_header()) is None, "no member"
    pulling = rig.beat("two", group="pullers", consume_type="CONSUME_ACTIVELY")
    assert rig.puller(pulling, pull_header(consumer_group="pullers")) is None
    sharing = rig.beat("three", group="sharers", message_model="CLUSTERING")
    for source in (None, -1, 0, 2):
        header = pull_header(
            consumer_group="sharers", request_source=source, proxy_froward_client_id="phone"
        )
        assert rig.puller(sharing, header) is None
    header = pull_header(
        consumer_group="sharers", request_source=1, proxy_froward_client_id="phone"
    )
    assert rig.puller(sharing, header) == BroadcastPuller("phone", True)
    nobody = pull_header(consumer_group="sharers", request_source=1)
    assert rig.puller(sharing, nobody) is None


def test_a_deleted_topic_is_forgotten() -> None:  # B-36, B-16
    rig = Rig()
    rig.note("one", 5)
    rig.broadcasts.forget_topic("others")
    assert rig.broadcasts
    rig.broadcasts.forget_topic("orders")
    assert not rig.broadcasts
    assert rig.shown(5.0) is None
