"""`pocketmq message`: tail, show, export, import and resend against a running cluster."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pocketmq.client import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
)
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.testing import Cluster
from support.console import Console
from support.eventually import PATIENCE_MS, PATIENCE_S, eventually


@pytest.fixture
def orders(pocketmq: Cluster) -> str:
    """A topic of two queues with five messages: 0, 2 and 4 in the first, 1 and 3 in the second."""
    topic = pocketmq.sync.create_topic("orders", queues=2)
    queues = {0: 0, 1: 1, 2: 0, 3: 1, 4: 0}

    async def send() -> None:
        async with Producer(
            "shop", nameservers=pocketmq.nameservers, send_timeout_ms=PATIENCE_MS
        ) as producer:
            found = await producer.publish_queues(topic)
            for number, queue in queues.items():
                message = Message(
                    topic,
                    b'{"order": %d}' % number if number < 4 else b"\xff\x00",
                    tags="new" if number % 2 else "changed",
                    keys=f"k{number}",
                    properties={"colour": "blue"},
                )
                await producer.send(message, queue=found[queue])

    asyncio.run(send())
    return topic


def keys(out: str) -> list[str]:
    return out.split()


@pytest.fixture
def behind_utc() -> Iterator[None]:
    """Local time is five hours behind UTC: what is printed as UTC would be in the future."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "EST5")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("behind_utc")
def test_a_time_that_is_printed_can_be_typed(console: Console, orders: str) -> None:
    shown = console("message", "show", orders, "broker-a/0", "1").rows
    [stored] = [row[2] for row in shown if row[:2] == ["field", "stored"]]
    tail = ("message", "tail", orders, "--queue", "broker-a/0", "-f", r"%k\n", "--no-follow")
    assert "k2" in keys(console(*tail, "--from", stored).out)
    assert "k2" not in keys(console(*tail, "--from", "start", "--until", stored).out)


def test_tail_reads_ranges_and_tags_in_a_format(console: Console, orders: str) -> None:
    tail = ("message", "tail", orders, "--no-follow", "-f", r"%k\n")
    assert console(*tail).out == "", "without --from it begins with what comes next"
    assert sorted(keys(console(*tail, "--from", "start").out)) == ["k0", "k1", "k2", "k3", "k4"]
    assert keys(console(*tail, "--from", "-1").out) == ["k4", "k3"], "the last one of each queue"
    first = ("--queue", "broker-a/0")
    assert keys(console(*tail, *first, "--from", "1").out) == ["k2", "k4"]
    assert keys(console(*tail, *first, "--from", "0", "--count", "2").out) == ["k0", "k2"]
    assert keys(console(*tail, "--from", "start", "--tags", "new").out) == ["k1", "k3"]
    assert keys(console(*tail, *first, "--from", "1h-ago").out) == ["k0", "k2", "k4"]
    assert keys(console(*tail, *first, "--from", "2999-01-01").out) == []


def test_tail_ends_where_it_is_told_to(console: Console, orders: str) -> None:
    def offsets(*options: str) -> list[str]:
        told = console(
            "message", "tail", orders, "--queue", "broker-a/0", *options, "-f", "%o %T\n"
        )
        return [line.split()[0] for line in told.out.splitlines()]

    everything = offsets("--from", "start", "--no-follow")
    assert offsets("--from", "0", "--until", "1") == everything[:1]
    assert offsets("--from", "1h-ago", "--until", "end") == everything
    assert offsets("--from", "start", "--until", "2020-01-01T00:00Z") == []


def test_tail_prints_lines_or_json(console: Console, orders: str) -> None:
    tail = ("message", "tail", orders, "--no-follow", "--queue", "broker-a/1", "--from", "start")
    assert console(*tail).out.splitlines() == [
        'broker-a/1 offset 0 tag=new key=k1: {"order": 1}',
        'broker-a/1 offset 1 tag=new key=k3: {"order": 3}',
    ]
    told = [json.loads(line) for line in console(*tail, "-o", "json").out.splitlines()]
    assert [each["queueOffset"] for each in told] == [0, 1]
    assert (told[0]["topic"], told[0]["brokerName"], told[0]["body"]) == (
        orders, "broker-a", '{"order": 1}',
    )  # fmt: skip
    assert told[0]["properties"]["colour"] == "blue"


