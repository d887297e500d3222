"""No request to a full controller holds its loop for long (`cost.SLOWEST_UNITS`).

It knows as many broker names, replicas and heartbeats as the budget allows; then each request that
it answers comes as large as its declaration and the budget allow. What follows from a request in
later turns is measured too: the decision, the snapshot, the journal, the elections.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import msgspec
import pytest

from pocketmq.controller import commands, consensus
from pocketmq.controller.election import Candidate
from pocketmq.controller.limits import limits_of
from pocketmq.controller.liveness import LiveBroker, LiveKey
from pocketmq.controller.raft import journal
from pocketmq.controller.raft.messages import Append, Entry, Install, Snapshot, Write
from pocketmq.controller.replicas import Replicas
from pocketmq.controller.server import Controller
from pocketmq.protocol.budget import DEFAULT_BUDGET
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.frame import encode_frame
from pocketmq.protocol.headers.controller import (
    GetSyncStateDataRequestHeader,
    RaftMessageRequestHeader,
)
from support.broker_rig import FakePeer
from support.controller_rig import CLUSTER, ControllerRig, controllers
from support.cost import cost_s, slowest_s
from support.turns import too_slow, turn_s

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

KNOWN = {
    "broker_name": "broker-0",
    "cluster_name": CLUSTER,
    "broker_id": 1,
    "applied_broker_id": 1,
    "broker_addr": "10.0.1.0:10911",
    "broker_address": "10.0.1.0:10911",
    "broker_controller_ids_to_clean": "1",
    "master_broker_id": 1,
    "master_epoch": 1,
    "group": "DefaultControllerGroup",
    "sender": "n1",
}


def claims() -> list[commands.ApplyId]:
    """More than any controller takes: one name with all replicas it may have, and many with few."""
    limits = limits_of(DEFAULT_BUDGET)
    names = [f"broker-{nth}" for nth in range(10_001)]
    wanted = [("broker-0", broker_id) for broker_id in range(1, 65)]
    wanted += [(name, 1) for name in names[1:]]
    wanted += [(name, broker_id) for broker_id in (2, 3) for name in names[1:]]
    return [
        commands.ApplyId(
            CLUSTER, name, broker_id, f"10.0.{broker_id}.0:10911;".ljust(70, '"'), limits
        )
        for name, broker_id in wanted
    ]


def fill(controller: Controller, peers: list[FakePeer]) -> None:
    """As many replicas as the limits allow, all in sync; and as many of them alive as may be."""
    replicas = controller.consensus.replicas
    for claim in claims():
        replicas.apply(claim)
    for nth, (name, group) in enumerate(replicas.groups.items()):
        group.master_id, group.master_epoch, group.set_epoch = 1, 1, 1
        group.in_sync = set(group.replicas)
        now = controller.consensus._clock.monotonic()
        for broker_id, replica in group.replicas.items():
            candidate, peer = Candidate(broker_id, 1, 9000), peers[nth % len(peers)]
            key = LiveKey(name, broker_id)
            controller.live.put(
                LiveBroker(key, replica.address, candidate, 9000, now, 3600.0, peer)
            )


def size_of(replicas: Replicas) -> tuple[int, int, int]:
    """Names, replicas, and the most replicas of one name."""
    counts = [len(group.replicas) for group in replicas.groups.values()]
    return len(counts), sum(counts), max(counts)


def frame(header: object, body: bytes, encoding: Encoding = Encoding.MSGPACK) -> bytes:
    command = Command(header.CODE, header, body, opaque=1, encoding=encoding)  # type: ignore[attr-defined,arg-type]
    return b"".join(bytes(part) for part in encode_frame(command))


async def test_the_largest_of_every_request_to_a_full_controller() -> None:
    async with controllers() as rig:
        controller = rig.leader
        fill(controller, [FakePeer()])
        assert size_of(controller.consensus.replicas) == (10_000, 20_000, 64)
        asked, slow = 0, []
        last = RequestCode.CLEAN_BROKER_DATA  # it takes away what the others need
        for code in sorted(controller.dispatcher.codes, key=lambda code: (code == last, code)):
            count, found = too_slow(controller.dispatcher, FakePeer(), [code], KNOWN)
            asked, slow = asked + count, slow + found
            await rig.settle()  # what was proposed is decided
        assert slow == []
        assert asked > 150


@pytest.mark.parametrize("encoding", list(Encoding))
async def test_the_largest_lists_of_names(encoding: Encoding) -> None:
    async with controllers() as rig:
        controller = rig.leader
        fill(controller, [FakePeer()])
        known = list(controller.consensus.replicas.groups)
        lists = {
            "all names": known,
            "one name again and again": ["broker-0"] * 10_000,
            "as many as a body holds": ["broker-0"] * 90_000,
            "names of nobody": [f"{nth:x}" for nth in range(130_000)],
            "empty names": [""] * 300_000,
            "more than a body holds": [""] * 5_000_000,
        }
        for label, names in lists.items():
            is_json = encoding is not Encoding.MSGPACK
            body = msgspec.json.encode(names) if is_json else msgspec.msgpack.encode(names)
            data = frame(GetSyncStateDataRequestHeader(), body, encoding)
            least_s = min(turn_s(controller.dispatcher, FakePeer(), data) for _ in range(5))
            assert least_s < slowest_s(), f"{label}: {least_s * 1000:.0f} ms"


def test_the_state_of_a_full_controller_on_its_way() -> None:
    """Each in a turn of its own: the snapshot, the journal's line, a message, its reading."""
    state = Replicas()
    for claim in claims():
        state.apply(claim)
    text = state.snapshot()
    install = Install(7, Snapshot(300, 7, text), 0.0)
    ways: dict[str, Callable[[], object]] = {
        "snapshot": state.snapshot,
        "journal": lambda: journal.line_of(Write(1, 7, "n0", [], install.snapshot)),
        "message": lambda: frame(
            RaftMessageRequestHeader(group="DefaultControllerGroup", sender="n0"),
            consensus.encode(install),
        ),
        "restore": lambda: Replicas().restore(text),
    }
    for label, way in ways.items():
        took_s = cost_s(lambda way=way: way() and None)  # type: ignore[misc]
        assert took_s < slowest_s(), f"{label}: {took_s * 1000:.0f} ms"


