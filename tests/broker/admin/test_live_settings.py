"""Options that act at once when UPDATE_BROKER_CONFIG (25) changes them (O-3, O-7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from broker.registration.test_broker_registration import registered
from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.store.config import StoreConfig
from pocketmq.protocol.bodies.clients import CheckClientRequestBody
from pocketmq.protocol.budget import Budget
from pocketmq.protocol.filters import compile_sql92
from pocketmq.protocol.headers.clients import CheckClientConfigRequestHeader
from pocketmq.protocol.headers.settings import (
    GetBrokerConfigRequestHeader,
    UpdateBrokerConfigRequestHeader,
)
from pocketmq.protocol.headers.topics import UpdateAndCreateTopicRequestHeader
from pocketmq.protocol.messages.subscription import SQL92, SubscriptionData
from pocketmq.protocol.scalars import PullSysFlag
from pocketmq.runtime.configuration.config import load, read_properties
from pocketmq.runtime.configuration.options import describe
from support.broker_rig import Voice, consumer, pull_header, read_pull, running_broker
from support.store_life import SoundDisk

Probe = Callable[[Voice], Awaitable[int]]


async def change(voice: Voice, text: str) -> str | None:
    reply = await voice.ask(UpdateBrokerConfigRequestHeader(), text.encode())
    assert reply.code == 0
    return reply.remark


async def send(voice: Voice) -> int:
    return (await voice.try_send("orders", b"x" * 100)).code


async def send_half(voice: Voice) -> int:
    properties = {"TRAN_MSG": "true", "PGROUP": "p", "UNIQ_KEY": "K"}
    return (await voice.try_send("orders", properties=properties)).code


async def send_timer(voice: Voice) -> int:
    return (await voice.try_send("orders", properties={"TIMER_DELAY_SEC": "90"})).code


async def pull(voice: Voice) -> int:
    return (await voice.ask(pull_header())).code


async def sql(voice: Voice) -> int:
    compile_sql92("a > 1")  # the grammar is read at the first use, which may take seconds
    body = CheckClientRequestBody(
        client_id="c",
        group="g",
        subscription_data=SubscriptionData(
            topic="orders", sub_string="a > 1", expression_type=SQL92
        ),
    )
    return (await voice.ask(CheckClientConfigRequestHeader(), body)).code


async def create(voice: Voice) -> int:
    header = UpdateAndCreateTopicRequestHeader(
        topic="others", read_queue_nums=4, write_queue_nums=4, perm=6
    )
    return (await voice.ask(header)).code


CASES: list[tuple[str, Probe, int, str, int]] = [
    ("maxMessageSize", send, 0, "99", 13),
    ("brokerPermission", pull, 0, "2", 16),
    ("rejectTransactionMessage", send_half, 0, "true", 16),
    ("timerMaxDelaySec", send_timer, 0, "60", 13),
    ("enablePropertyFilter", sql, 1, "true", 0),
    ("queuesPerTopic", create, 0, "3", 29),
]


@pytest.mark.parametrize(
    ("key", "probe", "before", "value", "after"), CASES, ids=[case[0] for case in CASES]
)
async def test_a_change_acts_at_once(
    tmp_path: Path, key: str, probe: Probe, before: int, value: str, after: int
) -> None:
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        await voice.heartbeat(consumers=[consumer(), consumer("another")])
        await voice.send()
        assert await probe(voice) == before
        assert await change(voice, f"{key}={value}") is None
        assert await probe(voice) == after


async def test_the_level_of_a_full_disk_changes_at_once(tmp_path: Path) -> None:  # B-163, B-166
    async with running_broker(tmp_path, disk=SoundDisk()) as rig:  # half of it is used
        voice = await rig.voice()
        await voice.send()
        for value, code in (("40", 14), ("60", 0), ("1", 14), ("90", 0)):
            assert await change(voice, f"diskSpaceWarningLevelRatio={value}") is None
            await rig.advance(70)  # the first look is 60 s after the start
            assert await send(voice) == code


async def test_a_fraction_where_percents_are_meant_is_refused(tmp_path: Path) -> None:  # B-163
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        remark = await change(voice, "diskSpaceWarningLevelRatio=0.9")
        assert remark is not None
        assert "a whole number of percent: write 90" in remark
        config = rig.broker.core.store.config
        assert config.disk_space_warning_level_ratio == 90


async def test_how_long_a_pull_is_held_changes_at_once(tmp_path: Path) -> None:  # B-70
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        await voice.heartbeat(consumers=[consumer()])
        await voice.create_topic()
        await change(voice, "longPollingEnable=false\nshortPollingTimeMills=3000")
        header = pull_header(sys_flag=PullSysFlag.SUSPEND, suspend_timeout_millis=60_000)
        held = voice.channel.request(header, timeout_s=60.0)
        await rig.settle()
        assert not held.done()
        await rig.advance(6)  # the look every 5 s may be under way
        assert read_pull(await held).code == 19


async def test_another_permission_is_registered_at_once(tmp_path: Path) -> None:  # O-7
    async with registered(tmp_path) as (rig, [server]):
        voice = await rig.voice()
        await voice.create_topic("orders")
        await rig.settle()
        before = server.registrations[-1][1].topic_config_serialize_wrapper.data_version
        count = len(server.registrations)
        await change(voice, "brokerPermission=4")
        await rig.settle()
        wrapper = server.registrations[-1][1].topic_config_serialize_wrapper
        assert len(server.registrations) == count + 1
        assert wrapper.topic_config_table["orders"].perm == 4
        assert wrapper.data_version.counter == before.counter + 1
        await change(voice, "transactionCheckMax=4")
        await rig.settle()
        assert len(server.registrations) == count + 1


async def test_a_number_out_of_its_bounds_is_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        remark = await change(
            voice, "brokerPermission=9\ntransactionCheckInterval=0\ndeleteWhen=noon\nrecords=0"
        )
        assert remark is not None
        assert "brokerPermission ('9' is not 0 up to 7)" in remark
        assert "transactionCheckInterval ('0' is not 100 or more)" in remark
        assert "'noon' must be a list of hours" in remark
        assert "records ('0' is not 1 or more)" in remark
        assert rig.broker.core.config.broker_permission == 6


async def test_changes_go_to_the_file_that_the_broker_was_started_with(tmp_path: Path) -> None:
    file = tmp_path / "etc" / "broker.conf"
    file.parent.mkdir()
    file.write_text("brokerName=broker-a\nenableDetailStat=false\nprofile=4.9\n")
    async with running_broker(tmp_path / "store", broker_config_path=file) as rig:
        voice = await rig.voice()
        await change(voice, "transactionCheckMax=7\nflushDiskType=SYNC_FLUSH")
        kept = read_properties(file)
        assert kept["transactionCheckMax"] == "7"
        assert kept["enableDetailStat"] == "false"  # means nothing here, and something to RocketMQ
        shown = await voice.ask(GetBrokerConfigRequestHeader())
        assert "enableDetailStat" not in bytes(shown.body_view).decode()
        again = load(StoreConfig, {}, {}, broker_conf=file).config
        assert again.flush_disk_type.value == "SYNC_FLUSH"
        assert again.store_path_root_dir == rig.broker.store.root
        assert not (Path(rig.broker.store.root) / "config" / "broker.properties").exists()


def test_what_acts_at_once_is_what_rocketmq_s_sheet_of_live_options_says() -> None:
    live = {
        each.rocketmq_name
        for config in (BrokerConfig, StoreConfig, Budget)
        for each in describe(config)
        if each.live
    }
    assert {
        "brokerPermission", "autoCreateTopicEnable", "autoCreateSubscriptionGroup",
        "longPollingEnable", "shortPollingTimeMills", "slaveReadEnable", "enablePropertyFilter",
        "rejectTransactionMessage", "recallMessageEnable", "transactionTimeOut",
        "transactionCheckMax", "transactionCheckInterval", "consumerFallbehindThreshold",
        "disableConsumeIfConsumerReadSlowly", "waitTimeMillsInSendQueue", "fileReservedTime",
        "brokerFastFailureEnable", "storeReplyMessageEnable", "useServerSideResetOffset",
        "defaultMessageRequestMode", "maxMessageSize", "deleteWhen", "diskMaxUsedSpaceRatio",
        "flushIntervalCommitLog", "maxTransferCountOnMessageInMemory",
    } <= live  # fmt: skip
    assert not live & {
        "listenPort", "brokerIP1", "brokerName", "brokerClusterName", "brokerId", "namesrvAddr",
        "storePathRootDir", "mappedFileSizeCommitLog", "maxHashSlotNum", "maxIndexNum",
        "messageDelayLevel", "traceTopicEnable", "defaultTopicQueueNums", "timerWheelEnable",
        "timerPrecisionMs", "flushDiskType", "transientStorePoolSize",
    }  # fmt: skip
