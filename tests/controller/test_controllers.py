"""Controllers as brokers and tools see them: ids, elections, sets, liveness (D-20 to D-54)."""

from __future__ import annotations

import pytest

from pocketmq.protocol.bodies.controller import (
    BrokerReplicasInfo,
    ElectMasterResponseBody,
    SyncStateSet,
)
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.errors import ConnectionLostError
from pocketmq.protocol.headers.controller import (
    AlterSyncStateSetResponseHeader,
    ApplyBrokerIdResponseHeader,
    CleanControllerBrokerDataRequestHeader,
    ElectMasterRequestHeader,
    ElectMasterResponseHeader,
    GetControllerConfigRequestHeader,
    GetControllerMetaDataRequestHeader,
    GetMetaDataResponseHeader,
    GetNextBrokerIdRequestHeader,
    GetSyncStateDataRequestHeader,
    RaftMessageRequestHeader,
    RegisterBrokerToControllerResponseHeader,
    UpdateControllerConfigRequestHeader,
)
from support.controller_rig import CLUSTER, controllers, elected
from support.eventually import eventually


@pytest.fixture(params=list(Encoding), ids=lambda each: each.name.lower())
def encoding(request: pytest.FixtureRequest) -> Encoding:
    each: Encoding = request.param
    return each


async def test_brokers_get_ids_and_the_first_that_asks_becomes_master(encoding: Encoding) -> None:
    async with controllers() as rig:  # D-20, D-21, D-22, D-25
        first = await rig.broker(encoding=encoding)
        second = await rig.broker(encoding=encoding)
        assert (first.id, second.id) == (1, 2)
        reply = await second.elect()
        header = reply.header(ElectMasterResponseHeader)
        assert (header.master_broker_id, header.master_address) == (2, second.address)
        assert (header.master_epoch, header.sync_state_set_epoch) == (1, 1)
        body = elected(reply)
        assert body.sync_state_set == {2}
        assert body.broker_member_group is not None
        assert body.broker_member_group.broker_addrs == {1: first.address, 2: second.address}
        again = await first.elect()
        assert again.code == ResponseCode.CONTROLLER_MASTER_STILL_EXIST
        assert again.header(ElectMasterResponseHeader).master_broker_id == 2
        assert elected(again) == ElectMasterResponseBody(sync_state_set={2}), "nothing is announced"
        registered = await first.register()
        answer = registered.header(RegisterBrokerToControllerResponseHeader)
        assert (answer.master_broker_id, answer.master_epoch) == (2, 1)


async def test_a_claim_is_repeated_with_its_check_code_and_refused_with_another() -> None:
    async with controllers() as rig:  # D-21, F-30
        broker = await rig.broker(is_registered=False)
        nobody = await broker.apply(";77")
        assert nobody.code == ResponseCode.CONTROLLER_INVALID_REQUEST, "it names no address"
        assert (await broker.apply("127.0.0.1:1;77")).code == ResponseCode.SUCCESS
        assert (await broker.apply("127.0.0.1:1;77")).code == ResponseCode.SUCCESS
        other = await broker.apply("127.0.0.1:2;78")
        assert other.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
        assert other.header(ApplyBrokerIdResponseHeader).broker_name == broker.name
        broker.name = "broker-x"
        broker.id = 2
        assert (await broker.apply()).code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
        unknown = await broker.register()
        assert unknown.code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
        named = unknown.header(RegisterBrokerToControllerResponseHeader)
        assert (named.cluster_name, named.broker_name) == (CLUSTER, "broker-x")


async def test_a_set_changes_only_by_its_master_in_its_epoch() -> None:
    async with controllers() as rig:  # D-24
        master, slave = await rig.broker(), await rig.broker()
        await master.elect()
        codes = ResponseCode
        cases = [
            (master, {1}, 1, 1, codes.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED),
            (slave, {1, 2}, 1, 1, codes.CONTROLLER_INVALID_MASTER),
            (master, {1, 2}, 0, 1, codes.CONTROLLER_FENCED_MASTER_EPOCH),
            (master, {1, 2}, 1, 0, codes.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH),
            (master, {1, 3}, 1, 1, codes.CONTROLLER_INVALID_REPLICAS),
            (master, {2}, 1, 1, codes.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED),
        ]
        for who, ids, epoch, set_epoch, code in cases:
            refused = await who.alter(ids, epoch=epoch, set_epoch=set_epoch)
            assert (refused.code, refused.fields) == (code, {"newSyncStateSetEpoch": "0"})
        reply = await master.alter({1, 2}, epoch=1, set_epoch=1)
        assert reply.header(AlterSyncStateSetResponseHeader).new_sync_state_set_epoch == 2
        body = decode_body(reply.body_view, SyncStateSet, reply.encoding)
        assert (body.sync_state_set, body.sync_state_set_epoch) == ({1, 2}, 2)
        slave.die()
        await rig.settle()
        await master.alter({1}, epoch=1, set_epoch=2)
        dead = await master.alter({1, 2}, epoch=1, set_epoch=3)
        assert dead.code == codes.CONTROLLER_BROKER_NOT_ALIVE


