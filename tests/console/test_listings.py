"""Each command that lists: `-o json` is JSON, and a pipe gets neither boxes nor colour."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from pocketmq.client import Message
from pocketmq.cluster.cli.main import make_app
from pocketmq.testing import Cluster
from support.console import Console

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

LISTING_WORDS = {"list", "show", "stats", "route", "get", "explain", "ps", "connections", "tail"}
"""Last words of commands that list something, whoever adds them."""


def commands(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every command, with its name after `pocketmq`."""
    if not hasattr(command, "commands"):
        yield name, command
        return
    for word, below in command.commands.items():
        yield from commands(below, f"{name} {word}".strip())


COMMANDS = dict(commands(typer.main.get_command(make_app())))


def test_every_command_that_lists_takes_an_output() -> None:
    for name, command in COMMANDS.items():
        lists = name in LISTINGS or name.rpartition(" ")[2] in LISTING_WORDS
        takes = any("-o" in parameter.opts for parameter in command.params)
        assert takes or not lists, f"{name} has no -o; see pocketmq/cluster/cli/output.py"


@pytest.fixture
def facts(pocketmq: Cluster, console: Console) -> dict[str, str]:
    """A topic with a message, a group that consumed it, and one with dead letters."""
    topic, group = pocketmq.sync.create_topic("orders", queues=1), pocketmq.group_name("billing")
    dead = pocketmq.group_name("dead")
    console("topic", "create", f"%DLQ%{dead}", "--queues", "1")
    assert console("send", f"%DLQ%{dead}", "a letter").status == 0
    with pocketmq.sync.producer() as producer, pocketmq.sync.consumer(group, topic) as billing:
        producer.send(Message(topic, b"hello", keys="k"))
        billing.receive()
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
    if command in ("send", "consume", "message tail", "group explain"):
        return  # a line as long as its message, or sentences
    assert all(len(line) <= 80 for line in console(*words, "-o", "table").out.splitlines())
