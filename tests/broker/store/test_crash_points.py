"""A crash or refusal at any call of the disk loses nothing acknowledged (faults 2, 3, 5)."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pocketmq.broker.store import FlushDiskType, OsDisk
from pocketmq.broker.store.disk.fault_disk import Fault, FaultDisk, disk_of
from pocketmq.runtime.errors import ConfigError, DiskError, DiskFullError
from support.store_life import InlineFaultDisk, Verdict, judge, live

ROOT = Path(__file__).resolve().parents[3]


def run_script(name: str, *words: str) -> None:
    ran = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / name), *words], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]


@pytest.mark.slow
def test_sampled_crash_points_lose_nothing() -> None:  # faults 2, 3, 5, 15, 16, 17
    run_script("crash_points.py", "--sample", "20")


@pytest.mark.slow
@pytest.mark.root
def test_sampled_system_calls_lose_nothing() -> None:  # faults 2, 5, 17
    run_script("crash_syscalls.py", "--sample", "2", "--mode", "SYNC_FLUSH")


# -- the judge -----------------------------------------------------------------------------------


def lived(root: Path) -> list[str]:
    lines: list[str] = []
    asyncio.run(live(root, InlineFaultDisk(), lines.append, FlushDiskType.ASYNC_FLUSH))
    return lines


def test_the_judge_sees_a_lost_message_and_a_config_that_went_back(tmp_path: Path) -> None:
    lines = lived(tmp_path / "store")
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    judge(tmp_path / "copy", lines)
    with pytest.raises(Verdict, match="message 7777 is not at"):
        judge(tmp_path / "store", [*lines, "ack 7777 0 5555"])
    (tmp_path / "store/config/consumerOffset.json").write_text('{"n": 1}')
    with pytest.raises(Verdict, match="config says 1"):
        judge(tmp_path / "store", lines)


# -- the faults ----------------------------------------------------------------------------------


def test_a_fault_is_read_from_the_environment() -> None:
    assert Fault.parse("kill@17") == Fault("kill", 17)
    assert Fault.parse("enospc@9+") == Fault("enospc", 9, lasts=True)
    assert Fault.parse("eio@2:sync") == Fault("eio", 2, operation="sync")
    assert Fault.parse("kill@1:rename:config") == Fault(
        "kill", 1, operation="rename", path_part="config"
    )
    assert type(disk_of({})) is OsDisk
    assert isinstance(disk_of({"POCKETMQ_DISK_FAULT": "eio@5"}), FaultDisk)


@pytest.mark.parametrize("text", ["boom@1", "kill", "kill@0", "kill@x", "eio@1:fly"])
def test_a_fault_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="POCKETMQ_DISK_FAULT"):
        Fault.parse(text)


def test_the_nth_call_fails_and_no_other(tmp_path: Path) -> None:
    disk = FaultDisk(Fault("eio", 2, operation="write_file"))
    disk.write_file(str(tmp_path / "a"), b"1234")
    with pytest.raises(DiskError, match="b: Input/output error"):
        disk.write_file(str(tmp_path / "b"), b"1234")
    disk.write_file(str(tmp_path / "c"), b"1234")
    assert (tmp_path / "b").read_bytes() == b"12"
    assert (tmp_path / "c").read_bytes() == b"1234"


def test_a_full_disk_stays_full(tmp_path: Path) -> None:
    disk = FaultDisk(Fault("enospc", 2, lasts=True, operation="reserve", path_part="log"))
    (tmp_path / "log").write_bytes(bytes(4096))
    (tmp_path / "queue").write_bytes(bytes(4096))
    log, queue = disk.open_file(str(tmp_path / "log")), disk.open_file(str(tmp_path / "queue"))
    log.reserve(0, 4096)
    for _ in range(3):
        with pytest.raises(DiskFullError):
            log.reserve(0, 4096)
        queue.reserve(0, 4096)
    log.close()
    queue.close()


def test_a_kill_is_a_kill(tmp_path: Path) -> None:
    code = (
        "from pocketmq.broker.store.disk.fault_disk import disk_of\n"
        "import os\n"
        "disk_of(os.environ).make_directory(os.environ['TARGET'])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={"POCKETMQ_DISK_FAULT": "kill@1", "TARGET": str(tmp_path / "x")},
    )
    assert ran.returncode == -9
    assert not (tmp_path / "x").exists()
