"""Power cuts on a model disk: the promise of each flush mode, for every choice (faults 6 to 9)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from pocketmq.broker.tables.json_files import JsonFile
from support.model_disk import PAGE, LooseEnd, ModelDisk, Moment

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "power_cuts.py"


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_sampled_power_cuts_break_no_promise(mode: str) -> None:
    ran = subprocess.run(
        [sys.executable, str(SCRIPT), "--mode", mode, "--most", "16", "--every", "3"],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]


# -- the model itself ----------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> ModelDisk:
    (tmp_path / "disk").mkdir()
    return ModelDisk(tmp_path / "disk")


def after(moment: Moment, chosen: set[LooseEnd], target: Path) -> dict[str, bytes]:
    moment.write(target, chosen)
    return {
        str(path.relative_to(target)): path.read_bytes()
        for path in target.rglob("*")
        if path.is_file()
    }


def test_pages_survive_one_by_one_until_they_are_synced(disk: ModelDisk, tmp_path: Path) -> None:
    path = f"{disk.root}/log"
    disk.create_file(path, 3 * PAGE)
    file = disk.open_file(path)
    file.sync()
    disk.sync_directory(disk.root)
    assert disk.moment().loose == []
    view = disk.map_file(path, 3 * PAGE)
    view[0], view[PAGE], view[2 * PAGE] = 1, 2, 3
    moment = disk.moment()
    assert moment.loose == [LooseEnd("page", "log", page) for page in range(3)]
    content = after(moment, {moment.loose[1]}, tmp_path / "cut")["log"]
    assert (content[0], content[PAGE], content[2 * PAGE]) == (0, 2, 0)
    file.sync()
    assert disk.moment().loose == []
    file.close()


def test_a_name_survives_once_its_directory_was_synced(disk: ModelDisk, tmp_path: Path) -> None:
    disk.make_directory(f"{disk.root}/queue")
    disk.create_file(f"{disk.root}/queue/0", 10)
    disk.open_file(f"{disk.root}/queue/0").sync()
    disk.sync_directory(f"{disk.root}/queue")
    moment = disk.moment()
    assert moment.loose == [LooseEnd("name", "queue/0")], "its directory's own name is not certain"
    assert after(moment, set(), tmp_path / "without") == {}
    assert after(moment, set(moment.loose), tmp_path / "with") == {"queue/0": bytes(10)}
    disk.sync_directory(disk.root)
    assert disk.moment().loose == []
    disk.remove_file(f"{disk.root}/queue/0")
    moment = disk.moment()
    assert after(moment, set(), tmp_path / "still") == {"queue/0": bytes(10)}
    assert after(moment, set(moment.loose), tmp_path / "gone") == {}


def test_a_length_may_be_lost_while_the_name_survives(disk: ModelDisk, tmp_path: Path) -> None:
    disk.create_file(f"{disk.root}/log", 10)
    disk.sync_directory(disk.root)
    moment = disk.moment()
    assert moment.loose == [LooseEnd("length", "log")]
    assert after(moment, set(), tmp_path / "cut") == {"log": b""}


def test_a_file_made_in_place_of_another_may_be_either(disk: ModelDisk, tmp_path: Path) -> None:
    disk.write_file(f"{disk.root}/mark", b"old")
    disk.open_file(f"{disk.root}/mark").sync()
    disk.sync_directory(disk.root)
    disk.remove_file(f"{disk.root}/mark")
    disk.write_file(f"{disk.root}/mark", b"new")
    moment = disk.moment()
    assert after(moment, set(), tmp_path / "old") == {"mark": b"old"}
    assert after(moment, set(moment.loose), tmp_path / "new") == {"mark": b"new"}


def test_every_moment_of_a_save_leaves_the_old_or_the_new(disk: ModelDisk, tmp_path: Path) -> None:
    file = JsonFile(Path(disk.root) / "config" / "t.json", disk)
    asyncio.run(file.save({"n": 1}))
    moments: list[Moment] = []
    disk.on_call = lambda operation, path: moments.append(disk.moment())
    asyncio.run(file.save({"n": 2}))
    moments.append(disk.moment())
    found = []
    for number, moment in enumerate(moments):
        for choice, chosen in enumerate(moment.choices(64, Random(1))):
            target = tmp_path / f"{number}-{choice}"
            moment.write(target, chosen)
            found.append(asyncio.run(JsonFile(target / "config" / "t.json", disk).load())["n"])
    assert set(found) == {1, 2}
    assert found == sorted(found)


def test_few_loose_ends_are_tried_in_every_way() -> None:
    moment = Moment({"a": b"1" * 3 * PAGE}, {"a": bytes(3 * PAGE)}, {"a"}, {})
    assert len(set(moment.choices(8, Random(1)))) == 8
    assert len(set(moment.choices(7, Random(1)))) == 7