async def test_the_number_of_a_set_that_nobody_is_in_is_told() -> None:
    async with controllers() as rig:  # Java writes an int that is 0
        reply = await (await rig.broker()).register()
        assert bytes(reply.body_view) == b'{"syncStateSet":[],"syncStateSetEpoch":0}'


async def test_the_next_id_of_a_name_is_told_without_its_cluster() -> None:
    async with controllers() as rig:  # D-20
        broker = await rig.broker()
        reply = await broker.ask(GetNextBrokerIdRequestHeader(broker_name=broker.name))
        assert (reply.code, dict(reply.fields)) == (
            ResponseCode.SUCCESS, {"brokerName": broker.name, "nextBrokerId": "2"},
        )  # fmt: skip


async def test_a_killed_master_is_replaced_at_once_and_all_are_told() -> None:
    async with controllers(3) as rig:  # D-41, D-42, D-44
        brokers = [await rig.broker(encoding=Encoding.JSON) for _ in range(3)]
        await brokers[0].elect()
        await brokers[0].alter({1, 3}, epoch=1, set_epoch=1)
        await rig.advance(2.0)
        brokers[2].notices.clear()
        brokers[0].die()
        took = await rig.until(lambda: bool(brokers[2].notices))
        assert took < 1.0
        header, body = brokers[2].notices[-1]
        assert (header.master_broker_id, header.master_epoch) == (3, 2)
        assert header.master_address == brokers[2].address
        assert (body.sync_state_set, body.sync_state_set_epoch) == ({3}, 3)
        assert brokers[1].notices[-1][0].master_broker_id == 3


async def test_a_silent_master_is_replaced_after_ten_seconds_and_a_scan() -> None:
    async with controllers() as rig:  # D-40, D-41
        brokers = [await rig.broker() for _ in range(2)]
        await brokers[0].elect()
        await brokers[0].alter({1, 2}, epoch=1, set_epoch=1)
        rig.brokers.remove(brokers[0])  # it hangs; its connections stay
        await rig.advance(9.0)
        assert (await rig.info())[0].master_broker_id == 1
        await rig.advance(8.0)
        header, in_sync = await rig.info()
        assert (header.master_broker_id, header.master_epoch, in_sync) == (2, 2, {2})


async def test_one_reset_connection_moves_nothing_within_the_grace() -> None:
    async with controllers(broker_close_grace=2000) as rig:  # W-11, #4800
        brokers = [await rig.broker() for _ in range(2)]
        await brokers[0].elect()
        await brokers[0].alter({1, 2}, epoch=1, set_epoch=1)
        for channel in brokers[0].channels.values():
            channel.close()
        await rig.advance(10.0)
        assert (await rig.info())[0].master_epoch == 1
        brokers[0].die()
        await rig.advance(3.0)
        assert (await rig.info())[0].master_broker_id == 2


async def test_nobody_outside_the_set_is_elected_unless_that_is_allowed() -> None:
    async with controllers() as rig:  # D-25, D-30
        brokers = [await rig.broker() for _ in range(2)]
        await brokers[0].elect()
        brokers[0].die()
        await rig.advance(2.0)
        header, in_sync = await rig.info()
        assert (header.master_broker_id, header.master_epoch, in_sync) == (None, 2, {1})
        refused = await brokers[1].elect()
        assert refused.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
        changed = await brokers[1].ask(
            UpdateControllerConfigRequestHeader(), b"enableElectUncleanMaster=true"
        )
        assert changed.code == ResponseCode.SUCCESS, changed.remark
        assert (await brokers[1].elect()).code == ResponseCode.SUCCESS
        assert (await rig.info())[0].master_broker_id == 2
        shown = await brokers[1].ask(GetControllerConfigRequestHeader())
        lines = bytes(shown.body_view).decode().splitlines()
        assert "enableElectUncleanMaster=true" in lines
        assert "port=0" not in lines  # it is the one that the peers name


