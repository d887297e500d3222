"""The plugin in projects of their own: what it shows, what it costs, and the pages' examples."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.nested_pytest import run_pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "testing.md"


@pytest.mark.cluster
def test_every_example_of_the_page_passes_in_a_project_of_its_own(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 8
    for number, block in enumerate(blocks):
        assert len(block.splitlines()) < 40
        (tmp_path / f"test_example_{number}.py").write_text(block)
    ran = run_pytest(tmp_path, "-n", "2", "-W", "error")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "8 passed" in ran.stdout


@pytest.mark.cluster
def test_eight_workers_have_a_cluster_each(tmp_path: Path) -> None:
    (tmp_path / "test_many.py").write_text(
        "import pytest\n"
        "from pocketmq.client import Message\n"
        "@pytest.mark.parametrize('number', range(16))\n"
        "def test_one(pocketmq, number, worker_id):\n"
        "    topic = pocketmq.sync.create_topic('orders')\n"
        "    with (\n"
        "        pocketmq.sync.producer(send_timeout_ms=60_000) as producer,\n"
        "        pocketmq.sync.consumer('billing', topic) as consumer,\n"
        "    ):\n"
        "        producer.send(Message(topic, worker_id.encode()))\n"
        "        assert consumer.receive(limit_s=100).body == worker_id.encode()\n"
        "    with open(f'{number}.txt', 'w') as said:\n"
        "        said.write(f'{worker_id} {pocketmq.nameservers} {pocketmq.control_url}')\n"
    )
    ran = run_pytest(tmp_path, "-n", "8")
    assert "16 passed" in ran.stdout, ran.stdout + ran.stderr
    said = [path.read_text().split() for path in tmp_path.glob("*.txt")]
    workers = {worker for worker, _, _ in said}
    assert len({nameserver for _, nameserver, _ in said}) == len(workers) > 1
    assert len({(worker, control) for worker, _, control in said}) == len(
        {control for _, _, control in said}
    )


@pytest.mark.cluster
def test_a_failed_test_shows_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "test_failing.py").write_text(
        "import pytest\n"
        "from pocketmq.client import Message\n"
        "def test_it(pocketmq_clock, pocketmq_faults):\n"
        "    cluster = pocketmq_clock.sync\n"
        "    topic = cluster.create_topic('orders')\n"
        "    sent_once = cluster.producer(retry_times_when_send_failed=0)\n"
        "    with cluster.consumer('billing', topic), sent_once as producer:\n"
        "        cluster.group('billing').assigned()\n"
        "        pocketmq_faults.add('fail', code='SEND_MESSAGE', times=1)\n"
        "        with pytest.raises(Exception):\n"
        "            producer.send(Message(topic, b'x'))\n"
        "    cluster.advance(5)\n"
        "    cluster.group('billing').assigned(members=2, limit_s=0.1)\n"
    )
    ran = run_pytest(tmp_path)
    assert ran.returncode == 1
    assert "group billing: 0 of 2 members connected" in ran.stdout
    assert "PocketMQ cluster" in ran.stdout
    assert "broker.registered broker=broker-a" in ran.stdout  # a line of its log
    timeline = ran.stdout.partition("-- timeline")[2]
    steps = (
        "nameserver-1: broker-registered broker=broker-a",
        "test: create topic orders, 4 queues on each broker",
        "broker-a: member-joined group=billing",
        "test: fault r1: fail at every role",
        "broker-a: fault-fired rule=r1 do=fail",
        "test: advance 5 s",
    )
    places = [timeline.find(step) for step in steps]
    assert -1 not in places, timeline
    assert places == sorted(places)
    kept = re.search(r"stores and logs: (\S+)", ran.stdout)
    assert kept is not None
    assert (Path(kept[1]) / "broker-a").is_dir()


@pytest.mark.cluster
def test_a_fixture_that_fails_beside_a_cluster_shows_it_too(tmp_path: Path) -> None:
    (tmp_path / "test_failing.py").write_text(
        "import pytest\n"
        "@pytest.fixture\n"
        "def before(pocketmq_cluster):\n"
        "    pocketmq_cluster.sync.create_topic('before')\n"
        "    raise ValueError\n"
        "@pytest.fixture\n"
        "def after(pocketmq):\n"
        "    yield pocketmq.sync.create_topic('after')\n"
        "    raise ValueError\n"
        "def test_one(before): pass\n"
        "def test_two(after): pass\n"
        "def test_three(pocketmq): raise ValueError\n"
    )
    ran = run_pytest(tmp_path, "-p", "no:xdist")
    assert "2 errors" in ran.stdout
    one, two, three = ran.stdout.split("stores and logs: ")[1:]
    assert "test: create topic before" in one
    assert "-after, 4 queues" in two
    assert "create topic" not in three  # what another test did to the shared cluster is not told
    assert all("-- broker-a (running)" in each for each in (one, two, three))


def test_a_wrong_option_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_it(pocketmq): pass\n")
    ran = run_pytest(tmp_path, "--pocketmq-mode", "docker")
    assert ran.returncode != 0
    assert "pocketmq_mode is 'docker'; write in-process or processes" in ran.stdout + ran.stderr


def test_the_plugin_imports_nothing_until_a_fixture_asks() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import pocketmq.testing.plugin; "
        "print(sorted(set(sys.modules) - before))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = ran.stdout
    assert "pocketmq.testing.plugin" in loaded
    for heavy in ("uvloop", "pyspark", "pocketmq.broker", "pocketmq.client", "structlog"):
        assert f"'{heavy}" not in loaded


def test_starting_a_cluster_prints_nothing() -> None:
    code = (
        "from pocketmq.testing import start_cluster\n"
        "with start_cluster() as cluster:\n"
        "    cluster.sync.create_topic('orders')\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_log_lines_of_roles_are_kept_after_a_client_was_there_first() -> None:
    code = (
        "import asyncio\n"
        "from pocketmq.client import Producer\n"
        "from pocketmq.testing import start_cluster\n"
        "async def main():\n"
        "    async with Producer('p', nameservers='127.0.0.1:1'): pass\n"
        "asyncio.run(main())\n"
        "with start_cluster() as cluster:\n"
        "    print(cluster.control.roles.log_tail('nameserver-1', 9))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "broker.registered broker=broker-a" in ran.stdout
