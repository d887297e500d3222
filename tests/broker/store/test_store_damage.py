"""Damaged files: what is intact is served, or the error says where (faults 11 to 13)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.broker.store import OsDisk
from pocketmq.broker.store.errors import StoreFileError
from pocketmq.broker.store.tools.verify import verify_store
from pocketmq.broker.tables.json_files import JsonFile
from pocketmq.runtime.files.durable_file import DamagedFileError
from support.damage import Place, Served, Template, lost_places, make_template, serve
from support.store_life import INDEX_SLOTS

IN_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "flip_bits.py"
LOG_FILE = 4096


@pytest.fixture(scope="module")
def template() -> Iterator[Template]:
    with TemporaryDirectory(dir=IN_MEMORY, prefix="store-damage-") as folder:
        yield make_template(Path(folder) / "template")


@pytest.fixture(scope="module", params=[False, True], ids=["clean", "killed"])
def killed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def struck(template: Template, start: int, end: int) -> set[Place]:
    """Messages with a byte in [start, end) of the log."""
    return {
        place for place, (at, size) in template.records.items() if at < end and start < at + size
    }


def damaged(template: Template, *, killed: bool) -> Path:
    return template.copy(template.root.parent / "damaged", killed=killed)


def log_files(template: Template) -> list[str]:
    return [name for name in template.files() if name.startswith("commitlog")]


def end_of(template: Template) -> int:
    return max(at + size for at, size in template.records.values())


def error_of(served: Served) -> StoreFileError:
    assert isinstance(served.error, StoreFileError), served.error
    assert f"(at byte {served.error.position})" in str(served.error) or not served.error.position
    return served.error


@given(data=st.data())
def test_a_log_file_may_be_truncated_at_any_byte(
    template: Template, killed: bool, data: st.DataObject
) -> None:
    root = damaged(template, killed=killed)
    name = data.draw(st.sampled_from(log_files(template)))
    length = data.draw(st.integers(0, LOG_FILE - 1))
    os.truncate(root / name, length)
    served = serve(root)
    lost = lost_places(template, served)
    start = int(Path(name).name)
    if start < int(Path(log_files(template)[-1]).name):
        assert error_of(served).path == root / name
        assert error_of(served).position == length
    else:
        assert served.error is None
        assert set(lost) <= struck(template, start + length, end_of(template))


@given(data=st.data())
def test_a_range_of_the_log_may_be_zeros(
    template: Template, killed: bool, data: st.DataObject
) -> None:
    root = damaged(template, killed=killed)
    name = data.draw(st.sampled_from(log_files(template)))
    at = data.draw(st.integers(0, LOG_FILE - 1))
    length = data.draw(st.integers(1, LOG_FILE - at))
    content = bytearray((root / name).read_bytes())
    content[at : at + length] = bytes(length)
    (root / name).write_bytes(content)
    served = serve(root)
    assert served.error is None
    start = int(Path(name).name) + at
    assert set(lost_places(template, served)) <= struck(template, start, start + length)


@given(data=st.data())
def test_bytes_of_the_log_may_be_anything(
    template: Template, killed: bool, data: st.DataObject
) -> None:
    root = damaged(template, killed=killed)
    name = data.draw(st.sampled_from(log_files(template)))
    at = data.draw(st.integers(0, LOG_FILE - 1))
    noise = data.draw(st.binary(min_size=1, max_size=40))[: LOG_FILE - at]
    content = bytearray((root / name).read_bytes())
    content[at : at + len(noise)] = noise
    (root / name).write_bytes(content)
    served = serve(root)
    assert served.error is None
    start = int(Path(name).name) + at
    assert set(lost_places(template, served)) <= struck(template, start, start + len(noise))


@settings(max_examples=60)
@given(data=st.data())
def test_what_is_derived_from_the_log_may_be_anything(
    template: Template, killed: bool, data: st.DataObject
) -> None:
    root = damaged(template, killed=killed)
    names = [n for n in template.files() if n.startswith(("consumequeue", "index", "checkpoint"))]
    for _ in range(data.draw(st.integers(1, 3))):
        path = root / data.draw(st.sampled_from(names))
        kind = data.draw(st.sampled_from(["cut", "zeros", "noise", "missing", "empty"]))
        if not path.exists() or kind == "missing":
            path.unlink(missing_ok=True)
            continue
        content = bytearray(path.read_bytes())
        at = data.draw(st.integers(0, max(0, len(content) - 1)))
        if kind in ("cut", "empty"):
            del content[at if kind == "cut" else 0 :]
        else:
            size = data.draw(st.integers(1, 60))
            noise = bytes(size) if kind == "zeros" else data.draw(st.binary(max_size=60))
            content[at : at + len(noise)] = noise[: len(content) - at]
        path.write_bytes(content)
    served = serve(root)
    assert served.error is None
    assert lost_places(template, served) == []


@pytest.mark.parametrize("emptied", [False, True], ids=["missing", "empty"])
def test_a_log_file_that_is_gone_is_named_or_was_at_an_end(
    template: Template, killed: bool, emptied: bool
) -> None:
    names = log_files(template)
    for number, name in enumerate(names):
        root = damaged(template, killed=killed)
        if emptied:
            (root / name).write_bytes(b"")
        else:
            (root / name).unlink()
        served = serve(root)
        lost = lost_places(template, served)
        start = int(Path(name).name)
        if number == len(names) - 1 or (number == 0 and not emptied):
            assert served.error is None
            assert set(lost) <= struck(template, start, start + LOG_FILE)
        else:
            assert error_of(served).path == root / name


@pytest.mark.parametrize("suffix", ["", ".bak"])
def test_a_configuration_file_may_be_cut_anywhere(template: Template, suffix: str) -> None:
    root = damaged(template, killed=True)
    path = root / "config" / f"consumerOffset.json{suffix}"
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        value = asyncio.run(JsonFile(root / "config" / "consumerOffset.json", OsDisk()).load())
        assert value == {"n": 1 if suffix == "" else 2}
    (root / "config" / "consumerOffset.json").write_bytes(b'{"n":')
    (root / "config" / "consumerOffset.json.bak").write_bytes(b"")
    with pytest.raises(DamagedFileError, match=r"consumerOffset\.json: .*\.bak: "):
        asyncio.run(JsonFile(root / "config" / "consumerOffset.json", OsDisk()).load())


def test_after_recovery_from_damage_the_rest_verifies(template: Template) -> None:
    root = damaged(template, killed=False)
    place, (start, _) = sorted(template.records.items(), key=lambda item: item[1])[30]
    path = root / "commitlog" / f"{start // LOG_FILE * LOG_FILE:020d}"
    content = bytearray(path.read_bytes())
    content[start % LOG_FILE + 90] ^= 4
    path.write_bytes(content)
    assert lost_places(template, serve(root)) == [place]
    found = verify_store(OsDisk(), str(root), index_slots=INDEX_SLOTS).problems
    assert (Path(found[0].path), found[0].position) == (path, start % LOG_FILE)


def test_flipped_bits_cost_their_record_alone_and_it_is_told() -> None:
    ran = subprocess.run(
        [sys.executable, str(SCRIPT), "--flips", "600"], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
