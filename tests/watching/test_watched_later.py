"""The page of a cluster that has run for long: what was there is read, the rest is not known.

A picture that shows "unknown" as zero is wrong in the worst way: nobody doubts it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from pocketmq.client import Message
from pocketmq.cluster.watch_page.page import exported_page
from pocketmq.operation.events import Event
from pocketmq.operation.events.groups import Allocated, MemberJoined, Rebalanced
from pocketmq.operation.events.messages import (
    MessageConsumed,
    MessagePulled,
    MessageStored,
    OffsetCommitted,
    StoreFlushed,
)
from pocketmq.operation.events.recording import encode_line, encode_recording, header_of
from pocketmq.operation.events.roles import (
    BrokerRegistered,
    EventsCounted,
    FaultBegan,
    TroubleBegan,
)
from pocketmq.testing import Cluster, start_cluster
from support.browser import Seen, chromium, seen
from support.eventually import PATIENCE_S
from support.lesson import BEGAN_MS, BROKERS, SERVERS, TOPIC, Lesson, consumer

pytestmark = [pytest.mark.browser]

STORES = "pocketmqWatch.timeline.newest.stores"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def page(browser: Browser) -> Iterator[Seen]:
    with seen(browser) as opened:
        yield opened


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Five messages of `orders`, three of them consumed and committed; its log is on the disk."""
    with start_cluster(brokers=1, nameservers=2) as started:
        sync = started.sync
        sync.create_topic("orders", queues=1)
        with sync.producer() as producer, sync.consumer("billing", "orders") as billing:
            for number in range(3):
                producer.send(Message("orders", b"order %d" % number))
            for _ in range(3):
                billing.receive(limit_s=PATIENCE_S)
        with sync.producer() as producer:
            for number in range(3, 5):
                producer.send(Message("orders", b"order %d" % number))
        yield started


def lists_nothing(page: Seen) -> None:
    """What was read when the page was opened is no news."""
    news = set(page.page.evaluate("pocketmqWatch.timeline.events.filter((e) => !e.loaded)"
                                  ".map((e) => e.event)"))  # fmt: skip
    assert news <= {"route-learned"}  # clients tell their routes when somebody begins to watch


def drawn_cells(page: Seen, section: int = 0) -> dict[str, int]:
    """How many offsets of each kind the picture of a group's first queue has."""
    found: dict[str, int] = (
        page.page.locator("#view section")
        .nth(section)
        .locator("tbody tr svg")
        .first.evaluate(
            "(svg) => Object.fromEntries([...svg.querySelectorAll('[data-cells]')]"
            ".map((each) => [each.dataset.cells, each.getAttribute('d').split('M').length - 1]))"
        )
    )
    return found


def test_a_log_that_was_written_before_is_read(page: Seen, cluster: Cluster) -> None:
    page.open(f"{cluster.control_url}/watch#view=files")
    page.until(f"{STORES}['broker-a']?.end > 0")
    page.until(f"{STORES}['broker-a'].flushed === {STORES}['broker-a'].end")  # it flushes soon
    end = page.page.evaluate(f"{STORES}['broker-a'].end")
    page.shows(
        f"end of the log {end:,}",
        f"flushed up to {end:,}",
        f"dispatched up to {end:,} · lost on a power cut now: 0 B",
    )


def test_what_was_read_when_the_page_was_opened_is_no_news(page: Seen, cluster: Cluster) -> None:
    page.open(f"{cluster.control_url}/watch")
    page.until("Object.keys(pocketmqWatch.timeline.newest.roles).length === 3")
    lists_nothing(page)
    assert page.page.locator(".marks .dot").count() == 0, "nothing travels"
    page.shows("Nothing up to here.")
    page.page.keyboard.press("5")  # time
    page.shows("since this page was opened: 0 sent")
    lists_nothing(page)
    page.page.keyboard.press("1")
    page.page.click("[data-key='thing broker-a']")
    page.shows("not known yet")  # since when it runs
    # What happens from now on is news.
    with cluster.sync.producer() as producer:
        producer.send(Message("orders", b"news"))
    page.until("pocketmqWatch.timeline.newest.totals.stored === 1")


