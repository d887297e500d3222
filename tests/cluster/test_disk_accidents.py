"""Disks that are slow or hang, files that expire or are cut below a broker (faults 14, 18, 19, 55).

A mapping has one answer to a file that was cut below it: SIGBUS. No look before a read closes the
gap between the look and the read, so the broker dies of it as of a crash, at once and without a
wrong byte, and its next start looks at what is left.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pocketmq.client import PullStatus, SendStatus
from pocketmq.cluster.errors import ProcessDiedError, ProcessStartError
from pocketmq.protocol.errors import RemotingError
from support.cluster import Cluster, running
from support.disk_voice import SMALL, Voice, assert_sound, speaking
from support.eventually import eventually
from support.mounts import frozen, image

pytestmark = pytest.mark.cluster

LOG_FILE = 256 * 1024
SYNC = ("--flush-disk-type", "SYNC_FLUSH")


# -- a file cut below its mapping (fault 14) ------------------------------------------------------


async def die_of_reading(cluster: Cluster, voice: Voice) -> None:
    with pytest.raises(RemotingError):
        await voice.served()
    broker = cluster.broker("a")
    status = await broker.wait()
    assert status == -signal.SIGBUS
    told = str(ProcessDiedError(broker.name, status, broker.log_path))
    assert "SIGBUS: a mapped file was truncated" in told


async def test_a_log_cut_below_a_running_broker_ends_it_and_the_rest_is_served_again(
    tmp_path: Path,
) -> None:
    first = tmp_path / "broker-a" / "commitlog" / f"{0:020d}"
    async with running(tmp_path, *SMALL, clock="manual") as cluster, speaking(cluster) as voice:
        for _ in range(100):
            await voice.send()
        os.truncate(first, LOG_FILE // 4)
        await die_of_reading(cluster, voice)
        await cluster.restart(cluster.broker("a"))

        served = await voice.served()
        assert 40 < len(served) < 60, "a quarter of the file holds half of the messages"
        assert list(served) == list(range(len(served)))
        assert all(voice.acknowledged[at] == body for at, body in served.items())
        voice.acknowledged = served
        assert await voice.send() is SendStatus.SEND_OK
        await voice.check()
    assert_sound(tmp_path / "broker-a")


async def test_a_file_cut_in_the_middle_of_the_log_is_named_by_the_next_start(
    tmp_path: Path,
) -> None:
    first = tmp_path / "broker-a" / "commitlog" / f"{0:020d}"
    async with running(tmp_path, *SMALL, clock="manual") as cluster, speaking(cluster) as voice:
        for _ in range(300):
            await voice.send()
        os.truncate(first, 4096)
        await die_of_reading(cluster, voice)
        where = rf"{first.name}: the file must have {LOG_FILE} bytes, but has 4096"
        with pytest.raises(ProcessStartError, match=rf"broker-a cannot start: .*{where}"):
            await cluster.restart(cluster.broker("a"))


# -- a slow disk (fault 18) -----------------------------------------------------------------------


@contextmanager
def slow_syncs(pid: int, delay_ms: int, told: Path) -> Iterator[None]:
    """Each fdatasync of a process takes so much longer, and is told in a file."""
    command = [
        *("strace", "-f", "-o", str(told), "-p", str(pid), "-e", "trace=fdatasync"),
        *("-e", f"inject=fdatasync:delay_enter={delay_ms * 1000}"),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr is not None
        if "attached" not in tracer.stderr.readline():
            pytest.skip("processes cannot be traced here")
        try:
            yield
        finally:
            tracer.terminate()
            tracer.communicate()


@pytest.mark.root
async def test_sends_share_the_syncs_of_a_slow_disk_and_pulls_do_not_wait_for_it(
    tmp_path: Path,
) -> None:
    delay_ms, count, told = 500, 64, tmp_path / "syncs"
    async with running(tmp_path, *SMALL, *SYNC) as cluster, speaking(cluster) as voice:
        assert await voice.send() is SendStatus.SEND_OK
        most = 0.0  # of several runs: this process may stand still while the broker syncs
        for _ in range(5):
            with slow_syncs(cluster.broker("a").pid, delay_ms, told):
                sends = [asyncio.ensure_future(voice.send()) for _ in range(count)]
                pulls = 0
                while not all(send.done() for send in sends):
                    await voice.served()
                    pulls += 1
            syncs = told.read_text().count("fdatasync(")
            assert [send.result() for send in sends] == [SendStatus.SEND_OK] * count
            assert 1 <= syncs < count / 4, "one sync answers many"
            most = max(most, pulls / syncs)
            if most > 2:
                break
        assert most > 2, "a pull takes less than a sync"
        await voice.check()
    assert_sound(tmp_path / "broker-a")


# -- a disk that hangs (fault 19) -----------------------------------------------------------------


def thread_states(pid: int) -> set[str]:
    """What the threads of a process are doing; D is to wait for a disk."""
    stats = Path(f"/proc/{pid}/task").glob("*/stat")
    return {stat.read_text().rpartition(")")[2].split()[0] for stat in stats}


@pytest.mark.root
@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_a_disk_that_hangs_for_a_while_costs_time_and_no_message(
    tmp_path: Path, mode: str
) -> None:
    with image(tmp_path / "medium", tmp_path / "broker-a", mib=32):
        options = (*SMALL, "--flush-disk-type", mode)
        async with running(tmp_path, *options) as cluster, speaking(cluster) as voice:
            for _ in range(20):
                await voice.send()
            with frozen(tmp_path / "broker-a"):
                sends = [asyncio.ensure_future(voice.send()) for _ in range(8)]
                pid = cluster.broker("a").pid
                await eventually(lambda: "D" in thread_states(pid), "the broker hangs in its disk")
                assert not any(send.done() for send in sends)
            statuses = await asyncio.gather(*sends)
            assert statuses == [SendStatus.SEND_OK] * 8
            await voice.check()
            assert len(voice.acknowledged) == 28
        assert_sound(tmp_path / "broker-a")


# -- files that expire while they are read (fault 55) ---------------------------------------------


async def test_files_that_expire_while_a_consumer_reads_them_move_it_to_what_is_left(
    tmp_path: Path,
) -> None:
    options = (
        *SMALL,
        "--file-reserved-time-h",
        "0",
        "--delete-when",
        ";".join(map(str, range(24))),
    )
    async with (
        running(tmp_path, *options, clock="manual") as cluster,
        speaking(cluster) as voice,
        cluster.admin() as admin,
    ):
        for _ in range(800):
            await voice.send()
        advancing = asyncio.ensure_future(cluster.advance(seconds=75))  # the cleaner looks at 60
        offset = 0
        moved = []
        while not advancing.done() or not moved:
            pulled = await voice.pull(offset)
            if pulled.status is PullStatus.FOUND:
                for message in pulled.messages:
                    assert message.body == voice.acknowledged[message.queue_offset]
                offset = 0 if pulled.next_begin_offset == 800 else pulled.next_begin_offset
            else:
                assert pulled.status is PullStatus.OFFSET_ILLEGAL
                moved.append(pulled.next_begin_offset)
                offset = pulled.next_begin_offset
        await advancing
        least = await admin.min_offset(voice.queue)
        assert least > 400
        assert moved[-1] == least
        assert list(await voice.served(least)) == list(range(least, 800))
        assert await voice.send() is SendStatus.SEND_OK
    assert_sound(tmp_path / "broker-a")
