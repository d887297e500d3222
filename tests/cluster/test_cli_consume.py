"""`pocketmq consume` says what it waits for, once, and again when that changes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pocketmq.client import Message, Producer
from pocketmq.cluster.cli.messages.route_watch import RouteWatch
from pocketmq.protocol.errors import NoNameServerError
from support.cluster import running
from support.eventually import PATIENCE_MS

NO_ROUTE = (
    "no route for topic orders yet at a:1, b:2; waiting; "
    "create it with `pocketmq topic create orders`, or start its broker"
)
NOBODY = "no nameserver answers at a:1, b:2; waiting until one does"


def test_news_come_once_and_again_when_they_change() -> None:
    watch = RouteWatch("orders", ["a:1", "b:2"])
    assert watch.found(["broker-a"]) is None, "nothing to wait for"
    assert [watch.found([]), watch.found([])] == [NO_ROUTE, None]
    assert watch.found(["broker-a"]) == "topic orders now has queues on broker-a"
    assert watch.found(["broker-a"]) is None
    assert [watch.failed(NoNameServerError()), watch.failed(NoNameServerError())] == [NOBODY, None]
    assert watch.found([]) == NO_ROUTE


@contextmanager
def consuming(
    topic: str, nameservers: str, *, count: int | None = 1
) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "pocketmq.cluster.cli.main", "consume", topic]
    if count is not None:
        command += ["--count", str(count)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"NAMESRV_ADDR": nameservers},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def next_error(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.readline().removeprefix("pocketmq consume: ")


@pytest.mark.cluster
async def test_it_ends_quietly_when_its_reader_has_enough(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        await cluster.create_topic("orders")
        async with Producer(
            "p", nameservers=cluster.nameservers, send_timeout_ms=PATIENCE_MS
        ) as producer:
            for number in range(3):
                await producer.send(Message("orders", b"%d" % number))
            with consuming("orders", cluster.nameservers, count=None) as consumer:  # | head -1
                assert consumer.stdout is not None
                consumer.stdout.readline()
                consumer.stdout.close()
                await producer.send(Message("orders", b"one too many"))
                assert consumer.wait(timeout=100) == 0
                assert consumer.stderr is not None
                assert consumer.stderr.read() == ""


@pytest.mark.cluster
async def test_it_waits_for_a_topic_and_for_its_cluster_and_then_consumes(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        with consuming("late", cluster.nameservers) as consumer:
            assert next_error(consumer).startswith("no route for topic late yet at 127.0.0.1:")
            await cluster.create_topic("late")
            assert next_error(consumer) == "topic late now has queues on broker-a\n"
            for server in (cluster.broker("a"), cluster.nameserver(1)):
                await server.kill()
            lost = {next_error(consumer).split(" ", 2)[1]}
            if lost == {"route"}:  # it looked between the two
                lost = {next_error(consumer).split(" ", 2)[1]}
            assert lost == {"nameserver"}
            for server in (cluster.nameserver(1), cluster.broker("a")):
                await cluster.restart(server)
            while (news := next_error(consumer)).startswith("no route"):
                pass
            assert news == "topic late now has queues on broker-a\n"
            async with Producer(
                "p", nameservers=cluster.nameservers, send_timeout_ms=PATIENCE_MS
            ) as producer:
                await producer.send(Message("late", b"at last"))
            assert consumer.stdout is not None
            assert consumer.stdout.readline().endswith(": at last\n")
            assert consumer.wait(timeout=100) == 0


@pytest.mark.cluster
async def test_a_count_is_done_to_the_last_message(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        await cluster.create_topic("orders", queues=1)
        async with Producer(
            "p", nameservers=cluster.nameservers, send_timeout_ms=PATIENCE_MS
        ) as producer:
            for number in range(4):
                await producer.send(Message("orders", b"%d" % number))
        said = []
        for _ in range(2):
            with consuming("orders", cluster.nameservers, count=2) as consumer:
                assert consumer.stdout is not None
                said += [consumer.stdout.readline().rsplit(" ", 1)[1] for _ in range(2)]
                assert await asyncio.to_thread(consumer.wait) == 0
        assert said == ["0\n", "1\n", "2\n", "3\n"]