async def test_of_those_in_sync_the_one_with_most_is_elected() -> None:
    async with controllers() as rig:  # D-33, F-28
        brokers = [await rig.broker() for _ in range(3)]
        await brokers[0].elect()
        await brokers[0].alter({1, 2, 3}, epoch=1, set_epoch=1)
        brokers[1].epoch = brokers[2].epoch = 1
        brokers[1].max_offset, brokers[2].max_offset = 10, 10 + 3 * 2**31
        await rig.advance(1.0)
        brokers[2].max_offset = 5  # it was cut back: what it says now counts
        await rig.advance(1.0)
        brokers[0].die()
        await rig.advance(1.0)
        assert (await rig.info())[0].master_broker_id == 2


async def test_an_operator_designates_a_master_of_those_in_sync() -> None:
    async with controllers() as rig:  # D-32
        brokers = [await rig.broker() for _ in range(3)]
        await brokers[0].elect()
        await brokers[0].alter({1, 2}, epoch=1, set_epoch=1)
        refused = await brokers[0].elect(broker_id=3, designate_elect=True)
        assert refused.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
        reply = await brokers[0].elect(broker_id=2, designate_elect=True)
        assert reply.header(ElectMasterResponseHeader).master_broker_id == 2
        await rig.settle()
        assert brokers[0].notices[-1][0].master_broker_id == 2


async def test_a_new_leader_knows_everything_and_who_is_alive() -> None:
    async with controllers(3) as rig:
        brokers = [await rig.broker() for _ in range(2)]
        await brokers[0].elect()
        await brokers[0].alter({1, 2}, epoch=1, set_epoch=1)
        before = rig.leader.config.self_id
        await rig.stop(before)
        took = await rig.until(
            lambda: any(each.consensus.serves for each in rig.controllers.values())
        )
        assert took < 3.0
        header, in_sync = await rig.info()
        assert (header.master_broker_id, in_sync) == (1, {1, 2})
        await rig.advance(6.0)
        assert (await rig.info())[0].master_epoch == 1  # nobody was taken for dead
        brokers[0].die()
        await rig.advance(1.0)
        assert (await rig.info())[0].master_broker_id == 2
        await rig.start(before)
        await rig.advance(3.0)
        states = {each.consensus.replicas.snapshot() for each in rig.controllers.values()}
        assert len(states) == 1  # I-15


async def test_master_and_leader_that_die_together_are_both_replaced() -> None:
    async with controllers(3) as rig:
        brokers = [await rig.broker() for _ in range(2)]
        await brokers[0].elect()
        await brokers[0].alter({1, 2}, epoch=1, set_epoch=1)
        await rig.advance(6.0)
        brokers[1].notices.clear()
        await rig.stop(rig.leader.config.self_id)
        brokers[0].die()
        took = await rig.until(lambda: bool(brokers[1].notices))
        assert took < 4.0
        assert brokers[1].notices[-1][0].master_broker_id == 2


async def test_without_a_majority_nothing_is_decided_and_nothing_is_lost() -> None:
    async with controllers(3) as rig:
        broker = await rig.broker()
        await broker.elect()
        leader = rig.leader
        for each in [name for name in rig.controllers if name != leader.config.self_id]:
            await rig.stop(each)
        await rig.advance(3.0)
        assert not leader.consensus.serves
        channel = await broker.channel(leader)
        header = GetControllerMetaDataRequestHeader()
        answer = (await rig.answer(channel, header)).header(GetMetaDataResponseHeader)
        assert (answer.is_leader, answer.controller_leader_address) == (False, None)
        for each in ("n0", "n1", "n2"):
            if each not in rig.controllers:
                await rig.start(each)
        await rig.until(lambda: any(each.consensus.serves for each in rig.controllers.values()))
        assert (await rig.info())[0].master_broker_id == 1


async def test_every_controller_tells_who_leads_and_only_that_one_decides() -> None:
    async with controllers(3) as rig:  # D-54, 2007
        broker = await rig.broker()
        leader = rig.leader
        for controller in rig.controllers.values():
            channel = await broker.channel(controller)
            reply = await rig.answer(channel, GetControllerMetaDataRequestHeader())
            header = reply.header(GetMetaDataResponseHeader)
            assert header.controller_leader_id == leader.config.self_id
            assert header.controller_leader_address == leader.address
            assert header.is_leader == (controller is leader)
            assert header.peers == "n0:127.0.0.1:9877;n1:127.0.0.1:9878;n2:127.0.0.1:9879;"
            asked = await rig.answer(channel, GetSyncStateDataRequestHeader(), b"[]")
            right = ResponseCode.SUCCESS
            wrong = ResponseCode.CONTROLLER_NOT_LEADER
            assert asked.code == (right if controller is leader else wrong)


