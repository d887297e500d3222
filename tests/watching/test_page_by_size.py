"""The page at the sizes of a desk and of a telephone: what fits, what is drawn how, long lists."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from pocketmq.cluster.watch_page.page import exported_page
from pocketmq.operation.events.groups import Rebalanced
from pocketmq.operation.events.messages import MessagePulled, MessageStored
from pocketmq.operation.events.recording import encode_recording, header_of
from pocketmq.operation.events.roles import (
    BrokerForgotten,
    BrokerRegistered,
    RoleStarted,
    RoleStopped,
)
from support.browser import chromium, seen
from support.lesson import (
    BEGAN_MS,
    BROKERS,
    GROUP,
    SERVERS,
    TOPIC,
    Lesson,
    consumer,
    lesson_recording,
)

pytestmark = pytest.mark.browser

VIEWS = ("cluster", "queues", "files", "offsets", "time", "break", "messages")
MANY = 2000
FOOTER_PX = 80
LOW_ROW_PX = 120
HIDDEN_LINKS = """() => {
  const boxes = [...document.querySelectorAll('.thing')].map((each) =>
    ({ id: each.dataset.select, box: each.querySelector('rect.body').getBoundingClientRect() }));
  const hidden = [];
  for (const link of document.querySelectorAll('path[data-link]')) {
    const ends = link.dataset.link.split(' '), length = link.getTotalLength();
    const picture = link.ownerSVGElement.getBoundingClientRect();
    for (let part = 0; part <= 50; part += 1) {
      const at = link.getPointAtLength(length * part / 50);
      const x = picture.x + at.x, y = picture.y + at.y;
      const above = boxes.find(({ id, box }) => !ends.includes(id)
        && x > box.left && x < box.right && y > box.top && y < box.bottom);
      if (above) { hidden.push(`${link.dataset.link} behind ${above.id}`); break; }
    }
  }
  return hidden;
}"""
BROKEN_NAMES = """() => {
  const broken = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, range = document.createRange();
    for (const { index } of node.data.matchAll(/\\w-(?=\\w)/g)) {
      const top = (at) => {
        range.setStart(node, at);
        range.setEnd(node, at + 1);
        return range.getBoundingClientRect().top;
      };
      if (top(index + 2) > top(index) + 4) broken.push(node.data);
    }
  }
  return broken;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def lesson(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("lesson") / "lesson.html"
    path.write_text(exported_page(lesson_recording(), "lesson"))
    return path.as_uri()


def begun() -> Lesson:
    """Two brokers, a nameserver that knows them, and one member that owns all queues."""
    lesson = Lesson()
    for role in (SERVERS[0], *BROKERS):
        lesson.tell(RoleStarted, 0.1, "cluster", role=role)
    for broker in BROKERS:
        lesson.tell(BrokerRegistered, 0.4, SERVERS[0], broker=broker, nameserver=SERVERS[0])
    lesson.join(1.0, 1, [])
    lesson.rebalance(1.1, [consumer(1)])
    return lesson


def written(lesson: Lesson, folder: Path) -> str:
    path = folder / "page.html"
    header = header_of("lesson", BEGAN_MS, [SERVERS[0], *BROKERS])
    content = encode_recording(header, lesson.events)
    path.write_text(exported_page(content, "lesson"))
    return path.as_uri()


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("width", [390, 1440])
def test_nothing_is_wider_than_the_screen_and_the_time_bar_is_low(
    view: str, width: int, browser: Browser, lesson: str
) -> None:
    with seen(browser, width=width, offline=True) as page:
        page.open(f"{lesson}#view={view}&t=12.5")
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.page.evaluate("document.querySelector('footer').offsetHeight") <= FOOTER_PX
        tab = page.page.locator(f"#tab-{view}").bounding_box()
        assert tab is not None
        assert tab["x"] >= 0
        assert tab["x"] + tab["width"] <= width


@pytest.mark.parametrize("width", [360, 390, 1440])
def test_no_link_leads_behind_a_box(width: int, browser: Browser, lesson: str) -> None:
    with seen(browser, width=width, offline=True) as page:
        page.open(f"{lesson}#t=12.5")
        assert page.page.locator("path[data-link]").count() > 10
        assert page.page.evaluate(HIDDEN_LINKS) == []


@pytest.mark.parametrize("view", VIEWS)
def test_no_line_ends_at_the_hyphen_of_a_name(view: str, browser: Browser, lesson: str) -> None:
    for width in (390, 430, 1280, 1440):
        with seen(browser, width=width, offline=True) as page:
            page.open(f"{lesson}#view={view}&t=12.5&select=consumer-1")
            assert page.page.evaluate(BROKEN_NAMES) == []


@pytest.mark.parametrize("width", [390, 1440])
def test_that_all_nameservers_forgot_a_broker_is_read_in_its_box(
    width: int, browser: Browser, tmp_path: Path
) -> None:
    lesson = begun()
    lesson.tell(RoleStarted, 2.0, "cluster", role=SERVERS[1])
    lesson.tell(RoleStopped, 3.0, "cluster", role="broker-a", how="frozen")
    for server in SERVERS:
        lesson.tell(BrokerForgotten, 123.0, server, broker="broker-a", nameserver=server,
                    how="expired")  # fmt: skip
    with seen(browser, width=width, offline=True) as page:
        page.open(f"{written(lesson, tmp_path)}#t=124")
        state = page.page.locator(".thing[data-select=broker-a] text.state").first
        shown, title = state.evaluate("each => [...each.childNodes].map(part => part.textContent)")
        assert shown == "frozen · forgotten by 2 nameservers"
        assert title == "frozen · forgotten by nameserver-1, nameserver-2"


def test_a_row_of_the_changes_is_low_where_the_screen_is_narrow(
    browser: Browser, lesson: str
) -> None:
    with seen(browser, width=390, offline=True) as page:
        page.open(f"{lesson}#view=queues&t=12.5")
        heights = page.page.eval_on_selector_all(
            "tr:has([data-seek])", "rows => rows.map((each) => each.offsetHeight)"
        )
        assert heights
        assert max(heights) <= LOW_ROW_PX


def test_links_of_a_broker_that_ended_are_drawn_dead(browser: Browser, tmp_path: Path) -> None:
    lesson = begun()
    lesson.tell(RoleStopped, 3.0, "cluster", role="broker-a", how="ended")
    with seen(browser, offline=True) as page:
        page.open(f"{written(lesson, tmp_path)}#t=3")
        links = page.page.locator("path[data-link*='broker-a']")
        assert links.count() > 0
        for link in links.all():
            assert "dead" in str(link.get_attribute("class"))
        for link in page.page.locator("path[data-link*='broker-b']").all():
            assert "dead" not in str(link.get_attribute("class"))


def test_one_queue_is_one_queue(browser: Browser, tmp_path: Path) -> None:
    lesson = begun()
    alone = [f"{TOPIC} broker-a/0"]
    lesson.tell(Rebalanced, 3.0, consumer(1), group=GROUP, client_id=consumer(1), queues=alone)
    with seen(browser, offline=True) as page:
        text = page.open(f"{written(lesson, tmp_path)}#t=3").text()
        assert "consumer-1 owns 1 queue" in text
        assert "1 queues" not in text


def test_any_client_id_is_drawn(browser: Browser, tmp_path: Path) -> None:
    lesson = begun()
    for number, odd in enumerate(["\n" * 40, "\U0001f600" * 40, "<b>" * 200_000]):
        lesson.tell(Rebalanced, 3.0 + number, odd, group=GROUP, client_id=odd,
                    queues=[f"{TOPIC} broker-a/{number}"])  # fmt: skip
    with seen(browser, offline=True) as page:  # what the page complains about fails the block
        page.open(f"{written(lesson, tmp_path)}#t=6").drawn()
        assert page.page.evaluate("document.querySelectorAll('#view tspan').length") < 500
        assert page.page.locator("b").count() == 0


def test_kill_and_freeze_do_not_look_alike(browser: Browser, lesson: str) -> None:
    with seen(browser, offline=True) as page:
        page.open(f"{lesson}#view=break")
        kill = page.page.locator("#view button", has_text="Kill").first
        freeze = page.page.locator("#view button", has_text="Freeze").first
        assert "danger" in str(kill.get_attribute("class"))
        assert "danger" not in str(freeze.get_attribute("class"))
        assert kill.inner_text()[0] != freeze.inner_text()[0]


def many_queues() -> Lesson:
    lesson = begun()
    for queue in range(MANY):
        place = {"topic": TOPIC, "broker": "broker-a", "queue": queue}
        lesson.tell(MessageStored, 3.0, "broker-a", **place, offset=0, size=200,
                    physical_offset=queue * 200, unique_key=f"{queue:X}", keys="")  # fmt: skip
        lesson.tell(MessagePulled, 3.1, "broker-a", **place, group=GROUP, offset=0, end=1,
                    count=1, size=200, client_id=consumer(1))  # fmt: skip
    return lesson


def test_of_two_thousand_queues_only_those_that_are_seen_are_made(
    browser: Browser, tmp_path: Path
) -> None:
    with seen(browser, offline=True) as page:
        page.open(f"{written(many_queues(), tmp_path)}#view=offsets&t=3.2")
        rows = page.page.locator("#view tbody tr")
        assert 10 < rows.count() < 100
        assert f"broker-a/{MANY - 1}" not in page.text()
        page.page.evaluate(
            "const list = document.querySelector('.window'); list.scrollTop = list.scrollHeight"
        )
        page.shows(f"broker-a/{MANY - 1}")
        assert rows.count() < 100
        for view in VIEWS:
            page.page.click(f"[data-view={view}]")
            page.drawn()
            assert page.page.evaluate("document.querySelectorAll('#view *').length") < 6000, view
