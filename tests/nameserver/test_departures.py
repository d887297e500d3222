"""How brokers go: by their word, by silence, by a closed connection (N-19 to N-25)."""

from __future__ import annotations

import asyncio

import pytest

from pocketmq.operation.events.log import EventLog
from pocketmq.operation.events.roles import BrokerForgotten, BrokerRegistered
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ConnectionLostError
from pocketmq.protocol.headers.route import GetClusterInfoRequestHeader
from pocketmq.runtime.profile import PROFILE_4_9, PROFILE_5_3, PROFILE_5_X, Profile
from support.eventually import eventually
from support.nameserver_rig import START_MS, NameServerRig, nameserver
from support.own_logs import own_logs

PROFILES = [PROFILE_4_9, PROFILE_5_X]


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: p.name)
async def test_the_last_address_of_a_broker_takes_its_routes_and_its_cluster_along(
    profile: Profile,
) -> None:  # N-20
    async with nameserver(profile) as rig:
        one = await rig.broker("broker-a")
        other = await rig.broker("broker-b", cluster="OtherCluster")
        await one.register(["TopicA", "TopicB"])
        await other.register(["TopicB", "TopicC"])
        assert (await one.unregister()).code == ResponseCode.SUCCESS
        assert await rig.route("TopicA") is None
        assert await rig.brokers_of("TopicB") == ["broker-b"]
        info = rig.server.table.cluster_info()
        assert info.cluster_addr_table == {"OtherCluster": ["broker-b"]}
        assert len(rig.server.table.live) == 1


async def test_topics_stay_while_another_address_of_the_group_is_there(
    rig: NameServerRig,
) -> None:  # N-20
    master, slave = await rig.broker(id=0), await rig.broker(id=1)
    await master.register()
    await slave.register()
    await master.unregister()
    route = await rig.route("TopicA")
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {1: slave.address}


async def test_5_x_drops_the_address_and_4_9_the_id_that_leaves() -> None:  # N-20
    for profile, left in ((PROFILE_5_X, {0}), (PROFILE_4_9, {1})):
        async with nameserver(profile) as rig:
            master, slave = await rig.broker(id=0), await rig.broker(id=1)
            await master.register()
            await slave.register()
            await slave.unregister(broker_id=0)  # says the wrong id of itself
            data = rig.server.table.broker("broker-a")
            assert data is not None
            assert set(data.broker_addrs) == left, profile.name


async def test_unregistrations_beyond_the_queue_are_refused_under_5_x() -> None:  # N-19
    async with nameserver(un_register_broker_queue_capacity=2) as rig:
        broker = await rig.broker()
        await broker.register()
        # Three in one write: they arrive in one read, before any is carried out.
        replies = await asyncio.gather(
            *(broker.channel.request(broker.departure()) for _ in range(3))
        )
        assert [reply.code for reply in replies] == [0, 0, ResponseCode.SYSTEM_ERROR]
        assert await rig.route("TopicA") is None
        assert (await broker.unregister()).code == ResponseCode.SUCCESS


async def test_4_9_has_no_queue_of_unregistrations() -> None:  # N-19
    async with nameserver(PROFILE_4_9, un_register_broker_queue_capacity=0) as rig:
        broker = await rig.broker()
        await broker.register()
        assert (await broker.unregister()).code == ResponseCode.SUCCESS
        assert await rig.route("TopicA") is None


async def test_a_broker_that_leaves_and_returns_at_once_stays(rig: NameServerRig) -> None:  # N-19
    broker = await rig.broker()
    await broker.register()
    leaving = broker.channel.request(broker.departure())
    await broker.register()  # leaves with the same write
    assert (await leaving).code == ResponseCode.SUCCESS
    assert await rig.brokers_of("TopicA") == ["broker-a"]


@pytest.mark.parametrize(
    ("profile", "alive_s", "gone_s"),
    [(PROFILE_5_X, 120.0, 125.0), (PROFILE_4_9, 120.0, 130.0)],
    ids=["5.x", "4.9"],
)
async def test_a_silent_broker_is_gone_120_s_plus_one_scan_later_and_the_other_stays(
    profile: Profile, alive_s: float, gone_s: float
) -> None:  # N-2, N-3, N-21
    async with nameserver(profile) as rig:
        await rig.advance(0.001)  # just after a scan, so detection takes the longest
        silent, steady = await rig.broker("broker-a"), await rig.broker("broker-b")
        await silent.register()
        await steady.register()
        await rig.advance(alive_s)
        assert await rig.brokers_of("TopicA") == ["broker-a", "broker-b"]
        await steady.register()
        with own_logs() as logs:
            await rig.advance(gone_s - alive_s)
        assert await rig.brokers_of("TopicA") == ["broker-b"]
        await eventually(lambda: not silent.channel.is_open, "it is closed")
        assert steady.channel.is_open
        [expired] = [line for line in logs if line["event"] == "broker.expired"]
        assert expired["broker"] == "broker-a"
        assert expired["silent_s"] > 120


