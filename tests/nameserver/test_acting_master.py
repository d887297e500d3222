"""What a nameserver makes of slaves that may act as master: N-20, N-28, Z-3, Z-6."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NoReturn

import pytest

from pocketmq.nameserver.acting_master import LeastIdChange
from pocketmq.nameserver.broker_notices import MOST_UNDER_WAY, BrokerNotices
from pocketmq.protocol.bodies.route import BrokerMemberGroupBody
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Dispatcher, Peer, Reply, handles
from pocketmq.protocol.headers.route import (
    GetBrokerMemberGroupRequestHeader,
    NotifyMinBrokerIdChangeRequestHeader,
)
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.profile import PROFILE_4_9
from support.eventually import eventually
from support.nameserver_rig import BrokerVoice, NameServerRig, nameserver

MEMBERS_TOPIC = "rmq_sys_SYNC_BROKER_MEMBER_broker-a"


@pytest.fixture
async def acting() -> AsyncIterator[NameServerRig]:
    async with nameserver(support_acting_master=True) as rig:
        yield rig


async def addresses(rig: NameServerRig, topic: str = "TopicA") -> dict[int, str]:
    route = await rig.route(topic)
    assert route is not None
    return dict(route.broker_datas[0].broker_addrs)


async def group(
    rig: NameServerRig, *ids: int, acting: bool | None = True
) -> dict[int, BrokerVoice]:
    """Brokers of broker-a, registered in this order."""
    voices = {}
    for each in ids:
        voices[each] = await rig.broker(id=each)
        await voices[each].register(["TopicA", "TopicB"], enable_acting_master=acting)
    return voices


async def test_the_least_slave_is_shown_as_master_and_cannot_be_written_to(
    acting: NameServerRig,
) -> None:  # N-20, N-28, Z-3
    voices = await group(acting, 0, 1, 2)
    assert await acting.perm_of("TopicA") == 6
    await voices[0].unregister()
    assert await addresses(acting) == {0: voices[1].address, 2: voices[2].address}
    assert await acting.perm_of("TopicA") == 4
    await voices[1].unregister()
    assert await addresses(acting) == {0: voices[2].address}


async def test_a_lost_connection_and_a_silent_master_have_the_same_effect(
    acting: NameServerRig,
) -> None:  # N-21, N-22, Z-4
    voices = await group(acting, 0, 1)
    voices[0].channel.close()

    async def relabelled() -> bool:
        return await addresses(acting) == {0: voices[1].address}

    await eventually(relabelled, "the slave is shown as master")
    voices = {}
    for each in (0, 1):
        voices[each] = await acting.broker("broker-b", id=each)
        await voices[each].register(
            ["TopicB", "TopicC"], enable_acting_master=True, heartbeat_timeout_millis=10_000
        )
    for _ in range(16):
        await acting.advance(1)
        await voices[1].heartbeat()
    assert await addresses(acting, "TopicC") == {0: voices[1].address}


async def test_a_master_that_returns_can_be_written_to_again(acting: NameServerRig) -> None:
    # Z-3
    voices = await group(acting, 0, 1)
    await voices[0].unregister()
    await voices[1].register(["TopicA", "TopicB"], enable_acting_master=True)
    await voices[0].register(["TopicA", "TopicB"], enable_acting_master=True)
    assert await addresses(acting) == {each: voice.address for each, voice in voices.items()}
    assert await acting.perm_of("TopicA") == 6


async def test_real_ids_are_shown_to_those_who_ask_for_members(acting: NameServerRig) -> None:
    # N-28, Z-6
    voices = {}
    for each in (0, 1):
        voices[each] = await acting.broker(id=each)
        await voices[each].register([MEMBERS_TOPIC, "TopicA"], enable_acting_master=True)
    await voices[0].unregister()
    assert await addresses(acting, MEMBERS_TOPIC) == {1: voices[1].address}
    asked = GetBrokerMemberGroupRequestHeader(cluster_name="DefaultCluster", broker_name="broker-a")
    reply = await acting.ask(asked)
    members = decode_body(reply.body_view, BrokerMemberGroupBody, reply.encoding)
    assert members.broker_member_group.broker_addrs == {1: voices[1].address}


@pytest.mark.parametrize("opted_in", [False, None])
async def test_brokers_that_do_not_opt_in_are_shown_as_they_are(
    acting: NameServerRig, opted_in: bool | None
) -> None:  # N-28
    voices = await group(acting, 0, 1, acting=opted_in)
    await voices[0].unregister()
    assert await addresses(acting) == {1: voices[1].address}
    assert await acting.perm_of("TopicA") == 6


async def test_without_the_option_only_the_permission_falls(rig: NameServerRig) -> None:
    # N-20, Z-1
    voices = await group(rig, 0, 1)
    await voices[0].unregister()
    assert await addresses(rig) == {1: voices[1].address}
    assert await rig.perm_of("TopicA") == 4


async def test_queues_that_are_written_to_by_request_keep_their_ids(acting: NameServerRig) -> None:
    # N-28, N-31: only a group whose queues cannot be written to has an acting master
    voices = await group(acting, 0, 1)
    await voices[0].unregister()
    acting.server.table.queues.set_perm("broker-a", keep=0, add=6)
    assert await addresses(acting) == {1: voices[1].address}


async def test_4_9_knows_no_acting_master() -> None:
    async with nameserver(PROFILE_4_9, support_acting_master=True) as rig:
        voices = await group(rig, 0, 1)
        await voices[0].unregister()
        assert await addresses(rig) == {1: voices[1].address}
        assert await rig.perm_of("TopicA") == 6


class Listener:
    """A broker's port: keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[NotifyMinBrokerIdChangeRequestHeader] = []

    @handles(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE)
    def least_id(self, _peer: Peer, request: Command) -> Reply:
        assert request.is_oneway
        self.told.append(request.header(NotifyMinBrokerIdChangeRequestHeader))
        return None