async def follower_of(rig: ControllerRig) -> Controller:
    [follower, _] = [each for each in rig.controllers.values() if each is not rig.leader]
    return follower


async def test_the_largest_messages_of_other_controllers() -> None:
    state = Replicas()
    for claim in claims():
        state.apply(claim)
    text = state.snapshot()
    async with controllers(3) as rig:
        follower, leader = await follower_of(rig), rig.leader
        header = RaftMessageRequestHeader(
            group="DefaultControllerGroup", sender=leader.config.self_id
        )
        raft = follower.consensus.raft
        term, at = raft.term, raft.log.last_index
        costs = []
        for nth in range(5):  # each replaces the state
            install = Install(term, Snapshot(at + 10_000 * (nth + 1), term, text), 0.0)
            data = frame(header, consensus.encode(install))
            costs.append(turn_s(follower.dispatcher, FakePeer(), data))
        assert size_of(follower.consensus.replicas)[1] > 10_000
        assert min(costs) < slowest_s()
        many = [Entry(at + nth, term, "") for nth in range(1, 1_000_000)]
        flood = frame(header, consensus.encode(Append(term, at, term, many, at, 0.0)))
        costs = [turn_s(follower.dispatcher, FakePeer(), flood) for _ in range(5)]
        assert min(costs) < slowest_s()


async def test_a_connection_that_ends_over_which_all_brokers_spoke() -> None:
    async with controllers() as rig:
        controller = rig.leader
        peers = [FakePeer(f"127.0.0.1:{5000 + nth}") for nth in range(3)]
        await rig.advance(10.0)
        costs = []
        for peer in peers:
            controller.live.closed(peer, 0.0)
            fill(controller, [peer])
            gc.collect()
            gc.disable()
            began_s = time.thread_time()
            controller._channel_closed(peer)  # type: ignore[arg-type]
            controller._elections.scan()
            costs.append(time.thread_time() - began_s)
            gc.enable()
            await rig.until(lambda: not list(controller.consensus.replicas.with_master()))
        assert len(controller.live) == 0
        assert min(costs) < slowest_s()
