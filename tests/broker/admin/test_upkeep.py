"""Requests that any broker of RocketMQ answers, though they mean nothing to this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.broker.role_names import BrokerRole
from pocketmq.protocol.bodies.controller import SyncStateSet
from pocketmq.protocol.bodies.replication import HARuntimeInfo
from pocketmq.protocol.body import decode_body, encode_body
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.controller import (
    GetBrokerEpochCacheRequestHeader,
    NotifyBrokerRoleChangedRequestHeader,
    ResetMasterFlushOffsetRequestHeader,
)
from pocketmq.protocol.headers.replication import GetBrokerHAStatusRequestHeader
from pocketmq.protocol.headers.route import NotifyMinBrokerIdChangeRequestHeader
from pocketmq.protocol.headers.topics import (
    CleanExpiredConsumeQueueRequestHeader,
    CleanUnusedTopicRequestHeader,
    PopRollbackRequestHeader,
)
from support.broker_rig import BrokerRig, Voice, running_broker

NOTHING_TO_DO = [
    CleanExpiredConsumeQueueRequestHeader(),
    CleanUnusedTopicRequestHeader(),
    PopRollbackRequestHeader(),
    NotifyMinBrokerIdChangeRequestHeader(min_broker_id=1, min_broker_addr="10.0.0.1:10911"),
    NotifyBrokerRoleChangedRequestHeader(
        master_address="10.0.0.1:10911", master_epoch=2, sync_state_set_epoch=2, master_broker_id=2
    ),
    ResetMasterFlushOffsetRequestHeader(master_flush_offset=7),
]


@pytest.mark.parametrize("header", NOTHING_TO_DO, ids=lambda header: type(header).__name__)
async def test_what_there_is_nothing_to_do_for_is_done(  # M-40, Z-6, Z-8, D-17
    rig: BrokerRig, encoding: Encoding, header: Header
) -> None:
    voice = await rig.voice(encoding)
    await voice.send()
    body = b""
    if isinstance(header, NotifyBrokerRoleChangedRequestHeader):
        body = encode_body(SyncStateSet(sync_state_set=[2], sync_state_set_epoch=2), encoding)
    reply = await voice.ask(header, body)
    assert (reply.code, reply.remark, bytes(reply.body_view)) == (0, None, b"")
    role = rig.broker.core.role
    assert (role.leads, role.broker_id, role.epoch) == (True, 0, 0)
    assert (await voice.try_send("orders")).code == 0
    assert rig.broker.core.store.checkpoint.master_flushed_offset == 0


async def test_a_broker_without_controllers_has_no_epochs(  # M-61
    rig: BrokerRig, encoding: Encoding
) -> None:
    reply = await (await rig.voice(encoding)).ask(GetBrokerEpochCacheRequestHeader())
    assert (reply.code, reply.remark) == (1, "this request only for controllerMode ")


async def flushed(voice: Voice) -> int:
    reply = await voice.ask(GetBrokerHAStatusRequestHeader())
    info = decode_body(reply.body_view, HARuntimeInfo, reply.encoding)
    return info.ha_client_runtime_info.master_flush_offset


async def test_a_slave_keeps_what_it_is_told_of_its_masters_flushes(tmp_path: Path) -> None:  # Z-8
    async with running_broker(tmp_path, broker_role=BrokerRole.SLAVE, broker_id=1) as rig:
        voice = await rig.voice(Encoding.JSON)
        assert await flushed(voice) == 0
        reply = await voice.ask(ResetMasterFlushOffsetRequestHeader(master_flush_offset=1 << 40))
        assert (reply.code, reply.remark) == (0, None)
        assert await flushed(voice) == 1 << 40
    async with running_broker(tmp_path, broker_role=BrokerRole.SLAVE, broker_id=1) as rig:
        assert await flushed(await rig.voice()) == 1 << 40
