"""Recordings of the simulation in the page: replicas, troubles, broken lines, odd events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from pocketmq.cluster.recordings.reader import open_recording
from pocketmq.cluster.watch_page.page import exported_page
from pocketmq.operation.events import Event
from pocketmq.operation.events.groups import MemberJoined, Rebalanced
from pocketmq.operation.events.messages import MessageStored, StoreFlushed
from pocketmq.operation.events.recording import encode_recording, header_of
from pocketmq.operation.events.roles import BrokerRegistered, RoleStopped, TroubleBegan
from pocketmq.simulation.recording import record_replicas
from simulation.faults import lesson, read_faults
from support.browser import Seen, chromium, seen
from support.lesson import BEGAN_MS, BROKERS, SERVERS, TOPIC, Lesson, consumer

pytestmark = pytest.mark.browser

QUEUE = f"{TOPIC} broker-a/0"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def page(browser: Browser) -> Iterator[Seen]:
    with seen(browser, offline=True) as opened:
        yield opened


def opened(page: Seen, folder: Path, content: bytes, link: str = "") -> Seen:
    path = folder / "run.html"
    path.write_text(exported_page(content, "run"))
    return page.open(path.as_uri() + link)


def told(events: list[Event]) -> bytes:
    return encode_recording(header_of("run", BEGAN_MS, [*SERVERS, *BROKERS]), events)


def state(page: Seen, expression: str) -> object:
    return page.page.evaluate(
        f"(() => {{ const {{state}} = pocketmqWatch; return {expression}; }})()"
    )


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("replicas") / "seed3.jsonl"
    record_replicas(3, path)
    return path


def test_only_processes_are_drawn_of_replicas(replicas: Path, page: Seen, tmp_path: Path) -> None:
    opened(page, tmp_path, replicas.read_bytes(), "#t=14.4")
    assert state(page, "Object.keys(state.roles).sort()") == [
        "a1",
        "a2",
        "a3",
        "n0",
        "n1",
        "n2",
        "ns",
    ]
    assert state(page, "state.masters") == {"a": "a1"}
    assert state(page, "Object.keys(state.knows)") == ["ns"]
    assert state(page, "Object.keys(state.stores).sort()") == ["a1", "a2", "a3"]
    assert page.page.locator(".marks .dot").count() > 0  # they travel to and from the master
    assert "links reset: ns" in page.text()


def test_a_recording_ends_with_its_run(replicas: Path) -> None:
    events = open_recording(replicas).events
    assert events[-1].real_us < 120e6  # it took 99 virtual seconds


PLAYED = """() => new Promise((done) => {
  const { player } = pocketmqWatch;
  const look = () => (player.playing ? setTimeout(look) : done(document.body.innerText));
  player.play();
  look();
})"""
"""Play, and read the page at once when it stands still, between two frames."""


def test_a_broken_line_is_shown_beside_the_run_without_it(browser: Browser, tmp_path: Path) -> None:
    fault = next(each for each in read_faults() if "without asking for the lock" in each.name)
    path = tmp_path / "lesson.html"
    violation = lesson(fault, path)
    for width in (1280, 390):
        with seen(browser, width=width, offline=True) as page:
            page.open(path.as_uri())
            assert fault.new in page.text()
            assert violation not in page.text()
            page.page.evaluate("pocketmqWatch.player.seek(pocketmqWatch.timeline.ended_ms - 1)")
            assert violation in page.page.evaluate(PLAYED)  # it stops there, with its words
            whole = page.page.locator("section[aria-label='Without it']")
            assert "two consumers" not in whole.inner_text()
            assert page.page.evaluate("document.documentElement.scrollWidth") <= width
            for view in range(1, 7):
                page.page.keyboard.press(str(view))
                assert page.page.locator("main.beside .second > *").count() > 0
            assert Axe().run(page.page).violations_count == 0


def joined(run: Lesson, group: str, client: str, model: str) -> None:
    run.tell(
        MemberJoined, 0.1, "broker-a", group=group, client_id=client, broker="broker-a", model=model
    )
    run.tell(Rebalanced, 0.2, client, group=group, client_id=client, queues=[QUEUE])


@pytest.mark.parametrize(
    ("groups", "model", "alarm"),
    [
        (("one", "other"), "CLUSTERING", False),
        (("one", "one"), "BROADCASTING", False),
        (("one", "one"), "CLUSTERING", True),
    ],
)
def test_two_owners_stand_out_only_where_they_are_wrong(
    groups: tuple[str, str], model: str, alarm: bool, page: Seen, tmp_path: Path
) -> None:
    run = Lesson()
    for number, group in enumerate(groups, 1):
        joined(run, group, consumer(number), model)
    opened(page, tmp_path, told(run.events), "#t=1")
    assert ("With several owners" in page.text()) is alarm
    assert page.page.locator("#view rect.several").count() == alarm
    page.page.keyboard.press("2")
    page.until("location.hash.includes('view=queues')")
    assert (page.page.locator("rect.lane.several").count() > 0) is alarm


def test_who_has_ended_knows_and_owns_nothing(page: Seen, tmp_path: Path) -> None:
    run, client = Lesson(), consumer(1)
    run.tell(BrokerRegistered, 0.0, "nameserver-1", broker="broker-a", nameserver="nameserver-1")
    joined(run, "billing", client, "CLUSTERING")
    for role in ("nameserver-1", "broker-a", client):
        run.tell(RoleStopped, 0.5, "cluster", role=role, how="ended")
    opened(page, tmp_path, told(run.events), "#t=1")
    assert state(page, "[state.knows, state.seen]") == [{"nameserver-1": {}}, {"broker-a": {}}]
    assert "Without owner: broker-a/0" in page.text()


def test_a_power_cut_takes_what_was_not_flushed(page: Seen, tmp_path: Path) -> None:
    run = Lesson()
    for offset in range(2):
        run.tell(
            MessageStored, 0.1, "broker-a", topic=TOPIC, broker="broker-a", queue=0,
            offset=offset, physical_offset=offset * 100, size=100,
        )  # fmt: skip
    run.tell(StoreFlushed, 0.2, "broker-a", broker="broker-a", physical_from=0, physical_to=100)
    run.tell(TroubleBegan, 0.3, "cluster", kind="power cut", who="broker-a")
    opened(page, tmp_path, told(run.events), "#t=0.12&view=files")
    assert page.page.locator(".log button.cache").count() == 1
    page.page.evaluate("pocketmqWatch.player.seek(pocketmqWatch.timeline.ended_ms)")
    page.until("pocketmqWatch.state.stores['broker-a'].end === 100")
    page.until("document.querySelector('.log button.cache') === null")


def test_a_short_name_of_a_queue_is_of_a_topic_that_people_made(page: Seen, tmp_path: Path) -> None:
    run = Lesson()
    for number, topic in enumerate(("%RETRY%billing", TOPIC)):
        run.tell(
            MessageStored, number / 10, "broker-a", topic=topic, broker="broker-a", queue=0,
            offset=0, physical_offset=number * 100, size=100,
        )  # fmt: skip
    opened(page, tmp_path, told(run.events), "#t=0.05&select=broker-a/0")
    page.page.evaluate("pocketmqWatch.player.seek(pocketmqWatch.timeline.ended_ms)")
    page.until(f"pocketmqWatch.selected === '{QUEUE}'")


PLACE = {"topic": "T", "broker": "b", "queue": 0}
ODD = [
    {"event": "role-started", "role": "__proto__"},
    {"event": "member-joined", "group": "g", "client_id": 5, "broker": "broker-a"},
    {"event": "rebalanced", "group": "g", "client_id": "c", "queues": [{}]},
    {"event": "message-sent", "at_ms": 1e300, "client_id": "c", **PLACE},
    {"event": "message-consumed", **PLACE, "offset": 2**60, "group": "g"},
    {"event": "toString"},
    {"event": "constructor", "client_id": "constructor"},
    {"event": "message-consumed", **PLACE, "offset": 0, "group": "g", "count": 2**52},
]


def test_events_of_another_kind_do_no_harm(page: Seen, tmp_path: Path) -> None:
    run = Lesson()
    joined(run, "billing", consumer(1), "CLUSTERING")
    odd = [{"at_ms": BEGAN_MS, "by": "x", "seq": 1, "real_us": 60_000_000, **each} for each in ODD]
    content = told(run.events) + b"".join(json.dumps(each).encode() + b"\n" for each in odd)
    opened(page, tmp_path, content, "#t=100")
    assert "5 lines cannot be read" in page.text()
    for view in range(1, 7):
        page.page.keyboard.press(str(view))
        page.until("document.querySelector('#view > *') !== null")
    assert page.page.evaluate("({}).state === undefined") is True


def test_queues_are_reached_by_keyboard(page: Seen, tmp_path: Path) -> None:
    run = Lesson()
    joined(run, "billing", consumer(1), "CLUSTERING")
    opened(page, tmp_path, told(run.events), "#t=1&select=broker-a")
    page.page.focus(f"[data-key='of {QUEUE}']")
    page.page.keyboard.press("Enter")
    page.until(f"pocketmqWatch.selected === '{QUEUE}'")
    page.page.keyboard.press("Escape")
    page.page.keyboard.press("2")
    page.page.focus(f"[data-key='lane billing {QUEUE}']")
    page.page.keyboard.press("Enter")
    page.until(f"pocketmqWatch.selected === '{QUEUE}'")
