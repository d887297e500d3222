"""`pocketmq store`: what the user sees."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.golden import unpack_store

POCKETMQ = [sys.executable, "-m", "pocketmq.cluster.cli.main", "store"]

HOLD_THE_LOCK = """
import sys
from pocketmq.broker.store import OsDisk
lock = OsDisk().lock(sys.argv[1] + "/lock")
print("held", flush=True)
sys.stdin.read()
"""


def store(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [*POCKETMQ, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return unpack_store("clean", tmp_path / "all") / "store"


def test_verify_says_all_right_and_exits_with_0(root: Path) -> None:
    ran = store("verify", root.parent)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith(f"{root}: all right: 1,229 records")


def test_verify_prints_where_it_is_wrong_and_exits_with_1(root: Path) -> None:
    path = root / "commitlog" / f"{131072:020d}"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    ran = store("verify", root)
    assert ran.returncode == 1
    assert f"{path}: byte 0: BODYCRC" in ran.stdout
    assert "problems: " in ran.stdout.splitlines()[-1]


@contextmanager
def held(root: Path) -> Iterator[None]:
    """Another process has the store open."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_THE_LOCK, str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        holder.stdout.readline()
        yield
        holder.stdin.close()


def test_a_store_in_use_is_not_rebuilt(root: Path) -> None:
    with held(root):
        ran = store("rebuild", root)
    assert ran.returncode == 1
    assert len(ran.stderr.splitlines()) == 1
    assert "is open in another process; stop that broker first" in ran.stderr


def test_a_store_in_use_is_looked_into(root: Path) -> None:
    with held(root):
        verified = store("verify", root)
        inspected = store("inspect", root)
        message = store("cat", root, "--topic", "GoldenPlain", "--count", "1")
    assert (verified.returncode, inspected.returncode, message.returncode) == (0, 0, 0)
    assert "note: a broker has it open; checked up to log offset" in verified.stdout
    assert "all right: 1,229 records" in verified.stdout
    assert "2,468 index entries" in verified.stdout
    assert "a broker has it open" in inspected.stdout
    assert json.loads(message.stdout)["topic"] == "GoldenPlain"


def test_damage_in_a_store_in_use_is_found(root: Path) -> None:
    path = root / "commitlog" / f"{131072:020d}"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    with held(root):
        ran = store("verify", root)
    assert ran.returncode == 1
    assert f"{path}: byte 0: BODYCRC" in ran.stdout


def test_cat_prints_json_lines_or_records(root: Path) -> None:
    ran = store(
        "cat", root, "--topic", "GoldenPlain", "--queue", "1", "--from", "3", "--count", "2"
    )
    assert ran.returncode == 0, ran.stderr
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [line["queueOffset"] for line in lines] == [3, 4]
    assert lines[0]["properties"]["KEYS"]
    raw = subprocess.run(
        [*POCKETMQ, "cat", str(root), "--topic", "GoldenPlain", "--raw"],
        capture_output=True,
        check=True,
    )
    assert raw.stdout[4:8] == bytes.fromhex("DAA320A7")


def test_inspect_prints_tables(root: Path) -> None:
    ran = store("inspect", root)
    assert ran.returncode == 0, ran.stderr
    assert "stopped cleanly" in ran.stdout
    assert "GoldenTransactions" in ran.stdout
    assert re.search(r"\d\d:\d\d:\d\dZ to 20", ran.stdout), "times are UTC, and say so"
    assert f"file\tcommitlog/{131072:020d}\t" in ran.stdout
    assert not re.search(r"[\x1b\u2500-\u257f]", ran.stdout), "neither colour nor boxes"
    table = store("inspect", root, "-o", "table").stdout.splitlines()
    assert table[:2] == [str(root.resolve()), "stopped cleanly"]
    assert all(len(line) <= 80 for line in table[1:])
    [facts] = json.loads(store("inspect", root, "-o", "json").stdout)
    assert {queue["topic"] for queue in facts["queues"]} >= {"GoldenTransactions", "GoldenPlain"}


def test_rebuild_then_verify_is_clean(root: Path) -> None:
    ran = store("rebuild", root, "--profile", "5.3")  # as the RocketMQ that wrote it
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "1,229 queue entries and 2,468 index entries" in ran.stdout
    assert store("verify", root).returncode == 0
    ran = store("rebuild", root)
    assert "1,229 queue entries and 3,693 index entries" in ran.stdout, "with tags (S-46)"
    assert store("verify", root).returncode == 0


@pytest.mark.parametrize("command", ["inspect", "verify", "rebuild"])
def test_a_folder_without_a_store_is_refused_in_one_line(command: str, tmp_path: Path) -> None:
    ran = store(command, tmp_path)
    assert ran.returncode == 1
    assert "is not a store root" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