def test_tail_follows_without_a_group(pocketmq: Cluster, console: Console, orders: str) -> None:
    before = console("group", "list", "--all").out
    has_two = threading.Event()
    sent = threading.Thread(target=_send_until, args=(has_two, pocketmq, orders))
    sent.start()
    try:
        said = console("message", "tail", orders, "--count", "2", "-f", r"%s\n")
    finally:
        has_two.set()
        sent.join()
    assert said.status == 0
    assert set(said.out.split()) <= {f"later-{number}" for number in range(100_000)}
    assert len(said.out.split()) == 2
    assert console("group", "list", "--all").out == before, "no group was created"
    assert "pocketmq" not in console("connections", "-o", "json").out.replace(
        "pocketmq-send", ""
    ), "nobody has joined"


def _send_until(has_two: threading.Event, pocketmq: Cluster, topic: str) -> None:
    """Goes on until the tail has two of them: it begins with what comes after its start."""
    with pocketmq.sync.producer() as producer:
        for number in range(100_000):
            producer.send(Message(topic, b"later-%d" % number))
            if has_two.wait(0.05):
                break


@pytest.mark.parametrize("waiting", [True, False])
@pytest.mark.parametrize("words", ["message tail {} --from start", "consume {} --group g-{}"])
def test_a_command_ends_quietly_when_its_reader_has_enough(
    pocketmq: Cluster, orders: str, words: str, waiting: bool
) -> None:
    command = [sys.executable, "-m", "pocketmq.cluster.cli.main"]
    command += words.format(orders, f"{orders}-{waiting}").split()
    command += ["-n", pocketmq.nameservers]
    with (
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as tail,
        pocketmq.sync.producer() as producer,
    ):
        assert tail.stdout is not None
        assert tail.stderr is not None
        assert "key=k" in (tail.stdout.readline() or f"nothing: {tail.stderr.read()}")
        if not waiting:
            producer.send(Message(orders, b"one too many"))
        tail.stdout.close()  # ... | head -1, also while nothing comes any more
        assert tail.wait(timeout=200) == 0
        assert tail.stderr.read() == ""


def test_what_tail_cannot_do_is_one_line(pocketmq: Cluster, console: Console, orders: str) -> None:
    assert "no name server knows a route" in console("message", "tail", "nowhere").error
    assert (
        "its queues are broker-a/0, broker-a/1"
        in console("message", "tail", orders, "--queue", "broker-a/7").error
    )
    assert (
        "give -f or -o, not both"
        in console("message", "tail", orders, "-f", "%s", "-o", "json").error
    )
    assert (
        "'%q' at character 1 means nothing" in console("message", "tail", orders, "-f", "%q").error
    )


def test_show_finds_a_message_by_each_of_its_names(console: Console, orders: str) -> None:
    place = (orders, "broker-a/0", "1")
    by_place = console("message", "show", *place, "-o", "json").json
    assert (by_place["body"], by_place["queueOffset"]) == ('{"order": 2}', 1)
    by_unique_id = console("message", "show", by_place["msgId"], "-o", "json").json
    by_offset_id = console("message", "show", by_place["offsetMsgId"], "-o", "json").json
    assert by_place == by_unique_id == by_offset_id
    assert parse_offset_msg_id(by_place["offsetMsgId"])[2] == by_place["commitLogOffset"]
    assert console("message", "show", *place, "-f", "%k").out == "k2"

    shown = console("message", "show", *place)
    assert ["field", "queue", "broker-a/0"] in shown.rows
    assert ["property", "colour", "blue"] in shown.rows
    assert shown.out.endswith('\n{\n  "order": 2\n}\n'), "JSON is indented"
    assert console("message", "show", *place, "--body", "text").out.endswith('\n{"order": 2}\n')
    assert "00000000  ff 00 " in console("message", "show", orders, "broker-a/0", "2").out


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("7F" * 16,), "no message '7F"),
        (("nothing",), "no message 'nothing' in any topic"),
        (("{orders}", "broker-a/0", "99"), "no message at offset 99 of"),
        (("{orders}", "broker-a", "0"), "'broker-a' names no queue; write broker-a/0"),
        (("{orders}", "broker-a/0", "x"), "'x' is not an offset"),
        (("{orders}", "broker-a/0"), "name one message by its id, or by topic, queue and"),
        (("{orders}", "broker-z/0", "0"), "broker 'broker-z' has no known address"),
    ],
)
def test_a_message_that_is_not_there_is_one_line(
    console: Console, orders: str, words: tuple[str, ...], error: str
) -> None:
    found = console("message", "show", *(word.format(orders=orders) for word in words))
    assert error in found.error


