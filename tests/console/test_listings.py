"""Each command that lists: `-o json` is JSON, and a pipe gets neither boxes nor colour."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import ignore_patterns
from typing import Any

import pytest
import typer

from pocketmq.client import Message
from pocketmq.cluster.cli.main import make_app
from pocketmq.testing import Cluster
from support.console import Console
from support.eventually import PATIENCE_S

LISTINGS = {
    "topic list": "",
    "topic route": "{topic}",
    "topic stats": "{topic}",
    "group list": "",
    "group show": "{group}",
    "group explain": "{group}",
    "group reset": "{group} {topic} --to start --dry-run",
    "group simulate": "{topic} --clients 2",
    "message show": "{topic} broker-a/0 0",
    "message tail": "{topic} --from start --no-follow",
    "message resend": "{dead} --to {topic} --dry-run",
    "explain message": "{topic} broker-a/0 0",
    "connections": "",
    "user list": "",
    "acl list": "",
    "acl export": "",
    "cluster show": "",
    "lab list": "",
    "clock show": "",
    "config show": "broker",
    "config get": "",
    "config set": "transactionCheckMax=14",
    "ps": "--control {control}",
    "fault list": "--control {control}",
    "snapshot list": "--control {control}",
    "send": "{topic} hello",
    "consume": "{topic} --group {again} --count 1",
}
"""Command -> arguments with which it ends."""

WITHOUT_OUTPUT = {
    "nameserver", "controller", "broker", "proxy", "up", "demo", "watch", "fault-proxy"
}  # fmt: skip
"""Those that run until they are stopped; `up --ports-file` writes JSON."""

DEEDS = {
    "topic create": "{topic}-2 --queues 1",
    "topic update": "{topic}-2 --message-type FIFO",
    "group create": "made --fifo",
    "group update": "made --retry-max-times 3",
    "group delete": "made --clean-offset --yes",
    "user create": "shop --password secret",
    "acl grant": "shop Topic:orders Pub",
    "acl explain": "shop Pub Topic:orders",
    "user update": "shop --disable",
    "acl revoke": "shop",
    "user delete": "shop",
    "message export": "{topic} --to {folder}/x.jsonl",
    "message import": "{folder}/y.jsonl --dry-run",
    "store verify": "{store}",
    "store cat": "{store} --topic {topic}",
    "store rebuild": "{folder}/store",
    "topic delete": "{topic} --yes",
    "logs": "broker-a --control {control}",
    "freeze": "broker-a --control {control}",
    "thaw": "broker-a --control {control}",
    "kill": "broker-a --control {control}",
    "restart": "broker-a --control {control}",
    "seed": "{folder}/seed.toml --control {control}",
    "ready": "--control {control}",
    "partition": "broker-a others --control {control}",
    "fault add": "drop --code 10 --control {control}",
    "fault clear": "--control {control}",
    "clock run": "--control {control}",
    "clock freeze": "--control {control}",
    "clock set": "{soon_ms} --control {control}",
    "clock next": "--control {control}",
    "clock advance": "1",
    "snapshot save": "s --control {control}",
    "snapshot load": "s --control {control}",
    "wipe": "--control {control}",
    "lab start": "1 {folder}/lab",
    "lab check": "1 {folder}/lab",
}
"""Command -> arguments, of those that do something and say so; in an order in which they can."""

ELSEWHERE = {
    "doctor", "down", "failover", "reset", "store inspect",
    "pipeline audit", "pipeline export", "pipeline flights", "pipeline latency", "pipeline package",
    "pipeline rebalance", "pipeline replay", "pipeline schema", "pipeline schema-check",
    "pipeline trace",
}  # fmt: skip
"""What stops the cluster, needs replicas, or has tests with data of its own."""


def commands(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every command, with its name after `pocketmq`."""
    if not hasattr(command, "commands"):
        yield name, command
        return
    for word, below in command.commands.items():
        yield from commands(below, f"{name} {word}".strip())


COMMANDS = dict(commands(typer.main.get_command(make_app())))


def test_every_command_takes_an_output() -> None:
    for name, command in COMMANDS.items():
        takes = any("-o" in parameter.opts for parameter in command.params)
        assert takes != (name in WITHOUT_OUTPUT), f"{name}: see pocketmq/cluster/cli/output.py"


def test_every_command_that_ends_is_tried_here() -> None:
    missing = set(COMMANDS) - {*LISTINGS, *DEEDS, *ELSEWHERE, *WITHOUT_OUTPUT}
    assert not missing, "add it with its arguments to LISTINGS or DEEDS above"