async def test_a_broker_with_a_short_time_out_is_not_kept_until_the_others_may_expire(
    rig: NameServerRig,
) -> None:  # N-2, N-3
    patient, hasty = await rig.broker("broker-a"), await rig.broker("broker-b")
    await patient.register()
    await rig.advance(20)  # the next scan is chosen for the first one's time-out
    await hasty.register(heartbeat_timeout_millis=10_000)
    await rig.advance(10)
    assert await rig.brokers_of("TopicA") == ["broker-a", "broker-b"]
    await rig.advance(5.001)
    assert await rig.brokers_of("TopicA") == ["broker-a"]


async def test_the_first_scan_after_a_broker_s_own_time_out_finds_it(
    rig: NameServerRig,
) -> None:  # N-2, N-3
    patient, hasty = await rig.broker("broker-a"), await rig.broker("broker-b")
    await patient.register()
    await rig.advance(20)  # the next scan is chosen for the first one's time-out: 125
    await hasty.register(heartbeat_timeout_millis=96_000)  # 116
    await rig.advance(99.9)
    await patient.register()
    assert await rig.brokers_of("TopicA") == ["broker-a", "broker-b"]
    await rig.advance(0.1)
    assert await rig.brokers_of("TopicA") == ["broker-a"]


async def test_a_broker_that_was_frozen_finds_its_connection_closed_and_registers_anew(
    rig: NameServerRig,
) -> None:  # N-21
    # On an open connection it would ask whether its topics changed, hear no, and stay away.
    broker = await rig.broker()
    await broker.register()
    await rig.advance(130)
    with pytest.raises(ConnectionLostError):
        await broker.query_version()
    broker.channel = await rig.channel()
    assert (await broker.register()).code == ResponseCode.SUCCESS
    assert await rig.brokers_of("TopicA") == ["broker-a"]


async def test_the_scan_runs_after_5_s_and_then_each_period(rig: NameServerRig) -> None:  # N-3
    await rig.advance(0)
    assert rig.clock.next_deadline_ms() == START_MS + 5_000
    await rig.advance(5)
    assert rig.clock.next_deadline_ms() == START_MS + 10_000
    async with nameserver(PROFILE_5_3) as hasty:
        await hasty.advance(0)
        assert hasty.clock.next_deadline_ms() == START_MS + 5, "meant seconds"
        await hasty.advance(0.005)
        assert hasty.clock.next_deadline_ms() == START_MS + 5_005
    async with nameserver(PROFILE_4_9) as old:
        await old.advance(0)
        assert old.clock.next_deadline_ms() == START_MS + 5_000
        await old.advance(5)
        assert old.clock.next_deadline_ms() == START_MS + 15_000
    async with nameserver(scan_not_active_broker_interval=1_000) as quick:
        await quick.advance(5)
        assert quick.clock.next_deadline_ms() == START_MS + 6_000


async def test_a_broker_is_alive_at_exactly_its_timeout(rig: NameServerRig) -> None:  # N-21
    broker = await rig.broker()
    await broker.register()
    await rig.advance(120)  # a scan runs at this very moment
    assert await rig.brokers_of("TopicA") == ["broker-a"]


async def test_a_broker_may_ask_for_its_own_timeout_under_5_x_only() -> None:  # N-2
    for profile, expected in ((PROFILE_5_X, []), (PROFILE_4_9, ["broker-a"])):
        async with nameserver(profile) as rig:
            await (await rig.broker()).register(heartbeat_timeout_millis=10_000)
            await rig.advance(21)
            assert await rig.brokers_of("TopicA") == expected


async def test_a_closed_connection_unregisters_its_broker_at_once(
    rig: NameServerRig,
) -> None:  # N-22
    broker, other = await rig.broker("broker-a"), await rig.broker("broker-b")
    await broker.register()
    await other.register()
    broker.channel.close()
    await broker.channel.closed
    assert await rig.brokers_of("TopicA") == ["broker-b"]
    assert rig.clock.time_ms() == START_MS


async def test_the_connection_that_counts_is_that_of_the_last_registration(
    rig: NameServerRig,
) -> None:  # N-22, N-23
    broker = await rig.broker()
    await broker.register()
    first, broker.channel = broker.channel, await rig.channel()
    await broker.register()
    first.close()
    await first.closed
    assert await rig.brokers_of("TopicA") == ["broker-a"]


