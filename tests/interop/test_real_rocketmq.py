"""The oracle itself: a real RocketMQ, what our Java programs say of it, and faults before it.

All clients of this broker come through `pocketmq fault-proxy`, whose rules concern one topic.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pocketmq.client import Admin, Message, Producer
from pocketmq.runtime.errors import PocketMQError
from support.eventually import PATIENCE_MS, eventually
from support.golden import STORE_SIZES, unpack_store
from support.java import run_java
from support.real_rocketmq import RealRocketMQ

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(1200),  # a first run downloads RocketMQ
]

TOPICS = "GoldenPlain,GoldenBatch,GoldenLarge,GoldenKinds,GoldenTransactions"


RULES = """
[[faults]]
do = "fail"
code = "SEND_MESSAGE"
topic = "Faulty"
nth = 2
with_code = "SYSTEM_BUSY"

[[faults]]
do = "duplicate"
code = "SEND_MESSAGE"
topic = "Faulty"
nth = 2
"""
"""The second rule does not see the call at which the first one fires."""

PROXY = "127.0.0.2"
"""Where the proxy listens, on the broker's own port; the broker tells it as brokerIP1."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRocketMQ]:
    root = unpack_store("clean", tmp_path_factory.mktemp("real"))
    running = RealRocketMQ(root / "store", root / "work", settings=STORE_SIZES, broker_ip=PROXY)
    try:
        running.start_namesrv()
        running.start_broker()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def firings(cluster: RealRocketMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The proxy before the broker; the file to which it prints each firing."""
    folder = tmp_path_factory.mktemp("proxy")
    (folder / "faults.toml").write_text(RULES)
    told = folder / "firings.jsonl"
    listen = f"{PROXY}:{cluster.broker_port}"
    command = ["fault-proxy", "--to", cluster.broker_addr, "--listen", listen]
    command += ["--rules", str(folder / "faults.toml")]
    with told.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "pocketmq.cluster.cli.main", *command], stdout=output
        )
        while not told.read_text():  # its first line says that it listens
            assert process.poll() is None
        yield told
        process.terminate()  # SIGINT is ignored where the tests were started behind a `&`
        process.wait(200)


@pytest.fixture(autouse=True)
def _through_the_proxy(firings: Path) -> None:
    """Every test reaches the broker through it."""


async def test_faults_happen_before_a_real_broker_as_the_rules_say(
    cluster: RealRocketMQ, firings: Path
) -> None:
    options = {"nameservers": cluster.namesrv_addr, "encoding": "json"}
    async with Producer(
        "p", retry_times_when_send_failed=0, send_timeout_ms=PATIENCE_MS, **options
    ) as producer:
        assert (await producer.send(Message("Faulty", b"1"))).queue.topic == "Faulty"
        with pytest.raises(PocketMQError, match="SYSTEM_BUSY"):
            await producer.send(Message("Faulty", b"2"))
        await producer.send(Message("Faulty", b"3"))
    async with Admin(**options, api_timeout_ms=PATIENCE_MS) as admin:
        stats = await admin.topic_stats("Faulty")
    assert sum(each.max_offset for each in stats.values()) == 3  # 1, and 3 twice

    def printed() -> list[dict[str, object]]:
        return [json.loads(line) for line in firings.read_text().splitlines()[1:]]

    await eventually(lambda: len(printed()) == 2, "both firings are printed")
    assert [(each["do"], each["topic"]) for each in printed()] == [
        ("fail", "Faulty"), ("duplicate", "Faulty"),
    ]  # fmt: skip


def test_a_real_broker_finds_every_message_of_the_golden_store_by_offset_id_and_key(
    cluster: RealRocketMQ,
) -> None:
    expected = (cluster.store_dir.parent / "expected.jsonl").read_text().splitlines()
    read = run_java("DumpTopics", cluster.namesrv_addr, TOPICS, "--query", "yes").stdout
    messages = [json.loads(line) for line in read.splitlines()]
    assert all(message.pop("viewed") for message in messages)
    assert all(message.pop("queried", True) for message in messages)
    wanted = [json.loads(line) for line in expected]
    assert messages == [message for message in wanted if message["topic"] in TOPICS.split(",")]


def test_the_java_programs_agree_with_each_other_through_a_real_broker(
    cluster: RealRocketMQ,
) -> None:
    sent = run_java("SendMessages", cluster.namesrv_addr, "Oracle", 300)
    assert sent.tally("SENT")["SENT"] == 300
    received = run_java("ConsumeMessages", cluster.namesrv_addr, "all", "Oracle", "*", 300, 240)
    assert received.counts("TAG") == {"TagA": 100, "TagB": 100, "TagC": 100}
    some = run_java(
        "ConsumeMessages", cluster.namesrv_addr, "two", "Oracle", "TagA||TagC", 200, 240
    )
    assert some.counts("TAG") == {"TagA": 100, "TagC": 100}
    assert some.tally("RECEIVED") | {"disordered": 0} == {
        "RECEIVED": 200, "distinct": 200, "damaged": 0, "disordered": 0, "retried": 0,
    }  # fmt: skip
