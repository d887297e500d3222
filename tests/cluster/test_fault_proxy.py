"""Faults in front of a process that knows of none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pocketmq.client import Message, Producer
from pocketmq.cluster.faults.proxy import FaultProxy
from pocketmq.cluster.faults.rules_file import read_rules
from pocketmq.cluster.faults.run import check_reachable, run_proxy
from pocketmq.operation.faults.rule import FaultRule, WrongFaultError
from pocketmq.operation.faults.rule_book import RuleBook
from pocketmq.runtime.errors import ConfigError, PocketMQError
from pocketmq.testing import Cluster
from support.eventually import eventually

RULES = """
[[faults]]
do = "fail"
code = "GET_ROUTEINFO_BY_TOPIC"
with_code = "SYSTEM_ERROR"
nth = 1
"""


async def test_a_proxy_applies_rules_and_passes_the_rest(pocketmq: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "faults.toml"
    path.write_text(RULES)
    book = RuleBook("proxy", lambda: 0)
    book.replace(read_rules(path), {})
    topic = await pocketmq.create_topic("orders")
    async with (
        FaultProxy("127.0.0.1", 0, pocketmq.nameservers, book) as proxy,
        Producer("p", nameservers=proxy.address) as producer,
    ):
        with pytest.raises(PocketMQError):
            await producer.send(Message(topic, b"x"))
        await eventually(lambda: book.fired == 1, "the rule fired")
        assert (await producer.send(Message(topic, b"x" * 100_000))).queue.topic == topic
    assert [each.topic for each in book.firings] == [topic]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (FaultRule(do="disk-full", id="r1"), "r1: fault-proxy has no disk"),
        (FaultRule(do="drop", role="broker-a", id="r2"), "r2: fault-proxy has no role broker-a"),
        (
            FaultRule(do="partition", role="proxy", other="nameserver-1"),
            'has no role nameserver-1; .* can only be "proxy" or "clients"',
        ),
    ],
)
async def test_a_rule_that_a_proxy_could_never_meet_is_refused(rule: FaultRule, said: str) -> None:
    with pytest.raises(WrongFaultError, match=said):
        await run_proxy("127.0.0.1:1", "127.0.0.1:0", [rule])
    check_reachable([FaultRule(do="partition", role="proxy", other="clients")])


def test_a_process_that_knows_rules_alone_reads_what_a_request_is_about() -> None:
    # The command `fault-proxy` imports nothing else; its rules by topic or group met no request.
    program = (
        "from pocketmq.operation.faults.rule_book import RuleBook\n"
        "from pocketmq.protocol.header import REQUEST_HEADERS\n"
        "print(sorted({10, 11, 310} - REQUEST_HEADERS.keys()))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert found.stdout.strip() == b"[]"


async def test_a_process_that_is_gone_ends_the_connection(pocketmq: Cluster) -> None:
    book = RuleBook("proxy", lambda: 0)
    async with (
        FaultProxy("127.0.0.1", 0, "127.0.0.1:1", book) as proxy,
        Producer("p", nameservers=proxy.address) as producer,
    ):
        with pytest.raises(PocketMQError):
            await producer.send(Message("orders", b"x"))


@pytest.mark.parametrize(
    "text", ["[[faults]]\ndo = 'burn'", "[[faults]]\ndo = 'delay'", "[[", "[[fault]]\n"]
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "faults.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"faults\.toml"):
        read_rules(path)
    with pytest.raises(ConfigError, match=r"none\.toml"):
        read_rules(tmp_path / "none.toml")