def test_what_was_exported_is_imported_with_ids_and_properties(
    pocketmq: Cluster, console: Console, orders: str, tmp_path: Path
) -> None:
    file, copy = tmp_path / "orders.jsonl", pocketmq.sync.create_topic("copy", queues=2)
    assert console("message", "export", orders, "--to", str(file)).out == (
        f"5 messages of {orders} written to {file}\n"
    )
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [each["properties"]["KEYS"] for each in lines] == ["k0", "k2", "k4", "k1", "k3"]
    assert lines[2]["bodyBase64"] == "/wA="
    assert all(each["storeTimestamp"] >= each["bornTimestamp"] > 0 for each in lines)

    planned = console("message", "import", str(file), "--topic", copy, "--dry-run")
    assert planned.out == f"5 messages would go to {copy}\n"
    assert console("topic", "stats", copy, "-o", "json").json["messages"] == 0
    done = console("message", "import", str(file), "--topic", copy)
    assert done.out == f"5 messages sent to {copy}\n"
    back = console("message", "export", copy, "--bodies", "base64").out.splitlines()
    copies = {told["properties"]["KEYS"]: told for told in map(json.loads, back)}
    assert len(copies) == 5
    for each in lines:
        twin = copies[each["properties"]["KEYS"]]
        assert (
            twin["properties"].items()
            >= {
                name: each["properties"][name] for name in ("KEYS", "TAGS", "UNIQ_KEY", "colour")
            }.items()
        )
        assert "bodyBase64" in twin
    assert copies["k4"]["bodyBase64"] == "/wA="
    # Those of one queue are in one queue again, in their order.
    first = [copies[key] for key in ("k0", "k2", "k4")]
    assert len({each["queueId"] for each in first}) == 1
    assert sorted(first, key=lambda each: each["queueOffset"]) == first


def test_an_export_takes_ranges(console: Console, orders: str) -> None:
    export = ("message", "export", orders, "--queue", "broker-a/0")
    found = console(*export, "--from", "1", "--until", "2").out
    assert json.loads(found)["properties"]["KEYS"] == "k2"
    assert console(*export, "--until", "start").out == ""
    assert len(console(*export, "--from", "-2").out.splitlines()) == 2


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("no json", "it is no JSON"),
        ("[]", "it is no JSON object"),
        ('{"body": "x"}', 'it has no "topic"'),
        ('{"topic": "t"}', 'it has neither "body" nor "bodyBase64"'),
        ('{"topic": "t", "bodyBase64": "?"}', '"bodyBase64" is no base64'),
        ('{"topic": "t", "body": ""}', "the body is empty"),
        ('{"topic": "a/b", "body": "x"}', "topic 'a/b' has an illegal character"),
        ('{"topic": "t", "body": "x", "properties": {"a": 1}}', '"properties" is no object'),
    ],
)
def test_a_broken_line_is_named_and_nothing_is_sent(
    pocketmq: Cluster, console: Console, tmp_path: Path, line: str, problem: str
) -> None:
    topic = pocketmq.sync.create_topic("t")
    file = tmp_path / "in.jsonl"
    file.write_text(json.dumps({"topic": topic, "body": "x"}) + f"\n\n{line}\n")
    error = console("message", "import", str(file)).error
    assert error.startswith(f"{file} line 3: ")
    assert problem in error
    assert console("topic", "stats", topic, "-o", "json").json["messages"] == 0


def test_a_file_that_cannot_be_read_is_one_line(console: Console, tmp_path: Path) -> None:
    missing = console("message", "import", str(tmp_path / "none")).error
    assert missing.endswith("No such file or directory; name another file")
    folder = console("message", "export", "t", "--to", str(tmp_path)).error
    assert "no name server knows a route" in folder


def give_up(
    _messages: list[MessageExt], context: ConsumeConcurrentlyContext
) -> ConsumeConcurrentlyStatus:
    """Each message goes to the dead letter topic at once."""
    context.delay_level_when_next_consume = -1
    return ConsumeConcurrentlyStatus.RECONSUME_LATER