async def test_tools_see_replicas_and_clean_those_that_are_gone() -> None:
    async with controllers() as rig:  # D-26
        brokers = [await rig.broker() for _ in range(2)]
        await brokers[0].elect()
        reply = await brokers[0].ask(GetSyncStateDataRequestHeader(), b'["broker-a","no"]')
        table = decode_body(reply.body_view, BrokerReplicasInfo, reply.encoding)
        [info] = table.replicas_info_table.values()
        assert (info.master_broker_id, info.master_epoch, info.sync_state_set_epoch) == (1, 1, 1)
        assert [(each.broker_id, each.alive) for each in info.in_sync_replicas] == [(1, True)]
        assert [(each.broker_id, each.alive) for each in info.not_in_sync_replicas] == [(2, True)]

        async def clean(**fields: object) -> int:
            header = CleanControllerBrokerDataRequestHeader(broker_name="broker-a", **fields)  # type: ignore[arg-type]
            return (await brokers[0].ask(header)).code

        wrong = ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
        assert await clean() == wrong
        assert await clean(broker_controller_ids_to_clean="2") == wrong
        assert await clean(broker_controller_ids_to_clean="x") == wrong
        brokers[1].die()
        await rig.settle()
        assert await clean(broker_controller_ids_to_clean="2") == ResponseCode.SUCCESS
        assert set(rig.leader.consensus.replicas.groups["broker-a"].replicas) == {1}
        assert await clean(is_clean_living_broker=True) == ResponseCode.SUCCESS
        assert rig.leader.consensus.replicas.groups == {}


async def test_an_id_in_use_is_refused_to_a_second_process() -> None:
    async with controllers() as rig:  # I-13
        await rig.broker()
        copy = await rig.broker(is_registered=False)
        copy.id = 1
        refused = await copy.register()
        assert refused.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
        assert "brokerIdentity" in (refused.remark or "")
        rig.brokers[0].die()
        await rig.settle()
        assert (await copy.register()).code == ResponseCode.SUCCESS  # it moved


async def test_two_clusters_do_not_mix_and_foreign_controllers_are_refused() -> None:
    async with controllers() as rig:
        broker = await rig.broker()
        refused = await broker.elect(cluster_name="Other")
        assert refused.code == ResponseCode.CONTROLLER_INVALID_REQUEST
        assert "cluster" in (refused.remark or "")
        channel = await broker.channel(rig.leader)
        for group, sender in (("Other", "n0"), ("DefaultControllerGroup", "n9")):
            header = RaftMessageRequestHeader(group=group, sender=sender)
            reply = await rig.answer(channel, header, b"\x93\xa4vote\x01\x02")
            assert reply.code == ResponseCode.CONTROLLER_INVALID_REQUEST


async def test_state_survives_many_commands_and_a_restart() -> None:
    async with controllers() as rig:
        brokers = [await rig.broker() for _ in range(2)]
        await brokers[0].elect()
        for at in range(300):
            ids = {1, 2} if at % 2 == 0 else {1}
            assert (await brokers[0].alter(ids, epoch=1, set_epoch=at + 1)).code == 0
        journal = rig.files["n0"].texts["/n0/raft.journal"]
        assert len(journal) < 100_000  # compacted
        before = rig.leader.consensus.replicas.snapshot()
        await rig.stop("n0")
        rig.files["n0"].texts["/n0/raft.journal"] += "5c7a90e1 {torn"
        await rig.start("n0")
        await rig.until(lambda: rig.controllers["n0"].consensus.serves)
        assert rig.leader.consensus.replicas.snapshot() == before


async def test_a_disk_that_fails_stops_the_controller() -> None:
    async with controllers() as rig:
        broker = await rig.broker()
        rig.files["n0"].fails = True
        channel = await broker.channel(rig.leader)
        future = channel.request(ElectMasterRequestHeader(broker_name="broker-a", broker_id=1))
        await eventually(lambda: rig.failures, "the controller has failed")
        [error] = rig.failures
        assert "Input/output error" in str(error)
        assert not future.done()  # nothing is answered that is not on the disk
        await rig.stop("n0")
        with pytest.raises(ConnectionLostError):
            await future