async def listening(rig: NameServerRig, *voices: BrokerVoice) -> list[Listener]:
    listeners = []
    for voice in voices:
        listeners.append(Listener())
        dispatcher = Dispatcher()
        dispatcher.add(listeners[-1])
        host, _, port = voice.address.rpartition(":")
        await rig.network.serve(host, int(port), dispatcher)
    return listeners


async def test_the_brokers_of_a_group_hear_that_the_least_id_has_changed() -> None:  # Z-6
    async with nameserver(support_acting_master=True, notify_min_broker_id_changed=True) as rig:
        voices = await group(rig, 0, 1, 2)
        master, first, second = await listening(rig, *voices.values())
        await voices[0].unregister()
        await eventually(lambda: len(first.told) == len(second.told) == 1, "both are told")
        assert first.told == second.told == [
            NotifyMinBrokerIdChangeRequestHeader(
                min_broker_id=1,
                min_broker_addr=voices[1].address,
                offline_broker_addr=voices[0].address,
            )
        ]  # fmt: skip
        await voices[0].register(["TopicA", "TopicB"], enable_acting_master=True)
        await eventually(lambda: len(first.told) == len(second.told) == 2, "both are told")
        assert first.told[1] == NotifyMinBrokerIdChangeRequestHeader(
            min_broker_id=0,
            min_broker_addr=voices[0].address,
            ha_broker_addr=voices[0].ha_address,
        )
        assert not master.told  # who comes is not told of itself
        await voices[2].unregister()  # another one than the least
        await voices[1].unregister()
        await rig.route("TopicA")
        assert len(first.told) == len(second.told) == 2


async def test_a_nameserver_that_stops_tells_nobody_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with nameserver(support_acting_master=True, notify_min_broker_id_changed=True) as rig:
        voices = await group(rig, 0, 1)
        hangs = asyncio.Event()

        async def connect(*_: object, **__: object) -> None:
            hangs.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(rig.network, "connect", connect)
        await voices[0].unregister()
        await hangs.wait()
        before = asyncio.all_tasks()
        await rig.server.stop()
        notices = {task for task in before if "least id for" in task.get_name()}
        assert notices
        assert all(task.done() for task in notices)


async def test_nobody_is_told_by_default(acting: NameServerRig) -> None:  # Z-1
    voices = await group(acting, 0, 1)
    [_, slave] = await listening(acting, *voices.values())
    await voices[0].unregister()
    await addresses(acting)
    assert not slave.told


class NobodyAnswers(TcpNetwork):
    """A network on which no attempt to connect ends."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[str] = set()

    async def connect(self, address: str, *_: object, **__: object) -> NoReturn:
        self.asked.add(address)
        await asyncio.Future()
        raise AssertionError


async def test_notices_that_wait_are_bounded() -> None:
    network = NobodyAnswers()
    notices = BrokerNotices(network, SystemClock(), wanted=lambda: True)
    for port in range(1, 3 * MOST_UNDER_WAY):
        members = {1: f"127.0.0.1:{port}", 2: f"127.0.0.2:{port}"}
        notices.least_id_changed(
            LeastIdChange(broker_name="b", members=members, offline_address="127.0.0.3:1")
        )
    await eventually(lambda: len(network.asked) >= MOST_UNDER_WAY, "they try to connect")
    assert len(network.asked) == MOST_UNDER_WAY
    await notices.stop()
