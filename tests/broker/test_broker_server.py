"""A broker as a whole: starting on old files, stopping, and what it does when it cannot start."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.server import Broker
from pocketmq.broker.store import OsDisk, StoreConfig
from pocketmq.broker.store.disk.disk_worker import DiskWorker, InlineWorker
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.errors import ConnectError
from pocketmq.protocol.transport.memory import MemoryNetwork
from pocketmq.runtime.errors import PortInUseError
from pocketmq.runtime.files.durable_file import DamagedFileError
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.broker_rig import SMALL_FILES, START_MS, Voice, consumer, running_broker
from support.eventually import eventually


def config_dir(path: Path) -> Path:
    return path / "store" / "config"


async def test_everything_is_there_again_after_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        for n in range(5):
            await voice.send(body=b"%d" % n, queue_id=n % 4)
        await voice.heartbeat(consumers=[consumer()])
        await voice.commit(1)
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        assert (await voice.pull()).bodies == [b"0", b"4"]
        assert await voice.committed() == 1
        assert rig.broker.groups.get("readers") is not None
        assert rig.broker.topics.get("%RETRY%readers") is not None
        assert (await voice.send()).queue_offset == 2


async def test_an_idle_broker_wakes_every_few_seconds_and_not_twice_a_second(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        await voice.send()
        await voice.heartbeat(consumers=[consumer()])
        await voice.commit(1)
        store = rig.broker.store
        await rig.advance(61)  # queues and checkpoint are flushed, by a thread in real time
        await eventually(
            lambda: store.checkpoint.durable_offset == store.commit_log.max_offset,
            "all is flushed",
        )
        await rig.advance(5)
        begins_ms = rig.clock.time_ms()
        wakes = 0
        while rig.clock.time_ms() < begins_ms + 60_000:
            next_ms = rig.clock.next_deadline_ms()
            assert next_ms is not None
            await rig.clock.move_to(next_ms)
            wakes += 1
        # Three services that look every 10 s (clients, disk, delayed messages), and registration.
        assert wakes <= 3 * 6 + 3


async def test_files_that_rocketmq_wrote_are_read(tmp_path: Path) -> None:  # B-31, E-67, T-7
    config = config_dir(tmp_path)
    config.mkdir(parents=True)
    (config / "topics.json").write_text(
        '{\n\t"dataVersion":{\n\t\t"counter":7,\n\t\t"stateVersion":0,\n\t\t"timestamp":5\n\t},\n\t'
        '"topicConfigTable":{\n\t\t"orders":{\n\t\t\t"attributes":{},\n\t\t\t"order":false,\n\t\t\t'
        '"perm":6,\n\t\t\t"readQueueNums":4,\n\t\t\t"topicFilterType":"SINGLE_TAG",\n\t\t\t'
        '"topicName":"orders",\n\t\t\t"topicSysFlag":0,\n\t\t\t"writeQueueNums":4\n\t\t}\n\t}\n}'
    )
    (config / "subscriptionGroup.json").write_text(
        '{"dataVersion":{"counter":1,"timestamp":5},"subscriptionGroupTable":{"readers":'
        '{"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,'
        '"consumeFromMinEnable":true,"groupName":"readers","retryMaxTimes":3,"retryQueueNums":1,'
        '"notifyConsumerIdsChangedEnable":true,"whichBrokerWhenConsumeSlowly":1,'
        '"groupRetryPolicy":{"type":"CUSTOMIZED"}}}}'
    )
    (config / "consumerOffset.json").write_text('{"offsetTable":{"orders@readers":{0:0,1:0}}}')
    (config / "delayOffset.json").write_text('{"offsetTable":{1:12,3:4}}')
    async with running_broker(tmp_path) as rig:
        assert rig.broker.topics.data_version.counter == 7
        orders = rig.broker.topics.get("orders")
        assert orders is not None
        assert orders.read_queue_nums == 4
        readers = rig.broker.groups.get("readers")
        assert readers is not None
        assert readers.retry_max_times == 3
        assert await (await rig.voice()).committed(queue_id=1) == 0
        assert rig.broker.planner.offset(1) == 0  # clamped: the queue is empty


async def test_offsets_beyond_a_log_that_lost_its_end_are_pulled_back(tmp_path: Path) -> None:
    # fault 7
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        await voice.send()
        await voice.heartbeat(consumers=[consumer()])
    offsets = config_dir(tmp_path) / "consumerOffset.json"
    offsets.write_text(json.dumps({"offsetTable": {"orders@readers": {"0": 50}}}))
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        assert await voice.committed() == 1
        await voice.send(body=b"new")
        assert (await voice.pull(offset=1)).bodies == [b"new"]


async def test_a_broken_table_falls_back_to_the_one_before(tmp_path: Path) -> None:  # fault 5
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        await voice.create_topic("orders")
        await voice.create_topic("others")
    (config_dir(tmp_path) / "topics.json").write_text("{broken")
    async with running_broker(tmp_path) as rig:
        assert rig.broker.topics.get("orders") is not None


async def test_tables_that_are_both_broken_are_one_clear_error(tmp_path: Path) -> None:
    config = config_dir(tmp_path)
    config.mkdir(parents=True)
    (config / "topics.json").write_text("{broken")
    with pytest.raises(DamagedFileError, match=r"topics\.json"):
        async with running_broker(tmp_path):
            pass
    (config / "topics.json").write_text('{"topicConfigTable":{"orders":{"perm":"many"}}}')
    with pytest.raises(DamagedFileError, match="perm"):
        async with running_broker(tmp_path):
            pass


async def test_a_second_broker_on_the_same_store_is_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path):
        # A file lock belongs to a process, so the second broker is one.
        import subprocess
        import sys

        ran = subprocess.run(  # noqa: ASYNC221 - a second of the test's own time
            [sys.executable, "-m", "pocketmq.broker", "--port", "0", "--data", tmp_path / "store"],
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert ran.returncode == 1
        assert len(ran.stderr.strip().splitlines()) == 1
        assert "open in another process" in ran.stderr


async def test_a_taken_port_is_an_error_and_the_store_is_free_again(tmp_path: Path) -> None:
    network = MemoryNetwork()
    async with running_broker(tmp_path / "a", network=network):
        config = BrokerConfig(port=10911, data=tmp_path / "b" / "store")
        broker = Broker(
            config, ManualClock(START_MS), network, store_config=StoreConfig(**SMALL_FILES)
        )
        with pytest.raises(PortInUseError):
            await broker.start()
        await broker.stop()
    async with running_broker(tmp_path / "b") as rig:
        await (await rig.voice()).send()


async def test_a_stopping_broker_answers_no_sends(tmp_path: Path) -> None:  # B-110, B-111
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        for service in rig.broker.subjects.sending.services:
            await service.leave()
        assert (await voice.try_send()).code == 1


def write(path: str, text: str) -> None:
    Path(path).write_text(text)


class SlowTables(OsDisk):
    """All is written at once, without threads; the consumer offsets when the test lets them."""

    def __init__(self) -> None:
        self.asked, self.may_go_on = asyncio.Event(), asyncio.Event()

    async def write_text(self, path: str, text: str) -> None:
        if "consumerOffset.json" in path:
            self.asked.set()
            await self.may_go_on.wait()
        write(path, text)

    async def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def start_worker(self, name: str) -> DiskWorker:
        return InlineWorker()


async def test_who_stops_a_broker_that_stops_already_waits_until_all_is_saved(
    tmp_path: Path,
) -> None:
    disk = SlowTables()
    async with running_broker(tmp_path, disk=disk) as rig:
        voice = await rig.voice()
        await voice.send()
        await voice.heartbeat(consumers=[consumer()])
        await voice.commit(1)
        first = asyncio.create_task(rig.broker.stop())
        await disk.asked.wait()
        second = asyncio.create_task(rig.broker.stop())
        await rig.settle()
        assert not second.done()  # its caller may end the process then
        disk.may_go_on.set()
        await asyncio.gather(first, second)
    async with running_broker(tmp_path) as rig:
        assert await (await rig.voice()).committed() == 1


def test_the_store_lies_where_data_says(tmp_path: Path) -> None:
    config = BrokerConfig(data=tmp_path / "mine")
    store_config = StoreConfig(store_path_root_dir="/elsewhere", max_message_size=7)
    broker = Broker(config, ManualClock(START_MS), MemoryNetwork(), store_config=store_config)
    assert broker.store.root == str(tmp_path / "mine")
    assert broker.store.config.max_message_size == 7


async def test_clients_up_to_4_4_send_to_the_port_less_two(tmp_path: Path) -> None:  # B-1
    async with running_broker(tmp_path) as rig:
        old = Voice(await rig.network.connect("127.0.0.1:10909", Dispatcher()))
        await old.send(body=b"by the VIP port")
        assert [message.body for message in await rig.queue("orders")] == [b"by the VIP port"]
    async with running_broker(tmp_path, vip_port_enable=False) as rig:
        with pytest.raises(ConnectError):
            await rig.network.connect("127.0.0.1:10909", Dispatcher())


async def test_a_taken_vip_port_is_a_line_in_the_log_and_no_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = MemoryNetwork()
    other = await network.serve("127.0.0.1", 10909, Dispatcher())
    async with running_broker(tmp_path, network=network) as rig:
        voice = await rig.voice()
        await voice.send()
    assert capsys.readouterr().out.count("vip_port.taken") == 1
    await other.close()