async def _let_die(pocketmq: Cluster, topic: str, group: str, count: int) -> None:
    consumer = PushConsumer(group, nameservers=pocketmq.nameservers)
    consumer.subscribe(topic)
    consumer.listen_batch(give_up)
    async with (
        consumer,
        Producer("shop", nameservers=pocketmq.nameservers, send_timeout_ms=PATIENCE_MS) as producer,
    ):
        await pocketmq.group(group).assigned(limit_s=PATIENCE_S)
        for number in range(count):
            await producer.send(Message(topic, b"%d" % number, keys=f"k{number}"))
        await pocketmq.group(group).consumed_all(limit_s=PATIENCE_S)

        async def dead() -> bool:
            state = await pocketmq.group(group).state()
            return not state.missing_messages()

        await eventually(dead, "all are given up")


def test_dead_letters_are_sent_to_their_topic_again(pocketmq: Cluster, console: Console) -> None:

    topic, group = pocketmq.sync.create_topic("orders"), pocketmq.group_name("billing")
    asyncio.run(_let_die(pocketmq, topic, group, 3))
    dlq = f"%DLQ%{group}"
    letters = [json.loads(line) for line in console("message", "export", dlq).out.splitlines()]
    assert sorted(each["body"] for each in letters) == ["0", "1", "2"]
    planned = console("message", "resend", group, "--dry-run", "-o", "json").json
    assert [each["sentTo"] for each in planned] == [None] * 3
    assert console("topic", "stats", topic, "-o", "json").json["messages"] == 3

    wanted = letters[0]
    one = console("message", "resend", group, "--id", wanted["msgId"], "-o", "json").json
    assert [(each["messageId"], each["topic"]) for each in one] == [(wanted["msgId"], topic)]
    broker, queue, offset = one[0]["sentTo"].replace("/", " ").split()
    again = console("message", "show", topic, f"{broker}/{queue}", offset, "-o", "json").json
    assert again["body"] == wanted["body"]
    assert again["reconsumeTimes"] == 0
    assert again["properties"]["ORIGIN_MESSAGE_ID"] == wanted["properties"]["ORIGIN_MESSAGE_ID"]
    assert again["properties"]["KEYS"] == wanted["properties"]["KEYS"]
    assert "RETRY_TOPIC" not in again["properties"]

    ranged = console("message", "resend", group, "--from", "1", "--until", "2", "-o", "json").json
    assert [each["deadLetter"] for each in ranged] == ["broker-a/0 1"]
    assert len(console("message", "resend", group, "--count", "2").rows) == 2
    assert console("topic", "stats", topic, "-o", "json").json["messages"] == 3 + 1 + 1 + 2
    other = pocketmq.sync.create_topic("again")
    assert len(console("message", "resend", group, "--to", other).rows) == 3
    assert console("topic", "stats", other, "-o", "json").json["messages"] == 3
    assert "no dead letter of" in console("message", "resend", group, "--id", "7F").error
    assert (
        "has no dead letters, because topic %DLQ%nobody does not exist"
        in console("message", "resend", "nobody").error
    )


def test_a_seeded_dead_letter_goes_to_its_origin_with_its_properties(
    pocketmq: Cluster, console: Console, tmp_path: Path
) -> None:
    topic, group = pocketmq.topic_name("seeded"), pocketmq.group_name("billing")
    (tmp_path / "seed.toml").write_text(
        f'[[topics]]\nname = "{topic}"\nqueues = 1\n[[messages]]\ntopic = "%DLQ%{group}"\n'
        f'body = "letter"\norigin = "{topic}"\nproperties = {{ colour = "blue" }}\n'
        f'[[offsets]]\ngroup = "{group}"\ntopic = "{topic}"\noffset = "end"\n'
    )
    said = console("seed", str(tmp_path / "seed.toml"), "--control", pocketmq.control_url)
    assert said.out == "1 topic, 1 message, 1 group, 1 offset\n"
    assert console("message", "resend", group).status == 0
    shown = console("message", "tail", topic, "--from", "start", "--no-follow", "-f", "%s %h").out
    assert shown.startswith("letter ")
    assert "colour=blue" in shown


def test_an_exported_file_is_no_seed_and_the_error_tells_what_it_is_for(
    pocketmq: Cluster, console: Console, orders: str, tmp_path: Path
) -> None:
    file = tmp_path / "orders.jsonl"
    assert console("message", "export", orders, "--to", str(file)).status == 0
    said = console("seed", str(file), "--control", pocketmq.control_url)
    assert "`pocketmq message import`" in said.error
