"""What peers may make controllers keep and read: a limit is named, and less goes on."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from pocketmq.protocol.bodies.controller import BrokerReplicasInfo, SyncStateSet
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.budget import Budget
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.controller import (
    AlterSyncStateSetRequestHeader,
    ApplyBrokerIdRequestHeader,
    CleanControllerBrokerDataRequestHeader,
    ElectMasterRequestHeader,
    GetSyncStateDataRequestHeader,
    RegisterBrokerToControllerRequestHeader,
    UpdateControllerConfigRequestHeader,
)
from pocketmq.protocol.headers.route import BrokerHeartbeatRequestHeader
from support.controller_rig import CLUSTER, controllers


def is_refused_by(answer: Command, option: str) -> bool:
    return answer.code != ResponseCode.SUCCESS and f"(budget.{option})" in (answer.remark or "")


def claim(name: str, broker_id: int, check_code: str = "10.0.0.1:1;1") -> Header:
    return ApplyBrokerIdRequestHeader(
        cluster_name=CLUSTER,
        broker_name=name,
        applied_broker_id=broker_id,
        register_check_code=check_code,
    )


def heartbeat(name: str, address: str = "10.0.0.1:1") -> Header:
    return BrokerHeartbeatRequestHeader(
        cluster_name=CLUSTER, broker_name=name, broker_addr=address, broker_id=1
    )


@pytest.mark.parametrize(
    ("budget", "claimed", "option"),
    [
        (Budget(broker_names=1), claim("broker-b", 1), "broker_names"),
        (Budget(replicas_per_name=1), claim("broker-a", 2), "replicas_per_name"),
        (Budget(replicas=1), claim("broker-b", 1), "replicas"),
        (Budget(replica_bytes=200), claim("broker-b", 1, "x" * 200), "replica_bytes"),
    ],
)
async def test_claims_over_a_limit_name_it_and_those_that_were_taken_stay(
    budget: Budget, claimed: Header, option: str
) -> None:
    async with controllers(3, budget=budget) as rig:
        broker = await rig.broker()
        refused = await broker.ask(claimed)
        assert refused.code == ResponseCode.CONTROLLER_INVALID_REQUEST
        assert is_refused_by(refused, option)
        assert (await broker.apply()).code == ResponseCode.SUCCESS
        await rig.advance(1.0)
        states = {each.consensus.replicas.snapshot() for each in rig.controllers.values()}
        assert len(states) == 1


async def test_controllers_with_other_limits_decide_alike() -> None:  # F-27
    async with controllers(3, budget=Budget(replicas=1)) as rig:
        broker = await rig.broker()
        behind = next(name for name, each in rig.controllers.items() if each is not rig.leader)
        await rig.stop(behind)
        rig.budget = Budget()
        await rig.start(behind)
        assert is_refused_by(await broker.ask(claim("broker-b", 1)), "replicas")
        await rig.advance(1.0)
        states = {each.consensus.replicas.snapshot() for each in rig.controllers.values()}
        assert len(states) == 1


async def test_heartbeats_of_so_many_brokers_are_kept() -> None:
    async with controllers(budget=Budget(replicas=2)) as rig:
        broker = await rig.broker()
        assert (await broker.ask(heartbeat("broker-b"))).code == ResponseCode.SUCCESS
        refused = await broker.ask(heartbeat("broker-c"))
        assert refused.code == ResponseCode.SYSTEM_BUSY
        assert is_refused_by(refused, "replicas")
        assert (await broker.ask(heartbeat("broker-b"))).code == ResponseCode.SUCCESS


LONG = "x" * 61


TOO_LONG: Mapping[str, Header] = {
    "name in a heartbeat": heartbeat(LONG),
    "address in a heartbeat": heartbeat("broker-b", LONG),
    "name": claim(LONG, 1),
    "claim": claim("broker-b", 1, LONG),
    "address": RegisterBrokerToControllerRequestHeader(
        cluster_name=CLUSTER, broker_name="broker-a", broker_id=1, broker_address=LONG
    ),
    "name with a set": AlterSyncStateSetRequestHeader(
        broker_name=LONG, master_broker_id=1, master_epoch=1
    ),
    "cluster of an election": ElectMasterRequestHeader(
        cluster_name=LONG, broker_name="broker-a", broker_id=1
    ),
    "name of an election": ElectMasterRequestHeader(broker_name=LONG, broker_id=1),
    "name to clean": CleanControllerBrokerDataRequestHeader(broker_name=LONG),
    "cluster to clean": CleanControllerBrokerDataRequestHeader(
        cluster_name=LONG, broker_name="broker-a"
    ),
}


@pytest.mark.parametrize("what", TOO_LONG)
async def test_no_name_or_address_comes_into_the_log_that_is_too_long(what: str) -> None:
    header = TOO_LONG[what]
    async with controllers(budget=Budget(name_chars=60)) as rig:
        broker = await rig.broker()
        body = SyncStateSet() if isinstance(header, AlterSyncStateSetRequestHeader) else b""
        before = rig.leader.consensus.applied_index
        refused = await broker.ask(header, body)
        assert is_refused_by(refused, "name_chars")
        assert rig.leader.consensus.applied_index == before


@pytest.mark.parametrize(
    "header", [heartbeat(""), heartbeat("b", ""), claim("", 1)], ids=["name", "address", "claim"]
)
async def test_a_broker_has_a_name_and_an_address(header: Header) -> None:
    async with controllers() as rig:
        broker = await rig.broker()
        refused = await broker.ask(header)
        assert refused.code == ResponseCode.CONTROLLER_INVALID_REQUEST
        assert "is empty" in (refused.remark or "")


async def test_a_request_lists_no_more_replicas_than_a_name_may_have() -> None:
    async with controllers(budget=Budget(replicas_per_name=3)) as rig:
        broker = await rig.broker()
        for count in (3, 4):
            ids = range(1, count + 1)
            clean = CleanControllerBrokerDataRequestHeader(
                broker_name="broker-b", broker_controller_ids_to_clean=";".join(map(str, ids))
            )
            alter = AlterSyncStateSetRequestHeader(
                broker_name="broker-b", master_broker_id=1, master_epoch=1
            )
            for answer in (
                await broker.ask(clean),
                await broker.ask(alter, SyncStateSet(sync_state_set=set(ids))),
            ):
                assert answer.code != ResponseCode.SUCCESS
                assert is_refused_by(answer, "replicas_per_name") == (count == 4)


@pytest.mark.parametrize("encoding", list(Encoding))
async def test_a_list_of_names_tells_each_once_and_is_as_long_as_a_body(encoding: Encoding) -> None:
    async with controllers(budget=Budget(body_bytes=1000)) as rig:
        broker = await rig.broker(encoding=encoding)
        await rig.broker("broker-b")

        async def ask(*names: str) -> Command:
            return await broker.ask(GetSyncStateDataRequestHeader(), listed(names, encoding))

        answer = await ask("broker-b", "broker-a", "broker-b", "broker-b")
        table = decode_body(answer.body_view, BrokerReplicasInfo, answer.encoding)
        assert set(table.replicas_info_table) == {"broker-a", "broker-b"}
        assert is_refused_by(await ask(*["broker-a"] * 120), "body_bytes")


def listed(names: tuple[str, ...], encoding: Encoding) -> bytes:
    codec = msgspec.msgpack if encoding is Encoding.MSGPACK else msgspec.json
    return codec.encode(names)


async def test_options_are_changed_by_a_body_of_so_many_bytes() -> None:
    async with controllers(budget=Budget(settings_bytes=100)) as rig:
        broker = await rig.broker()
        body = b"enableElectUncleanMaster=true\n"
        changed = await broker.ask(UpdateControllerConfigRequestHeader(), body)
        assert changed.code == ResponseCode.SUCCESS
        refused = await broker.ask(UpdateControllerConfigRequestHeader(), body * 4)
        assert is_refused_by(refused, "settings_bytes")


async def test_a_limit_is_changed_while_controllers_run() -> None:
    async with controllers(budget=Budget(broker_names=1)) as rig:
        broker = await rig.broker()
        assert is_refused_by(await broker.ask(claim("broker-b", 1)), "broker_names")
        changed = await broker.ask(UpdateControllerConfigRequestHeader(), b"brokerNames=2\n")
        assert changed.code == ResponseCode.SUCCESS
        assert (await broker.ask(claim("broker-b", 1))).code == ResponseCode.SUCCESS
