"""Bodies of messages as they come, and their export: over HTTP, and on the page of a cluster."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from pocketmq.client import Message, MessageQueue
from pocketmq.cluster.messages.bodies import excerpt
from pocketmq.cluster.messages.reading import bounds_of
from pocketmq.cluster.watch_page.message_tail import (
    MAX_BODY_CHARS,
    MAX_LABEL_CHARS,
    MAX_LAST,
    MAX_MESSAGES,
    MAX_PROPERTIES,
    message_tail,
)
from pocketmq.testing import Cluster, start_cluster
from support.browser import PATIENCE_MS, Seen, chromium, fresh_complaints, seen
from support.eventually import PATIENCE_S

BINARY = bytes(range(256)) * 20
TAIL = "pocketmqWatch.tail"
KEPT = 200
BATCH = 50

NUMBERS = count()

Lines = Iterator[dict[str, Any]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with start_cluster(brokers=2) as started:
        yield started


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """One of its own for each test, of two queues on each broker."""
    name = f"orders-{next(NUMBERS)}"
    cluster.sync.create_topic(name, queues=2)
    return name


def send(cluster: Cluster, topic: str, *bodies: bytes, **more: Any) -> None:
    with cluster.sync.producer() as producer:
        for body in bodies:
            producer.send(Message(topic, body, **more))


@contextmanager
def asked(cluster: Cluster, path: str) -> Iterator[http.client.HTTPResponse]:
    parts = urlsplit(cluster.control_url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE_S)
    try:
        connection.request("GET", path)
        yield connection.getresponse()
    finally:
        connection.close()


@contextmanager
def tail(cluster: Cluster, topic: str) -> Iterator[Lines]:
    """The lines of a tail that has begun; those that only keep it alive are left out."""
    with asked(cluster, f"/watch/messages?topic={quote(topic, '')}") as answer:
        assert answer.status == 200
        lines = (json.loads(line) for line in iter(answer.readline, b"") if line.strip())
        assert next(lines) == {"begun": True}
        yield lines


def whole(cluster: Cluster, path: str) -> tuple[int, bytes, str]:
    with asked(cluster, path) as answer:
        return answer.status, answer.read(), answer.headers.get("content-disposition", "")


# -- over HTTP ----------------------------------------------------------------------------------


def test_the_last_messages_are_told_and_then_each_as_it_comes(cluster: Cluster, topic: str) -> None:
    send(cluster, topic, b"before 1", b"before 2", tags="old", keys="k1")
    with tail(cluster, topic) as lines:
        before = [next(lines)["message"] for _ in range(2)]
        assert [each["body"] for each in before] == ["before 1", "before 2"]
        assert {(each["tag"], each["keys"], each["size"]) for each in before} == {("old", "k1", 8)}
        for number in range(3):
            send(cluster, topic, f"now {number}".encode())
            shown = next(lines)["message"]
            assert (shown["body"], shown["form"], shown["is_whole"]) == (
                f"now {number}", "text", True,
            )  # fmt: skip


def test_of_many_that_are_there_only_the_last_are_told(cluster: Cluster, topic: str) -> None:
    send(cluster, topic, *(b"%d" % number for number in range(5 * MAX_LAST)))
    with tail(cluster, topic) as lines:
        told = [int(next(lines)["message"]["body"]) for _ in range(MAX_LAST)]
        assert sorted(told) == list(range(4 * MAX_LAST, 5 * MAX_LAST))
        send(cluster, topic, b"the next")
        assert next(lines)["message"]["body"] == "the next"


def test_large_and_binary_bodies_are_shortened(cluster: Cluster, topic: str) -> None:
    with tail(cluster, topic) as lines:
        send(cluster, topic, "你".encode() * 100_000)
        text = next(lines)["message"]
        assert (text["form"], text["is_whole"], text["size"]) == ("text", False, 300_000)
        assert text["body"] == "你" * (MAX_BODY_CHARS // 3)
        send(cluster, topic, BINARY)
        dump = next(lines)["message"]
        assert (dump["form"], dump["is_whole"], dump["size"]) == ("hex", False, len(BINARY))
        assert dump["body"].startswith("00000000  00 01 02")
        assert len(dump["body"]) <= MAX_BODY_CHARS
        many = {f"p{number}": "x" * 300 for number in range(MAX_PROPERTIES + 9)}
        send(cluster, topic, b" ", keys="k" * 2000, properties=many)
        empty = next(lines)["message"]
        assert (empty["body"], empty["form"], empty["size"]) == (" ", "text", 1)
        assert len(empty["keys"]) == MAX_LABEL_CHARS
        assert len(empty["properties"]) == MAX_PROPERTIES
        assert max(map(len, empty["properties"].values())) == MAX_LABEL_CHARS


@pytest.mark.parametrize(
    ("body", "form"),
    [(b"", "text"), (b"a\xff", "hex"), (b"a\0b", "hex"), ("ü".encode(), "text"), (b"\xc3", "hex")],
)
def test_what_is_no_text_is_shown_in_hex(body: bytes, form: str) -> None:
    found = excerpt(body, 100)
    assert (found.form, found.is_whole) == (form, True)


def test_those_that_come_too_fast_are_passed_over_and_counted(cluster: Cluster, topic: str) -> None:
    total = 20 * MAX_MESSAGES
    with tail(cluster, topic) as lines:
        send_fast(cluster, topic, total)
        told = passed = 0
        while told + passed < total:
            line = next(lines)
            told += "message" in line
            passed += line.get("passed_over", 0)
        assert passed > total // 2
        assert told + passed == total
        send(cluster, topic, b"the next")
        assert next(lines)["message"]["body"] == "the next"


def send_fast(cluster: Cluster, topic: str, total: int, body: bytes = b"x") -> None:
    with cluster.sync.producer() as producer:
        for _ in range(0, total, BATCH):
            producer.send_batch([Message(topic, body) for _ in range(BATCH)])


def test_nothing_is_read_for_who_takes_nothing(cluster: Cluster, topic: str) -> None:
    async def begin() -> AsyncGenerator[bytes, None]:
        async with cluster.control.admin() as admin:
            bounds = await bounds_of(admin, topic)
        lines = message_tail(cluster.control, topic, bounds)
        assert json.loads(await anext(lines)) == {"begun": True}
        return lines

    async def taken(lines: AsyncGenerator[bytes, None]) -> dict[str, Any]:
        return dict(json.loads(await anext(lines)))

    pulls = cluster.faults.add("delay", code="PULL_MESSAGE", topic=topic, delay_ms=1)
    lines = cluster.thread.result(begin())
    try:
        send(cluster, topic, b"first")
        assert cluster.thread.result(taken(lines))["message"]["body"] == "first"
        send_fast(cluster, topic, 5000, b"x" * 1000)
        # As many as are read ahead; to read all would take 5,000 / 32 pulls.
        assert cluster.faults.fired(pulls) < 40
        send_fast(cluster, topic, 5000, b"x" * 1000)
        assert cluster.faults.fired(pulls) < 40
    finally:
        cluster.thread.result(closed(lines))
        cluster.faults.clear()


async def closed(lines: AsyncGenerator[bytes, None]) -> None:
    await lines.aclose()


def test_a_frozen_broker_keeps_nobody_from_seeing_what_others_get(
    cluster: Cluster, topic: str
) -> None:
    queue = MessageQueue(topic, "broker-a", 0)
    with cluster.sync.producer() as producer, tail(cluster, topic) as lines:
        cluster.sync.freeze("broker-b")
        try:
            producer.send(Message(topic, b"all the same"), queue=queue)
            assert next(lines)["message"]["body"] == "all the same"
        finally:
            cluster.sync.thaw("broker-b")  # before the producer says good-bye to it


def test_a_broker_that_refuses_for_good_ends_it_with_words(cluster: Cluster, topic: str) -> None:
    with tail(cluster, topic) as lines:
        code = "MESSAGE_ILLEGAL"
        cluster.faults.add("fail", code="PULL_MESSAGE", topic=topic, with_code=code)
        try:
            send(cluster, topic, b"the last")  # answers a pull that waits
            *told, end = lines
            # A pull sent after the rule ends it before this message is told.
            assert [each["message"]["body"] for each in told] in ([], ["the last"])
            assert code in end["problem"]
        finally:
            cluster.faults.clear()


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/watch/messages", "parameter topic is missing"),
        ("/watch/messages?topic=nowhere", "there is no topic 'nowhere'"),
        ("/watch/export", "parameter topic is missing"),
        ("/watch/export?topic=nowhere", "there is no topic 'nowhere'"),
        ("/watch/export?topic=TBW102&part=broker-a/0", "not a part of a queue"),
        ("/watch/export?topic=TBW102&part=broker-a/99:0-1", "no queue broker-a/99"),
        ("/watch/export?topic=TBW102&part=broker-a/0:" + "9" * 30 + "-1", "not a part of a queue"),
    ],
)
def test_a_mistake_is_told_in_words(cluster: Cluster, path: str, words: str) -> None:
    status, content, _ = whole(cluster, path)
    assert status == 400
    assert words in json.loads(content)["error"]


def exported_by_command(cluster: Cluster, topic: str, *more: str) -> bytes:
    command = [sys.executable, "-m", "pocketmq.cluster.cli.main", "message", "export", topic,
               "-n", cluster.nameservers, *more]  # fmt: skip
    return subprocess.run(command, capture_output=True, timeout=200, check=True).stdout


def test_a_topic_is_exported_as_the_command_does(cluster: Cluster, topic: str) -> None:
    send(cluster, topic, b"text", BINARY, "ü".encode() * 5000, tags="new", keys="k")
    send_fast(cluster, topic, 500)
    status, content, disposition = whole(cluster, f"/watch/export?topic={topic}")
    assert (status, content.count(b"\n")) == (200, 503)
    assert content == exported_by_command(cluster, topic)
    assert disposition == f"attachment; filename*=UTF-8''{topic}.jsonl"


def test_parts_of_queues_are_exported(cluster: Cluster, topic: str) -> None:
    queue = MessageQueue(topic, "broker-b", 1)
    with cluster.sync.producer() as producer:
        for number in range(9):
            producer.send(Message(topic, b"%d" % number), queue=queue)
    parts = "".join(f"&part={quote(each)}" for each in ("broker-b/1:2-4", "broker-b/1:7-100"))
    _, content, _ = whole(cluster, f"/watch/export?topic={topic}{parts}")
    assert [json.loads(line)["body"] for line in content.splitlines()] == ["2", "3", "7", "8"]


# -- on the page --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def page(browser: Browser, cluster: Cluster) -> Iterator[Seen]:
    with seen(browser) as opened:
        opened.open(f"{cluster.control_url}/watch")
        opened.page.keyboard.press("7")
        yield opened


def show(page: Seen, topic: str) -> None:
    page.page.fill("#tail-topic", topic)
    page.page.click("[data-key='tail show']")
    page.until(f"{TAIL}?.hasBegun")


def downloaded(page: Seen, key: str) -> bytes:
    with page.page.expect_download() as coming:
        page.page.click(f"[data-key='{key}']")
    return Path(coming.value.path()).read_bytes()


def test_bodies_are_read_on_the_page_as_they_come(cluster: Cluster, topic: str, page: Seen) -> None:
    show(page, topic)
    page.shows("No messages yet")
    evil = "<b>bold</b><img src=x onerror='globalThis.evil = 1'>"
    send(cluster, topic, evil.encode(), tags="<i>", keys="key-1")
    page.shows(evil, "<i>", "key-1")
    send(cluster, topic, BINARY)
    page.shows("5,120 B, no text")
    assert page.page.evaluate("globalThis.evil") is None
    assert page.page.locator("#view b, #view i, #view img").count() == 0
    page.page.locator("[data-message]", has_text="no text").click()
    page.shows("00000010  10 11 12", "The beginning of 5,120 bytes")
    page.until("location.hash.includes('view=messages') && location.hash.includes('topic=')")
    assert Axe().run(page.page).violations_count == 0
    page.page.reload()
    page.shows(evil)  # the link has the topic


def test_what_is_shown_and_the_topic_are_exported_by_clicks(
    cluster: Cluster, topic: str, page: Seen
) -> None:
    send(cluster, topic, *(b"%d" % number for number in range(3 * MAX_LAST)), BINARY)
    show(page, topic)
    page.until(f"{TAIL}.rows.length >= {MAX_LAST - 3}")
    assert downloaded(page, "export topic") == exported_by_command(cluster, topic)
    shown = page.page.evaluate(f"{TAIL}.rows.map((each) => each.key)")
    told = [json.loads(line) for line in downloaded(page, "export shown").splitlines()]
    keys = {f"{each['brokerName']}/{each['queueId']} {each['queueOffset']}" for each in told}
    assert (len(told), keys) == (len(shown), set(shown))


def test_the_page_keeps_the_newest_and_reads_only_while_it_is_looked_at(
    cluster: Cluster, topic: str, page: Seen
) -> None:
    show(page, topic)
    send(cluster, topic, b"the first")
    page.shows("the first")
    page.page.click("[data-key='tail stop']")
    send(cluster, topic, *(b"unseen %d" % number for number in range(3)))
    page.page.click("[data-key='tail stop']")
    page.shows("unseen 2", "Not read here for a while.", "the first")
    page.page.keyboard.press("4")
    page.until(f"{TAIL}.reading === null")
    page.until("!document.body.innerText.includes('TOOLS_CONSUMER')")
    page.page.keyboard.press("7")
    page.until(f"{TAIL}.reading !== null")
    send_fast(cluster, topic, 20 * MAX_MESSAGES)
    page.shows("more came in between")
    while show_more(cluster, topic, page) < KEPT:
        pass
    assert show_more(cluster, topic, page) == KEPT


def show_more(cluster: Cluster, topic: str, page: Seen) -> int:
    """Sends some more, and waits until the page was told; how many rows it has then."""
    before = page.page.evaluate(f"{TAIL}.version")
    send_fast(cluster, topic, MAX_MESSAGES)
    page.until(f"{TAIL}.version > {before}")
    return int(page.page.evaluate(f"{TAIL}.rows.length"))


def test_a_topic_that_is_not_there_is_said_once(page: Seen) -> None:
    page.page.fill("#tail-topic", "nowhere")
    page.page.click("[data-key='tail show']")
    page.shows("there is no topic 'nowhere'", "Go on")
    assert any("status of 400" in each for each in fresh_complaints())


def test_with_users_a_super_user_reads_and_exports(browser: Browser) -> None:
    name, password = "admin", "0ther"
    with start_cluster(super_users={name: password}) as secured:
        secured.sync.create_topic("orders")
        own = {"username": name, "password": password}
        context = browser.new_context(http_credentials=own, accept_downloads=True)  # type: ignore[arg-type]
        context.set_default_timeout(PATIENCE_MS)
        try:
            page = Seen(context.new_page())
            page.open(f"{secured.control_url}/watch#view=messages&topic=orders")
            page.until(f"{TAIL}?.hasBegun")
            page.page.fill("#send-topic", "orders")
            page.page.fill("#send-body", "of the super user")
            page.page.click("[data-key='send one']")
            page.until(f"{TAIL}.rows.length === 1")
            [line] = downloaded(page, "export topic").splitlines()
            assert json.loads(line)["body"] == "of the super user"
        finally:
            context.close()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_nothing_is_wider_than_the_screen(
    width: int, height: int, dark: bool, browser: Browser, cluster: Cluster, topic: str
) -> None:
    send(cluster, topic, BINARY, b"long" * 4000, keys="k" * 900, tags="t" * 90)
    with seen(browser, width=width, dark=dark) as page:
        page.page.set_viewport_size({"width": width, "height": height})
        page.open(f"{cluster.control_url}/watch#view=messages&topic={topic}")
        page.until(f"{TAIL}?.rows.length === 2")
        for row in ("no text", "longlong"):
            page.page.locator("[data-message]", has_text=row).click()
            page.page.wait_for_selector("pre.body")
            assert page.page.evaluate("document.documentElement.scrollWidth") <= width
            found = Axe().run(page.page)
            assert found.violations_count == 0, found.generate_report()