def test_members_from_before_own_their_queues_without_a_change(
    page: Seen, cluster: Cluster
) -> None:
    with cluster.sync.consumer("tracking", "orders"):
        cluster.sync.group("tracking").assigned(limit_s=PATIENCE_S)
        page.open(f"{cluster.control_url}/watch#view=queues")
        page.shows("Group tracking", "Every queue has exactly one owner.")
        lanes = "pocketmqWatch.timeline.lanes"
        assert page.page.evaluate(f"[{lanes}.changes, {lanes}.causes_of]") == [{}, {}]
        assert page.page.evaluate(f"Object.keys({lanes}.groups.tracking).length") > 0


def test_offsets_from_before_are_read(page: Seen, cluster: Cluster) -> None:
    page.open(f"{cluster.control_url}/watch#view=offsets")
    page.shows("Offsets of group billing")
    row = page.page.locator("tr", has_text="orders broker-a/0").first
    stored = page.page.evaluate("pocketmqWatch.timeline.newest.queues['orders broker-a/0'].stored")
    committed, lag = row.locator("td").nth(2), row.locator("td").nth(8)  # the queue is a heading
    assert committed.inner_text() == "3"
    assert lag.inner_text() == str(stored - 3)
    # Whether what lies behind it was pulled, the client alone knows.
    assert drawn_cells(page) == {"committed": 3, "unknown": stored - 3}


