"""The walks of docs/walks.md: each step's function is called, in that order."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pocketmq.client import Message, PushConsumer
from support.calls import Call, recorded_calls
from support.eventually import eventually
from support.memory_cluster import memory_cluster

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "walks.md"
WALKS = ("one message, from send to consume", "a consumer dies")
LATER = re.compile(r"the shortest of \d+ more: (\d+) calls in (\d+) files, (\d+) switches")
TOLD = re.compile(
    r"A later message made (\d+) calls in (\d+) files\.[^.]*\sswitched\s(\d+)\stimes\b"
)
STEP = re.compile(r"^\d+\. \[([^]]+)\]\(\.\./[^)]+\) `([\w.]+)` ")


def steps(walk: str) -> list[Call]:
    """The numbered steps below a heading."""
    section = PAGE.read_text(encoding="utf-8").split(f"## Walk: {walk}\n")[1].split("\n## ")[0]
    found = (STEP.match(line) for line in section.splitlines())
    return [Call(match[1], match[2]) for match in found if match]


def assert_in_order(walk: str, calls: Iterator[Call]) -> None:
    """The steps are called one after the other, whatever is called between them."""
    for number, step in enumerate(steps(walk), 1):
        assert any(call == step for call in calls), (
            f"step {number} of the walk in docs/walks.md, {step.path} {step.name}, was not"
            " called after the step before: mend the page (or the order in the code)"
        )


@pytest.mark.parametrize("walk", WALKS)
def test_each_function_on_the_way_says_what_it_does(walk: str) -> None:
    for step in steps(walk):
        [path] = PAGE.parents[1].glob(f"{step.path.split('/')[0]}/pocketmq/{step.path}")
        node: ast.AST = ast.parse(path.read_text(encoding="utf-8"))
        for name in step.name.split("."):
            node = next(each for each in ast.iter_child_nodes(node) if _name(each) == name)
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        assert ast.get_docstring(node), (
            f"{step.path}: docs/walks.md leads readers to {step.name}: give it a docstring"
        )


def _name(node: ast.AST) -> str | None:
    return getattr(node, "name", None)


def queues_of(consumer: PushConsumer) -> int:
    return sum(queue.topic == "T" for queue in consumer.assignment)


@pytest.mark.asyncio
async def test_one_message_goes_the_way_that_the_page_says(tmp_path: Path) -> None:
    received: list[object] = []
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        consumer = cluster.consumer("G")
        consumer.subscribe("T", "new")
        consumer.listen(received.append)
        async with consumer, cluster.producer() as producer:
            await cluster.until(lambda: queues_of(consumer) == 1, "the queue is assigned")
            await cluster.advance(2)
            await eventually(lambda: len(cluster.brokers["a"].held) >= 2, "both pulls are held")
            with recorded_calls() as calls:
                # The send has something to wait for: the table of topics is being saved.
                cluster.brokers["a"].subjects.topics.saved.changed()
                await producer.send(Message("T", b"hello", tags="new"))
                await eventually(lambda: received, "the listener was called")
                await eventually(
                    lambda: 1 in consumer.offsets_in_memory("T").values(), "it is consumed"
                )
                await cluster.advance(12)
    assert len(steps(WALKS[0])) > 30
    assert_in_order(WALKS[0], iter(calls))


@pytest.mark.slow
def test_the_way_of_one_message_is_as_long_as_the_page_says() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "message_way.py"],
        capture_output=True,
        text=True,
        check=True,
    )
    counted, told = LATER.search(done.stdout), TOLD.search(PAGE.read_text(encoding="utf-8"))
    assert counted
    assert told
    pairs = zip(map(int, counted.groups()), map(int, told.groups()), strict=True)
    assert all(now <= then for now, then in pairs), (
        f"{counted[0]}, and docs/walks.md says {told[0]}: see what"
        " `scripts/message_way.py --calls` has that it had not, and tell it on the page"
    )


@pytest.mark.asyncio
async def test_a_dead_consumers_queues_go_the_way_that_the_page_says(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=4)
        survivor, victim = cluster.consumer("G"), cluster.consumer("G")
        for consumer in (survivor, victim):
            consumer.subscribe("T")
            consumer.listen(lambda message: None)
        async with survivor, victim:
            await cluster.until(lambda: queues_of(survivor) == queues_of(victim) == 2, "they share")
            await cluster.advance(2)  # a rebalance comes 1 s after the last one at the earliest
            members = cluster.brokers["a"].consumers.get("G")
            assert members is not None
            (channel,) = (
                channel
                for channel, info in members.members.items()
                if info.client_id == victim.client_id
            )
            with recorded_calls() as calls:
                channel.abort()
                await cluster.until(lambda: queues_of(survivor) == 4, "the survivor has them all")
                await cluster.advance(0.6)
    assert len(steps(WALKS[1])) > 20
    assert_in_order(WALKS[1], iter(calls))
