"""The oracle itself: a real RocketMQ, and what our Java programs say of it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from support.golden import STORE_SIZES, unpack_store
from support.java import run_java
from support.real_rocketmq import RealRocketMQ, real_rocketmq

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(1200),  # a first run downloads RocketMQ
]

TOPICS = "GoldenPlain,GoldenBatch,GoldenLarge,GoldenKinds,GoldenTransactions"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRocketMQ]:
    root = unpack_store("clean", tmp_path_factory.mktemp("real"))
    with real_rocketmq(root / "store", settings=STORE_SIZES) as running:
        yield running


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
    received = run_java("ConsumeMessages", cluster.namesrv_addr, "all", "Oracle", "*", 300, 60)
    assert received.counts("TAG") == {"TagA": 100, "TagB": 100, "TagC": 100}
    some = run_java("ConsumeMessages", cluster.namesrv_addr, "two", "Oracle", "TagA||TagC", 200, 60)
    assert some.counts("TAG") == {"TagA": 100, "TagC": 100}
    assert some.tally("RECEIVED") | {"disordered": 0} == {
        "RECEIVED": 200, "distinct": 200, "damaged": 0, "disordered": 0, "retried": 0,
    }  # fmt: skip