async def test_a_version_query_keeps_a_broker_alive_but_not_its_connection(
    rig: NameServerRig,
) -> None:  # N-23, N-24
    broker = await rig.broker()
    await broker.register()
    other = await rig.channel()
    await rig.advance(100)
    assert await broker.query_version(other) == (False, broker.version)
    await rig.advance(100)
    assert await rig.brokers_of("TopicA") == ["broker-a"]
    broker.channel.close()
    await broker.channel.closed
    assert await rig.route("TopicA") is None


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: p.name)
async def test_a_query_with_a_new_version_keeps_a_broker_alive_in_5_x(
    profile: Profile,
) -> None:  # N-24
    async with nameserver(profile) as rig:
        broker = await rig.broker()
        await broker.register()
        await rig.advance(100)
        broker.bump()
        assert (await broker.query_version(await rig.channel()))[0] is True
        await rig.advance(100)
        alive = ["broker-a"] if profile is PROFILE_5_X else []
        assert (await rig.brokers_of("TopicA") if await rig.route("TopicA") else []) == alive


async def test_an_unknown_broker_hears_that_its_version_is_not_known(
    rig: NameServerRig,
) -> None:  # N-24
    broker = await rig.broker()
    assert await broker.query_version() == (True, None)
    assert len(rig.server.table.live) == 0


async def test_a_heartbeat_only_keeps_a_broker_alive(rig: NameServerRig) -> None:  # N-25
    broker = await rig.broker()
    await broker.register()
    for _ in range(3):
        await rig.advance(100)
        assert (await broker.heartbeat()).code == ResponseCode.SUCCESS
    assert await rig.brokers_of("TopicA") == ["broker-a"]
    await rig.advance(126)
    await (await rig.broker(address=broker.address)).heartbeat()
    assert await rig.route("TopicA") is None


async def test_an_expired_broker_comes_back_with_its_next_registration(
    rig: NameServerRig,
) -> None:  # N-16, N-21
    broker = await rig.broker()
    await broker.register()
    await rig.advance(126)
    assert await rig.route("TopicA") is None
    broker.channel = await rig.channel()
    await broker.register()
    assert await rig.brokers_of("TopicA") == ["broker-a"]


async def test_an_address_counts_once_per_cluster_under_5_x_and_once_at_all_under_4_9() -> None:
    for profile, alive in ((PROFILE_5_X, 2), (PROFILE_4_9, 1)):  # N-7
        async with nameserver(profile) as rig:
            broker = await rig.broker(address="127.0.0.1:7")
            await broker.register()
            await (await rig.broker("broker-b", cluster="Two", address="127.0.0.1:7")).register()
            assert len(rig.server.table.live) == alive


async def test_a_stopping_nameserver_says_nothing_of_the_brokers_it_hangs_up_on() -> None:
    with own_logs() as logs:
        async with nameserver() as rig:
            broker = await rig.broker()
            await broker.register()
        await broker.channel.closed
    assert [line["event"] for line in logs] == ["broker.registered"]


async def test_each_coming_and_going_of_a_broker_is_one_event() -> None:
    events = EventLog("ns", lambda: 0, lambda: 0, always=True)
    async with nameserver(events=events) as rig:
        voices = [await rig.broker(f"broker-{name}") for name in "abc"]
        for voice in voices:
            await voice.register()
        await voices[0].unregister()
        voices[1].channel.close()
        await eventually(lambda: len(rig.server.table.live) == 1, "one is left")
        await rig.advance(130)
        await eventually(lambda: not voices[2].channel.is_open, "it is closed")
    told = events.read(0).events
    came = [each for each in told if isinstance(each, BrokerRegistered)]
    assert [each.broker for each in came] == ["broker-a", "broker-b", "broker-c"]
    assert [(each.nameserver, each.address) for each in came] == [
        (rig.server.config.name, voice.address) for voice in voices
    ]
    gone = [each for each in told if isinstance(each, BrokerForgotten)]
    assert [(each.broker, each.how) for each in gone] == [
        ("broker-a", "unregistered"),
        ("broker-b", "closed"),
        ("broker-c", "expired"),
    ]


async def test_two_nameservers_each_hold_what_brokers_told_them() -> None:  # N-36
    async with nameserver() as one, nameserver() as other:
        await (await one.broker()).register(["TopicA", "TopicB"])
        assert await other.route("TopicA") is None
        reply = await other.ask(GetClusterInfoRequestHeader())
        assert reply.code == ResponseCode.SUCCESS
        await (await other.broker()).register(["TopicA", "TopicB"])
        assert await other.brokers_of("TopicA") == ["broker-a"]
