"""`pocketmq group`: a running group as the cluster sees it, and allocations that nobody has."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pocketmq.client import ConsumeFromWhere, Message, MessageExt, Producer, PushConsumer
from pocketmq.cluster.cli.main import main
from pocketmq.cluster.group_view import look_at
from support.cluster import running
from support.eventually import PATIENCE_MS, eventually

POCKETMQ = [sys.executable, "-m", "pocketmq.cluster.cli.main"]


def pocketmq(*arguments: str, nameservers: str = "127.0.0.1:1") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*POCKETMQ, *arguments],
        capture_output=True, text=True, timeout=200, check=False,
        env=os.environ | {"NAMESRV_ADDR": nameservers},
    )  # fmt: skip


@pytest.mark.cluster
async def test_show_tells_members_subscriptions_offsets_lag_and_owners(tmp_path: Path) -> None:
    consumed: list[bytes] = []

    async def consume(message: MessageExt) -> None:
        consumed.append(message.body)

    def member(name: str, nameservers: str) -> PushConsumer:
        consumer = PushConsumer(
            "billing",
            nameservers=nameservers,
            instance_name=name,
            consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        )
        consumer.subscribe("orders", "new || changed")
        consumer.listen(consume)
        return consumer

    async with running(tmp_path, brokers=2) as cluster:
        await cluster.create_topic("orders", queues=2)
        where = cluster.nameservers
        one, two = member("one", where), member("two", where)
        async with (
            Producer("p", nameservers=where, send_timeout_ms=PATIENCE_MS) as producer,
            cluster.admin() as admin,
        ):
            async with one, two:
                await eventually(
                    lambda: [len(_orders(each)) for each in (one, two)] == [2, 2], "both share"
                )
                for number in range(8):
                    await producer.send(Message("orders", b"%d" % number, tags="new"))
                await eventually(lambda: len(consumed) == 8, "all is consumed")
                view = await look_at(admin, "billing")
                shown = await asyncio.to_thread(pocketmq, "group", "show", "billing", "-n", where)
            # Both have left: their progress stays, and more messages come.
            await producer.send(Message("orders", b"x", tags="new"))
            listed = await asyncio.to_thread(pocketmq, "group", "list", nameservers=where)
            left = await asyncio.to_thread(
                pocketmq, "group", "show", "billing", "-o", "json", nameservers=where
            )
            strange = await asyncio.to_thread(
                pocketmq, "group", "show", "nobody", nameservers=where
            )
            simulated = await asyncio.to_thread(
                pocketmq, "group", "simulate", "orders", "--clients", "2", nameservers=where
            )
            unknown = await asyncio.to_thread(
                pocketmq, "group", "simulate", "nowhere", nameservers=where
            )

    assert view.message_model == "CLUSTERING"
    assert [each.client_id.partition("@")[2] for each in view.members] == ["one", "two"]
    assert all(each.brokers == ("broker-a", "broker-b") and each.answers for each in view.members)
    assert all(each.language == "PYTHON" and each.version > 0 for each in view.members)
    assert {each.topic: each.expression for each in view.subscriptions} == {
        "%RETRY%billing": "*", "orders": "new || changed",
    }  # fmt: skip
    queues = [each for each in view.queues if each.topic == "orders"]
    assert [(each.broker, each.queue) for each in queues] == [
        ("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-b", 1),
    ]  # fmt: skip
    assert [len(each.owners) for each in queues] == [1, 1, 1, 1]
    assert sum(each.broker_offset for each in queues) == 8
    assert re.search(r"queue\torders\tbroker-b/1\t\d+\t\d*\t\d+\t\S+@two\n", shown.stdout)

    assert listed.stdout == "billing\n", "and no built-in group"
    after = json.loads(left.stdout)
    assert (after["group"], after["members"], after["lag"]) == ("billing", [], 1)
    assert [queue["owners"] for queue in after["queues"]] == [[]] * len(after["queues"])

    assert strange.returncode == 1
    assert strange.stderr == (
        "pocketmq: no broker knows group 'nobody': it has no member and no offset; "
        "see `pocketmq group list`\n"
    )
    assert "-> broker-a/0 broker-a/1\n" in simulated.stdout
    assert "-> broker-b/0 broker-b/1\n" in simulated.stdout
    assert unknown.returncode == 1
    assert unknown.stderr.startswith("pocketmq: topic 'nowhere': no name server knows a route")


def _orders(consumer: PushConsumer) -> list[int]:
    return [queue.queue_id for queue in consumer.assignment if queue.topic == "orders"]


@pytest.mark.cluster
@pytest.mark.parametrize("profile", ["4.9", "5.x"])
async def test_reset_moves_a_group_that_runs_and_one_that_does_not(
    tmp_path: Path, profile: str
) -> None:  # C-70
    consumed: list[bytes] = []

    async def consume(message: MessageExt) -> None:
        consumed.append(message.body)

    async with running(tmp_path, "--profile", profile, clock="manual") as cluster:
        await cluster.create_topic("orders", queues=1)
        where = cluster.nameservers

        async def reset(*to: str) -> str:
            found = await asyncio.to_thread(
                pocketmq, "group", "reset", "billing", "orders", *to, nameservers=where
            )
            assert (found.returncode, found.stderr) == (0, "")
            return found.stdout

        async with (
            Producer("p", nameservers=where, send_timeout_ms=PATIENCE_MS) as producer,
            cluster.admin() as admin,
        ):
            consumer = PushConsumer(
                "billing", nameservers=where, consume_from_where=ConsumeFromWhere.FIRST_OFFSET
            )
            consumer.subscribe("orders")
            consumer.listen(consume)
            async with consumer:
                for number in range(3):
                    await producer.send(Message("orders", b"%d" % number))
                await cluster.advance(seconds=90)  # and the member is not expired (120 s)
                for number in range(3, 5):
                    await producer.send(Message("orders", b"%d" % number))
                await eventually(lambda: len(consumed) == 5, "all is consumed")
                await consumer.persist_offsets()
                assert await reset("--ago", "10s", "--dry-run") == (
                    "broker-a/0 5 -> 3  2 come again\nnothing was changed\n"
                )
                assert await reset("--ago", "10s") == "broker-a/0 5 -> 3  2 come again\n"
                await cluster.advance(seconds=20)  # 5.x tells the next pull; this one is held 15 s
                await eventually(lambda: consumed[5:] == [b"3", b"4"], "two came again")
                await consumer.persist_offsets()
            assert await reset("--to", "start") == "broker-a/0 5 -> 0  5 come again\n"
            assert await reset("--to", "end") == "broker-a/0 0 -> 5  5 are skipped\n"
            assert await reset("--to", "2013-06-01T08:00Z") == "broker-a/0 5 -> 0  5 come again\n"
            assert await reset("--to", "start") == "broker-a/0 0 -> 0  unchanged\n"
            [queue] = await admin.subscribe_queues("orders")
            assert await admin.consumer_offset("billing", queue) == 0
            unknown = await asyncio.to_thread(
                pocketmq, "group", "reset", "nobody", "orders", "--to", "end", nameservers=where
            )
    assert unknown.returncode == 1
    assert "no broker knows group 'nobody'" in unknown.stderr
    assert len(unknown.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give exactly one of --to start, --to end, --to TIME and --ago DURATION"),
        (["--to", "end", "--ago", "1m"], "give exactly one of "),
        (
            ["--to", "soon"],
            "'soon' is not a time; write start, end, or a time like 2026-11-22T09:30",
        ),
        (["--ago", "soon"], "'soon' is not a duration; write"),
    ],
)
def test_reset_says_what_it_needs(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["group", "reset", "billing", "orders", *options]) == 1
    error = capsys.readouterr().err
    assert error.splitlines()[-1].startswith(f"pocketmq: {message}")


def simulate(*arguments: str) -> int:
    """The command in this process; what it prints is for `capsys`."""
    return main(["group", "simulate", *arguments])


def test_simulate_shows_each_step_without_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("any", "--queues", "4", "--clients", "3") == 0
    assert capsys.readouterr().out.splitlines() == [
        "any with AVG: 4 queues for 3 members",
        "1. All members sort the queues by broker and number (A-1):",
        "     0  broker-a/0",
        "     1  broker-a/1",
        "     2  broker-a/2",
        "     3  broker-a/3",
        "2. All members sort the client ids as text (A-1):",
        "     0  consumer-1",
        "     1  consumer-2",
        "     2  consumer-3",
        "3. Each member computes its own share:",
        "   consumer-1: AVG: 4 queues / 3 members, I am number 0: 2 from position 0",
        "      -> broker-a/0 broker-a/1",
        "   consumer-2: AVG: 4 queues / 3 members, I am number 1: 1 from position 2",
        "      -> broker-a/2",
        "   consumer-3: AVG: 4 queues / 3 members, I am number 2: 1 from position 3",
        "      -> broker-a/3",
        "   1 to 2 queues per member",
        "4. If consumer-3 left, or joined the others: 1 of 4 queues would change owner",
    ]


@pytest.mark.parametrize(
    ("strategy", "options", "expected"),
    [
        ("circle", (), ["a/0 b/0", "a/1 b/1"]),
        ("CONSISTENT_HASH", (), ["a/0 a/1", "b/0 b/1"]),
        ("machine-room", ("--rooms", "a"), ["nothing", "nothing"]),  # "a" is no room@name
        ("config", ("--fixed", "consumer-2=a/0,a/1"), ["nothing", "a/0 a/1"]),
    ],
)
def test_simulate_knows_each_strategy(
    strategy: str, options: tuple[str, ...], expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    brokers = ("--queues", "2", "--broker", "a", "--broker", "b")
    assert simulate("T", *brokers, "--clients", "2", "--strategy", strategy, *options) == 0
    assert re.findall(r"-> (.*)", capsys.readouterr().out) == expected


def test_simulate_keeps_rooms_together(capsys: pytest.CaptureFixture[str]) -> None:
    brokers = ("--queues", "2", "--broker", "east@a", "--broker", "west@b")
    rooms = ("--rooms", "east,west", "--strategy", "machine-room-nearby")
    assert simulate("t", *brokers, "--clients", "2", *rooms) == 0
    shares = re.findall(r"-> (.*)", capsys.readouterr().out)
    assert shares == ["east@a/0 east@a/1", "west@b/0 west@b/1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--strategy", "luck"], "strategy: there is no 'luck'; choose from averagely, circle, "),
        (["--strategy", "config"], "strategy: config needs each client's queues; add --fixed"),
        (["--strategy", "machine-room"], "strategy: machine-room needs rooms; add --rooms"),
        (["--strategy", "config", "--fixed", "me"], "fixed: 'me' names no queues; write"),
        (
            ["--strategy", "machine-room-nearby", "--rooms", "east"],
            "MACHINE_ROOM_NEARBY-AVG: the resolver knows no machine room for MessageQueue",
        ),
    ],
)
def test_simulate_says_what_it_needs(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulate("t", "--queues", "2", *options) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"pocketmq: {message}")
    assert len(error.splitlines()) == 1


def test_show_without_a_cluster_says_how_to_start_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["group", "show", "billing", "-n", "127.0.0.1:1"]) == 1
    assert capsys.readouterr().err.startswith(
        "pocketmq: no name server: none of 127.0.0.1:1 answers"
    )
