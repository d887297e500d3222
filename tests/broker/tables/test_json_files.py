"""Configuration files: RocketMQ's dialect in, standard JSON out, never lost (E-67)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from pocketmq.broker.store.disk.disk import OsDisk
from pocketmq.broker.tables.json_files import LARGE_BYTES, JsonFile
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.files.durable_file import DamagedFileError
from support.disks import NO_SPACE, Killed, SteppedDisk, fail_with

ROCKETMQ = """{
\t"dataVersion":{"counter":2,"stateVersion":0,"timestamp":1700000000000},
\t"offsetTable":{"T@g":{0:5,1:7
\t\t},"U@g":{3:1}
\t}
}"""


def file_at(root: Path, disk: Any = None) -> JsonFile:
    return JsonFile(root / "config" / "consumerOffset.json", disk or OsDisk())


def written(root: Path, suffix: str = "") -> Any:
    return json.loads((root / "config" / f"consumerOffset.json{suffix}").read_text())


async def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    value = {"offsetTable": {"T@g": {0: 5, 1: 7}}}
    assert await file_at(tmp_path).save(value)
    assert await file_at(tmp_path).load() == {"offsetTable": {"T@g": {"0": 5, "1": 7}}}
    assert written(tmp_path) == {"offsetTable": {"T@g": {"0": 5, "1": 7}}}


async def test_rocketmqs_raw_integer_keys_are_read(tmp_path: Path) -> None:
    put(tmp_path, ROCKETMQ)
    loaded = await file_at(tmp_path).load()
    assert loaded["offsetTable"] == {"T@g": {"0": 5, "1": 7}, "U@g": {"3": 1}}


def put(root: Path, text: str, suffix: str = "") -> None:
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / f"consumerOffset.json{suffix}").write_text(text)


async def test_nothing_there_is_nothing_loaded(tmp_path: Path) -> None:
    assert await file_at(tmp_path).load() is None


async def test_the_previous_content_stays_beside_the_present(tmp_path: Path) -> None:
    file = file_at(tmp_path)
    for n in range(3):
        await file.save({"n": n})
    assert (written(tmp_path), written(tmp_path, ".bak")) == ({"n": 2}, {"n": 1})


async def test_the_same_again_is_not_written(tmp_path: Path) -> None:
    disk = SteppedDisk()
    file = file_at(tmp_path, disk)
    assert await file.save({"n": 1})
    steps = len(disk.steps)
    assert not await file.save({"n": 1})
    assert len(disk.steps) == steps


@pytest.mark.parametrize("length", range(0, len(ROCKETMQ), 7))
async def test_a_file_cut_short_gives_way_to_its_backup(tmp_path: Path, length: int) -> None:
    put(tmp_path, ROCKETMQ[:length])
    put(tmp_path, '{"n": 1}', ".bak")
    assert await file_at(tmp_path).load() == {"n": 1}


async def test_when_both_are_broken_the_error_names_them(tmp_path: Path) -> None:
    put(tmp_path, "{")
    put(tmp_path, "", ".bak")
    with pytest.raises(DamagedFileError, match=r"consumerOffset\.json.*is empty"):
        await file_at(tmp_path).load()


async def test_a_kill_at_any_step_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    for number in range(1, 6):
        root = tmp_path / str(number)
        disk = SteppedDisk()
        file = file_at(root, disk)
        await file.save({"n": 0})
        await file.save({"n": 1})
        disk.steps.clear()

        def kill(step: int, operation: str, path: str, number: int = number) -> None:
            if step == number:
                raise Killed(operation)

        disk.on_step = kill
        try:
            await file.save({"n": 2})
        except Killed:
            assert await file_at(root).load() in ({"n": 1}, {"n": 2})
        else:
            assert number > len(disk.steps)
            assert await file_at(root).load() == {"n": 2}


async def test_a_full_disk_keeps_the_old_content(tmp_path: Path) -> None:  # fault 16
    disk = SteppedDisk()
    file = file_at(tmp_path, disk)
    await file.save({"n": 1})

    def full(step: int, operation: str, path: str) -> None:
        if operation == "write_text":
            raise fail_with(NO_SPACE)

    disk.on_step = full
    with pytest.raises(DiskError, match="No space"):
        await file.save({"n": 2})
    assert await file_at(tmp_path).load() == {"n": 1}
    disk.on_step = None
    assert await file.save({"n": 2})


class LateError(SteppedDisk):
    """Gives a file its name, and then fails: the directory could not be synced."""

    is_broken = False

    async def rename(self, source: str, target: str) -> None:
        await super().rename(source, target)
        if self.is_broken and not target.endswith(".bak"):
            raise DiskError(target, "a sync failed")


async def test_what_a_failed_save_has_left_is_written_over(tmp_path: Path) -> None:
    # A reset of offsets to where they had been was not written: the file seemed to have them.
    disk = LateError()
    file = file_at(tmp_path, disk)
    await file.save({"offset": 50})
    disk.is_broken = True
    with pytest.raises(DiskError):
        await file.save({"offset": 100})
    disk.is_broken = False
    await file.save({"offset": 50})
    assert await file_at(tmp_path).load() == {"offset": 50}


async def test_saves_at_once_follow_each_other(tmp_path: Path) -> None:
    file = file_at(tmp_path)
    await asyncio.gather(*(file.save({"n": n}) for n in range(10)))
    assert written(tmp_path) == {"n": 9}
    assert written(tmp_path, ".bak") == {"n": 8}


class Turns(SystemClock):
    """Counts the pauses."""

    def __init__(self) -> None:
        self.pauses = 0

    async def sleep(self, delay_s: float) -> None:
        self.pauses += 1
        await super().sleep(delay_s)


@pytest.mark.parametrize(("bytes_of_json", "pauses"), [(LARGE_BYTES - 1, 0), (LARGE_BYTES, 1)])
async def test_others_have_their_turn_within_the_save_of_a_large_file(
    tmp_path: Path, bytes_of_json: int, pauses: int
) -> None:
    # A table of 80,000 queues took 29 ms of one turn.
    clock = Turns()
    file = JsonFile(tmp_path / "config" / "consumerOffset.json", OsDisk(), clock)
    text = "x" * (bytes_of_json - len('["",1]'))
    await asyncio.gather(file.save([text, 1]), file.save([text, 2]))
    assert clock.pauses == 2 * pauses
    assert written(tmp_path, ".bak")[1] == 1
    assert written(tmp_path)[1] == 2, "saves follow each other"
