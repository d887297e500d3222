"""Brokers as processes on disks that are full, fail, or lose power (store proofs 3, 5 and 6).

Everything goes over the wire: what a producer and a consumer see is what is asserted.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pocketmq.client import SendStatus
from pocketmq.cluster.errors import ProcessStartError
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.codes import ResponseCode
from support.cluster import running
from support.disk_voice import GROUP, SMALL, TOPIC, assert_sound, log_of, speaking
from support.eventually import eventually
from support.mounts import image, tmpfs

pytestmark = pytest.mark.cluster

MODES = ("ASYNC_FLUSH", "SYNC_FLUSH")


# -- a full disk (faults 15, 16) ------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Where broker-a keeps everything: 6 MiB."""
    with tmpfs(tmp_path / "broker-a", 6) as place:
        yield place


def fill(place: Path) -> Path:
    """A file that takes all space that is left."""
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    assert shutil.disk_usage(place).free == 0
    return ballast


@pytest.mark.root
@pytest.mark.parametrize("mode", MODES)
async def test_a_full_disk_refuses_sends_serves_pulls_and_goes_on_with_space(
    tmp_path: Path, small_disk: Path, mode: str
) -> None:
    config = small_disk / "config"
    options = (*SMALL, "--flush-disk-type", mode)
    async with (
        running(tmp_path, *options, clock="manual") as cluster,
        cluster.admin() as admin,
        speaking(cluster) as voice,
    ):
        for _ in range(20):
            assert await voice.send() is SendStatus.SEND_OK
        await admin.create_group(SubscriptionGroupConfig(group_name=GROUP))
        await admin.update_consumer_offset(GROUP, voice.queue, 7)
        await cluster.advance(seconds=15)
        offsets = (config / "consumerOffset.json").read_bytes()
        topics = (config / "topics.json").read_bytes()

        ballast = fill(small_disk)
        refusal = await voice.send_until_refused()
        assert refusal.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "the store takes no messages" in refusal.remark
        for _ in range(10):
            assert (await voice.refused()).code == ResponseCode.SERVICE_NOT_AVAILABLE
        await voice.check()

        # Configuration: the old files stay whole, the log says what could not be written.
        await admin.create_topic("late")
        await admin.update_consumer_offset(GROUP, voice.queue, 9)
        await cluster.advance(seconds=10)
        assert (config / "consumerOffset.json").read_bytes() == offsets
        assert (config / "topics.json").read_bytes() == topics
        failed = {line["table"]: line["reason"] for line in log_of(cluster, "table.save_failed")}
        assert "No space left" in failed["topics"]
        assert "No space left" in failed["consumerOffset.json"]

        ballast.unlink()
        await cluster.advance(seconds=1)  # what is behind catches up
        for _ in range(20):
            assert await voice.send() is SendStatus.SEND_OK
        await voice.check()
        await cluster.advance(seconds=10)
        assert json.loads((config / "consumerOffset.json").read_bytes())["offsetTable"] == {
            f"{TOPIC}@{GROUP}": {"0": 9}
        }
        await admin.create_topic("later")
        names = json.loads((config / "topics.json").read_bytes())["topicConfigTable"]
        assert {"late", "later"} <= set(names)
        assert await cluster.broker("a").stop() == 0, "no SIGBUS, and a clean stop"
    assert_sound(small_disk)


# -- faults of the disk's N-th call, in the broker's own process (proof 3) ------------------------


async def test_after_a_sync_that_failed_nothing_is_acknowledged_until_it_is_made_good(
    tmp_path: Path,
) -> None:  # faults 17, 20
    env = {"POCKETMQ_DISK_FAULT": "eio@5:sync:commitlog"}
    options = (*SMALL, "--flush-disk-type", "SYNC_FLUSH")
    async with (
        running(tmp_path, *options, clock="manual", env=env) as cluster,
        speaking(cluster) as voice,
    ):
        statuses = [await voice.send() for _ in range(4)]
        assert statuses == [SendStatus.SEND_OK] * 3 + [SendStatus.FLUSH_DISK_TIMEOUT]
        for _ in range(10):
            refusal = await voice.refused()
            assert refusal.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert "a sync of the commit log failed" in refusal.remark
        await voice.check()

        async def is_writeable() -> bool:
            status = await cluster.supervisor.control("broker-a").status()
            return status["writeable"] == "true"

        await cluster.advance(seconds=0.5)
        await eventually(is_writeable, "the store is reopened and takes messages")
        for _ in range(10):
            assert await voice.send() is SendStatus.SEND_OK
        await voice.check()
        assert "Input/output error" in log_of(cluster, "log.flush_failed")[0]["error"]
    assert_sound(tmp_path / "broker-a")


@pytest.mark.parametrize("calls", ["reserve:commitlog", "write_file:commitlog"])
async def test_a_disk_without_space_from_some_call_on_is_one_error_for_senders(
    tmp_path: Path, calls: str
) -> None:  # fault 15
    env = {"POCKETMQ_DISK_FAULT": f"enospc@3+:{calls}"}
    async with (
        running(tmp_path, *SMALL, clock="manual", env=env) as cluster,
        speaking(cluster) as voice,
    ):
        refusal = await voice.send_until_refused()
        assert refusal.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert len(voice.acknowledged) > 100
        await voice.check()
        assert "No space left" in log_of(cluster, "append.failed")[0]["error"]
    assert_sound(tmp_path / "broker-a")


async def test_a_start_that_the_disk_refuses_is_one_line_and_the_next_one_works(
    tmp_path: Path,
) -> None:
    env = {"POCKETMQ_DISK_FAULT": "eio@1:lock"}
    with pytest.raises(ProcessStartError, match=r"broker-a cannot start: .*lock.*Input/output"):
        async with running(tmp_path, *SMALL, env=env):
            pytest.fail("it started")
    async with running(tmp_path, *SMALL) as cluster, speaking(cluster) as voice:
        assert await voice.send() is SendStatus.SEND_OK


# -- a power cut on a real file system (faults 6, 7) ----------------------------------------------


@pytest.mark.root
@pytest.mark.parametrize("mode", MODES)
async def test_what_is_on_a_real_medium_when_the_power_goes_is_what_was_promised(
    tmp_path: Path, mode: str
) -> None:
    medium, copy = tmp_path / "medium", tmp_path / "copy"
    options = (*SMALL, "--flush-disk-type", mode)
    with image(medium, tmp_path / "broker-a", mib=32):
        async with (
            running(tmp_path, *options, clock="manual") as cluster,
            cluster.admin() as admin,
            speaking(cluster) as voice,
        ):

            async def is_flushed() -> bool:
                info = await admin.broker_runtime_info("broker-a")
                return info["remainHowManyDataToFlush"] == "0 B"

            for _ in range(300):
                assert await voice.send() is SendStatus.SEND_OK
            await cluster.advance(seconds=0.5)  # a flush: what comes later may be lost
            await eventually(is_flushed, "the flush has ended")
            for _ in range(100):
                assert await voice.send() is SendStatus.SEND_OK
            await cluster.broker("a").freeze()
            shutil.copyfile(medium, copy)
            await cluster.broker("a").kill()
    with image(copy, tmp_path / "broker-a"):
        async with running(tmp_path, *options) as cluster, speaking(cluster, new=False) as after:
            served = await after.served()
            assert list(served) == list(range(len(served))), "a hole"
            assert all(voice.acknowledged[at] == body for at, body in served.items())
            assert len(served) >= (400 if mode == "SYNC_FLUSH" else 100)
            assert await after.send() is SendStatus.SEND_OK
        assert_sound(tmp_path / "broker-a")