def test_every_deed_is_told_as_json(
    pocketmq_clock: Cluster, console: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = pocketmq_clock.sync
    topic = cluster.create_topic("orders", queues=1)
    with cluster.producer() as producer:
        producer.send(Message(topic, b"hello", keys="k"))
    line = {"topic": topic, "body": "hello"}
    (tmp_path / "y.jsonl").write_text(json.dumps(line))
    (tmp_path / "seed.toml").write_text('[[topics]]\nname = "seeded"\n')
    store = pocketmq_clock.data / "broker-a"
    monkeypatch.setenv("NAMESRV_ADDR", pocketmq_clock.nameservers)
    told = {}
    for command, words in DEEDS.items():
        if command == "store rebuild":
            shutil.copytree(store, tmp_path / "store", ignore=ignore_patterns("lock"))
        facts = {
            "folder": tmp_path,
            "store": store,
            "control": pocketmq_clock.control_url,
            "soon_ms": pocketmq_clock.time_ms + 60_000,
        }
        said = console(*command.split(), *words.format(topic=topic, **facts).split(), "-o", "json")
        assert said.err == "", command
        told[command] = said.json
    assert told["ready"] == {"ready": True, "missing": []}
    assert told["message import"] == {"messages": {topic: 1}, "sent": False}
    assert told["store verify"][0]["records"] == 1
    assert told["store cat"]["body"] == "hello"
    assert told["partition"]["other"] == "others"
    assert told["fault clear"] == {"done": "2 fault rules cleared"}
    assert told["clock advance"]["moved"]
    assert told["clock next"]["fired"]
    assert told["snapshot save"]["name"] == "s"
    assert told["lab check"]["passed"] is False


@pytest.fixture
def facts(pocketmq: Cluster, console: Console) -> dict[str, str]:
    """A topic with a message, a group that consumed it, one with dead letters, a user."""
    topic, group = pocketmq.sync.create_topic("orders", queues=1), pocketmq.group_name("billing")
    dead = pocketmq.group_name("dead")
    console("topic", "create", f"%DLQ%{dead}", "--queues", "1")
    assert console("send", f"%DLQ%{dead}", "a letter").status == 0
    user = pocketmq.group_name("shop")
    console("user", "create", user, "--password", "secret")
    console("acl", "grant", user, f"Topic:{topic}", "Pub")
    with pocketmq.sync.producer() as producer, pocketmq.sync.consumer(group, topic) as billing:
        producer.send(Message(topic, b"hello", keys="k"))
        billing.receive(limit_s=PATIENCE_S)
    return {
        "topic": topic,
        "group": group,
        "dead": dead,
        "again": pocketmq.group_name("again"),
        "control": pocketmq.control_url,
    }


@pytest.mark.parametrize("command", LISTINGS)
def test_a_listing_is_json_and_plain_text(
    console: Console, facts: dict[str, str], command: str
) -> None:
    words = [*command.split(), *shlex.split(LISTINGS[command].format(**facts))]
    said = console(*words, "-o", "json")
    assert said.err == ""
    streams = ("message tail", "send", "consume")
    told = [json.loads(line) for line in said.out.splitlines()] if command in streams else said.json
    assert told or command in ("fault list", "snapshot list", "group explain", "connections")

    facts["again"] += "-2"
    words = [*command.split(), *shlex.split(LISTINGS[command].format(**facts))]
    for output in ((), ("-o", "table"), ("-o", "tsv")):
        if command == "consume" and output:
            continue
        plain = console(*words, *output)
        assert not re.search(r"[\x1b\u2500-\u257f]", plain.out), "neither colour nor boxes"
    if command in ("send", "consume", "message tail", "group explain", "acl export"):
        return  # a line as long as its message, or sentences
    assert all(len(line) <= 80 for line in console(*words, "-o", "table").out.splitlines())


def pocketmq_of(words: list[str], out: int, **environ: str) -> subprocess.CompletedProcess[str]:
    """The command as a process of its own, with `out` as its standard output."""
    return subprocess.run(
        [sys.executable, "-m", "pocketmq.cluster.cli.main", *words],
        stdout=out, stderr=subprocess.PIPE, text=True, check=False,
        env=os.environ | environ,
    )  # fmt: skip


def test_a_reader_that_has_enough_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)  # ... | head, that has ended
    done = pocketmq_of(["group", "simulate", "t", "--queues", "4"], writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is full")
def test_a_full_disk_is_one_line() -> None:
    with open("/dev/full", "wb") as full:
        done = pocketmq_of(["group", "simulate", "t", "--queues", "4"], full.fileno())
    assert (done.returncode, done.stderr) == (
        1, "pocketmq: cannot write: No space left on device\n",
    )  # fmt: skip


def test_no_colour_gets_into_a_pipe_even_where_it_is_forced(
    pocketmq: Cluster, tmp_path: Path
) -> None:
    with open(tmp_path / "out", "wb") as out:
        store = str(pocketmq.data / "broker-a")
        for words in (["store", "verify", store], ["lab", "list"], ["--help"]):
            assert pocketmq_of(words, out.fileno(), FORCE_COLOR="1").stderr == ""
    assert b"\x1b" not in (tmp_path / "out").read_bytes()