def test_a_broker_that_does_not_answer_has_an_unknown_log(
    page: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("POCKETMQ_API_TIMEOUT_MS")  # tests make it longer than a page is waited for
    with start_cluster(brokers=2, clock="real") as cluster:
        for name in ("broker-a", "broker-b"):
            cluster.sync.create_topic(f"of-{name}", queues=1)
        cluster.sync.freeze("broker-b")
        page.open(f"{cluster.control_url}/watch#view=files")
        page.until(f"{STORES}['broker-a'] !== undefined")
        assert page.page.evaluate(f"{STORES}['broker-b']?.end ?? null") is None
        cluster.sync.thaw("broker-b")
        page.page.goto("about:blank")  # or it would complain that the cluster has ended


# -- recordings that tell only a part ----------------------------------------------------------


def opened(page: Seen, folder: Path, events: list[Event], view: str) -> Seen:
    path = folder / f"{len(events)}.html"  # another address: a link alone would load nothing
    header = header_of("part", BEGAN_MS, [*SERVERS, *BROKERS])
    path.write_text(exported_page(encode_recording(header, events), "part"))
    page.open(path.as_uri() + f"#view={view}")
    page.page.evaluate("pocketmqWatch.player.seek(pocketmqWatch.timeline.ended_ms)")
    return page.drawn()


def stored(run: Lesson, at: float, physical_offset: int, offset: int) -> None:
    run.tell(
        MessageStored, at, "broker-a", topic=TOPIC, broker="broker-a", queue=0,
        offset=offset, physical_offset=physical_offset, size=100,
    )  # fmt: skip


def test_how_much_a_power_cut_takes_is_not_known_before_a_flush(page: Seen, tmp_path: Path) -> None:
    run = Lesson()
    stored(run, 0.1, 5_000, 7)  # the log was there before the recording began
    opened(page, tmp_path, run.events, "files")
    page.shows(
        "flushed up to ?",
        "end of the log 5,100",
        "dispatched up to ? · lost on a power cut now: ? B",
        "?: not known yet",
    )
    assert page.page.locator(".log button.cache").count() == 0
    assert page.page.locator(".log button.unknown").count() == 1
    run.tell(StoreFlushed, 0.2, "broker-a", broker="broker-a", physical_from=0, physical_to=5_050)
    opened(page, tmp_path, run.events, "files")
    page.shows("flushed up to 5,050", "lost on a power cut now: 50 B")


def test_a_flush_does_not_tell_where_the_log_ends(page: Seen, tmp_path: Path) -> None:
    run = Lesson()
    run.tell(StoreFlushed, 0.1, "broker-a", broker="broker-a", physical_from=0, physical_to=5_050)
    opened(page, tmp_path, run.events, "files")
    page.shows("flushed up to 5,050", "end of the log ?", "lost on a power cut now: ? B")
    run.tell(TroubleBegan, 0.2, "broker-a", kind="power cut", who="broker-a")
    opened(page, tmp_path, run.events, "files")
    page.shows("end of the log 5,050", "dispatched up to ? · lost on a power cut now: 0 B")


def test_a_log_whose_beginning_was_seen_is_known(page: Seen, tmp_path: Path) -> None:
    run = Lesson()
    stored(run, 0.1, 0, 0)
    opened(page, tmp_path, run.events, "files")
    page.shows("flushed up to 0", "lost on a power cut now: 100 B")


def test_offsets_that_nobody_told_are_not_zero(page: Seen, tmp_path: Path) -> None:
    run = Lesson()
    place = {"topic": TOPIC, "broker": "broker-a", "queue": 0}
    run.tell(OffsetCommitted, 0.1, "broker-a", **place, offset=40, group="billing")
    run.tell(
        MessageConsumed, 0.1, consumer(1), **place, offset=90, group="audit",
        client_id=consumer(1), status="success",
    )  # fmt: skip
    opened(page, tmp_path, run.events, "offsets")

    def row(group: str) -> list[str]:
        at = ["audit", "billing"].index(group)
        cells = page.page.locator("#view section").nth(at).locator("tbody tr td, tbody tr th")
        return cells.all_inner_texts()[3:]

    # committed, committable, out of order, process queue, pulled, stored, lag
    assert row("billing") == ["40", "≥ 40", "?", "?", "≥ 40", "≥ 40", "≥ 0"]
    assert row("audit") == ["?", "?", "?", "?", "≥ 91", "≥ 91", "?"]


def test_what_was_pulled_before_anybody_watched_is_not_known_until_it_is_committed(
    page: Seen, tmp_path: Path
) -> None:
    run = Lesson()
    place = {"topic": TOPIC, "broker": "broker-a", "queue": 0}
    for offset, group in ((40, "billing"), (50, "audit")):
        run.tell(OffsetCommitted, 0.1, "broker-a", **place, offset=offset, group=group)
        run.tell(
            MessagePulled, 0.2, "broker-a", **place, offset=50, end=60, count=10, size=999,
            group=group, client_id=consumer(1),
        )  # fmt: skip
    opened(page, tmp_path, run.events, "offsets")
    cells = page.page.locator("#view section").nth(1).locator("tbody tr td, tbody tr th")
    assert cells.all_inner_texts()[3:] == ["40", "≥ 40", "?", "?", "60", "≥ 60", "≥ 20"]
    assert drawn_cells(page, 1) == {"committed": 4, "unknown": 20}
    cells = page.page.locator("#view section").nth(0).locator("tbody tr td, tbody tr th")
    assert cells.all_inner_texts()[3:] == ["50", "50", "0", "10", "60", "≥ 60", "≥ 10"]
    assert drawn_cells(page, 0) == {"committed": 4, "process": 10}
    page.page.locator("[data-select='orders broker-a/0']").first.click()
    page.shows(
        "committed 40 · committable ≥ 40 · pulled 60", "committed 50 · committable 50 · pulled 60"
    )


def test_a_pull_without_a_commit_says_nothing_of_what_came_before_it(
    page: Seen, tmp_path: Path
) -> None:
    run = Lesson()
    place = {"topic": TOPIC, "broker": "broker-a", "queue": 0}
    queues = [f"{TOPIC} broker-a/0"]
    run.tell(
        Rebalanced, 0.1, consumer(2), group="whole", client_id=consumer(2), queues=queues,
        gained=queues,
    )  # fmt: skip
    for number, group in enumerate(("later", "whole"), 1):
        run.tell(
            MessagePulled, 0.2, "broker-a", **place, offset=50, end=60, count=10, size=999,
            group=group, client_id=consumer(number),
        )  # fmt: skip
    opened(page, tmp_path, run.events, "offsets")
    cells = page.page.locator("#view section").nth(0).locator("tbody tr td, tbody tr th")
    assert cells.all_inner_texts()[3:] == ["?", "?", "?", "?", "60", "≥ 60", "?"]
    cells = page.page.locator("#view section").nth(1).locator("tbody tr td, tbody tr th")
    assert cells.all_inner_texts()[3:] == ["?", "50", "0", "10", "60", "≥ 60", "?"]


def test_a_lag_that_becomes_known_does_not_grow(page: Seen, tmp_path: Path) -> None:
    run = Lesson()
    place = {"topic": TOPIC, "broker": "broker-a", "queue": 0, "group": "billing"}
    for step in range(8):
        run.tell(
            MessageConsumed, 0.5 * step, consumer(1), **place, offset=90 + step,
            client_id=consumer(1), status="success",
        )  # fmt: skip
    run.tell(OffsetCommitted, 3.0, "broker-a", **place, offset=90)
    run.tell(StoreFlushed, 6.0, "broker-a", broker="broker-a", physical_from=0, physical_to=1)
    opened(page, tmp_path, sorted(run.events, key=lambda each: each.real_us), "offsets")
    for step in range(20):
        page.page.evaluate(
            f"pocketmqWatch.player.seek(pocketmqWatch.timeline.began_ms + {step * 300})"
        )
        assert "↑" not in page.drawn().page.inner_text("#view")


def test_a_queue_of_a_member_that_has_not_told_its_queues_has_an_unknown_owner(
    page: Seen, tmp_path: Path
) -> None:
    queue = f"{TOPIC} broker-a/0"
    run = Lesson()
    stored(run, 0.1, 0, 0)
    opened(page, tmp_path, run.events, f"cluster&select={queue}")
    page.shows("no owner")
    run.tell(MemberJoined, 0.2, "broker-a", group="g", client_id=consumer(1), broker="broker-a")
    run.tell(
        Allocated, 0.3, consumer(2), group="g", client_id=consumer(2), topic=TOPIC,
        strategy="AVG", queues=["broker-a/0"], members=[consumer(1), consumer(2)], own=[],
        arithmetic="",
    )  # fmt: skip
    page.page.evaluate(
        "([joined, allocated]) => { pocketmqWatch.more([joined], true);"
        " pocketmqWatch.more([allocated]);"
        " pocketmqWatch.player.seek(pocketmqWatch.timeline.ended_ms); }",
        [json.loads(encode_line(each)) for each in run.events[1:]],
    )
    assert "no owner" not in page.text()
    page.page.keyboard.press("2")
    page.shows("Group g")
    assert "no owner" not in page.text()


def test_who_told_a_part_is_not_said_to_miss_the_rest(page: Seen, tmp_path: Path) -> None:
    run = Lesson()
    for server, brokers in (("nameserver-1", "ab"), ("nameserver-2", "a")):
        for each in brokers:
            run.tell(BrokerRegistered, 0.1, server, broker=f"broker-{each}", nameserver=server)
    for broker, members in (("broker-a", (1, 2)), ("broker-b", (2,))):
        for number in members:
            run.tell(
                MemberJoined, 0.2, broker, group="g", client_id=consumer(number), broker=broker,
                model="CLUSTERING",
            )  # fmt: skip
    opened(page, tmp_path, run.events, "cluster")
    page.shows("Members that each broker knows")
    assert "missing" not in page.text()


def test_a_queue_of_which_only_numbers_of_messages_came_has_at_least_so_many(
    page: Seen, tmp_path: Path
) -> None:
    run = Lesson()
    run.tell(
        EventsCounted, 0.1, "broker-a", kind="message-stored", count=12, topic=TOPIC,
        broker="broker-a", queue=0,
    )  # fmt: skip
    opened(page, tmp_path, run.events, f"cluster&select={TOPIC} broker-a/0")
    page.shows("≥ 12")


def test_a_nameserver_that_has_told_nothing_is_not_said_to_miss_a_broker(
    page: Seen, tmp_path: Path
) -> None:
    run = Lesson()
    run.tell(BrokerRegistered, 0.1, "nameserver-1", broker="broker-a", nameserver="nameserver-1")
    opened(page, tmp_path, run.events, "cluster")
    shown = page.text()
    assert "missing" not in shown
    page.page.click("[data-key='thing nameserver-2']")
    page.shows("not known yet")


def test_rules_of_a_recording_are_those_that_were_told(page: Seen, tmp_path: Path) -> None:
    run = Lesson()
    run.tell(MemberJoined, 0.1, "broker-a", group="g", client_id=consumer(1), broker="broker-a",
             model="CLUSTERING")  # fmt: skip
    run.tell(FaultBegan, 0.2, "cluster", rule="r1", do="drop", role="broker-a", other=None)
    opened(page, tmp_path, run.events, "break")
    page.shows("drop broker-a")
    assert "No fault rule holds." not in page.text()
