"""The page with a recording inside, opened from a disk without network: each view, links, keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from pocketmq.cluster.watch_page.page import exported_page
from pocketmq.operation.events.groups import Allocated, Rebalanced, queue_texts
from pocketmq.operation.events.recording import encode_recording, header_of
from pocketmq.protocol.allocation.consistent_hash import AllocateMessageQueueConsistentHash
from pocketmq.protocol.messages.message import MessageQueue
from support.browser import Seen, chromium, seen
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

VIEWS = {
    "cluster": ("broker-a", "nameserver-1", "consumer-1", "What each nameserver knows"),
    "queues": ("Group billing", "broker-a/0", "Changes and their arithmetic", "consumer-3"),
    "files": ("End of the commit log of broker-a", "PHYSICALOFFSET"),
    "offsets": ("Offsets of group billing", "out of order", "committable"),
    "time": ("protocol time", "What happened"),
    "break": ("This is a recording", "Kill"),
    "messages": ("A recording has no bodies",),
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def lesson(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("lesson") / "lesson.html"
    path.write_text(exported_page(lesson_recording(), "lesson"))
    return path.as_uri()


@pytest.fixture
def page(browser: Browser) -> Iterator[Seen]:
    with seen(browser, offline=True) as opened:
        yield opened


def state(page: Seen, expression: str) -> object:
    return page.page.evaluate(f"(() => {{ const page = pocketmqWatch; return {expression}; }})()")


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_shows_the_lesson_and_is_accessible(
    view: str, browser: Browser, lesson: str
) -> None:
    for width, dark in ((1280, False), (390, True)):
        with seen(browser, width=width, dark=dark, offline=True) as page:
            page.open(f"{lesson}#view={view}&t=7.5")
            text = page.text()
            for words in VIEWS[view]:
                assert words in text
            assert page.page.evaluate("document.documentElement.scrollWidth") <= width
            found = Axe().run(page.page)
            assert found.violations_count == 0, found.generate_report()
            assert {url.partition(":")[0] for url in page.asked} <= {"file", "data"}


def test_a_link_is_a_state_and_the_page_writes_it(page: Seen, lesson: str) -> None:
    page.open(f"{lesson}#t=12.5&select=broker-a/0")
    assert state(page, "page.player.seconds") == 12.5
    assert state(page, "page.selected") == "orders broker-a/0"
    assert "frozen" in page.text()
    page.page.keyboard.press("2")
    page.until("location.hash.includes('view=queues')")
    assert "t=12.5" in page.page.evaluate("location.hash")


def test_it_is_used_by_keyboard_alone(page: Seen, lesson: str) -> None:
    page.open(lesson)
    page.page.keyboard.press("ArrowRight")
    first = state(page, "page.player.at_ms")
    page.page.keyboard.press("ArrowRight")
    assert state(page, "page.player.at_ms > " + str(first))
    page.page.keyboard.press("ArrowLeft")
    assert state(page, "page.player.at_ms") == first
    page.page.keyboard.press(" ")
    page.until(f"pocketmqWatch.player.at_ms > {first}")
    page.page.keyboard.press(" ")
    assert state(page, "page.player.playing") is False
    page.page.focus("[data-key='thing broker-a']")
    page.page.keyboard.press("Enter")
    page.until("pocketmqWatch.selected === 'broker-a'")
    page.page.focus("[role=tab][aria-selected=true]")
    page.page.keyboard.press("ArrowRight")
    page.until("document.activeElement.id === 'tab-queues'")


def test_a_process_that_is_frozen_or_forgotten_looks_so(page: Seen, lesson: str) -> None:
    page.open(f"{lesson}#t=14")
    broker = page.page.locator("[data-key='thing broker-b']")
    assert "frozen" in (broker.get_attribute("class") or "")
    assert "forgotten by nameserver-1" in (broker.get_attribute("aria-label") or "")
    page.page.evaluate("pocketmqWatch.player.seek(pocketmqWatch.timeline.began_ms + 15800)")
    page.until("document.querySelector('#view').innerText.includes('forgotten (expired)')")


def test_a_producer_is_joined_to_the_brokers_of_its_route(page: Seen, lesson: str) -> None:
    page.open(f"{lesson}#t=1.5")
    routes = page.page.locator("table", has_text="Routes that each client has")
    row = routes.locator("tr", has_text="producer-1")
    assert row.inner_text().endswith("orders: broker-a/0\u20133 · not what the others know")
    strong = "() => document.querySelectorAll('[data-link^=\"127.0.0.1@producer-1 \"]').length"
    assert page.page.evaluate(strong) == 1
    page.page.evaluate("pocketmqWatch.player.seek(pocketmqWatch.timeline.began_ms + 2000)")
    page.drawn()
    assert row.inner_text().endswith("orders: broker-a/0\u20133, broker-b/0\u20133")
    assert page.page.evaluate(strong) == 2


def test_a_link_that_is_cut_looks_so(page: Seen, lesson: str) -> None:
    page.open(f"{lesson}#t=10")

    def cut() -> list[str]:
        found = page.drawn().page.locator("path.edge.cut").all()
        return sorted(each.get_attribute("data-link") or "" for each in found)

    broker, server = (
        page.page.locator(f"[data-key='thing {each}']") for each in ("broker-a", "nameserver-1")
    )
    assert "Links cut: broker-a ✂ nameserver-1, broker-b ✂ clients" in page.text()
    assert cut() == [
        "127.0.0.1@producer-1 broker-b",
        "broker-a nameserver-1",
        "broker-b 127.0.0.1@consumer-1",
        "broker-b 127.0.0.1@consumer-3",
    ]
    assert page.page.locator("text.cut").count() == len(cut())  # a symbol, not colour alone
    assert "cut off from nameserver-1" in (broker.get_attribute("aria-label") or "")
    assert "cut off from broker-a" in (server.get_attribute("aria-label") or "")
    page.page.evaluate("pocketmqWatch.player.seek(pocketmqWatch.timeline.began_ms + 10450)")
    assert cut() == []
    assert "Links cut" not in page.text()


def test_queues_without_an_owner_stand_out(page: Seen, lesson: str) -> None:
    page.open(f"{lesson}#t=3.25&view=queues")  # the second member has not computed yet
    assert "Without owner" in page.text()
    assert page.page.locator("rect.lane.none").count() > 0


def allocated_by_hash(members: list[str], own: dict[str, list[MessageQueue]]) -> bytes:
    """A recording of a group that shares out by consistent hash; all queues change hands at 1 s."""
    lesson, strategy = Lesson(), AllocateMessageQueueConsistentHash()
    queues = [MessageQueue(TOPIC, broker, number) for broker in BROKERS for number in range(4)]
    names = [f"{each.broker_name}/{each.queue_id}" for each in queues]
    for number, member in enumerate(members):
        lesson.join(0.1 * number, number + 1, members[:number])
        mine = own.get(member, [])
        lesson.tell(
            Allocated, 1.0, member, group=GROUP, client_id=member, topic=TOPIC,
            strategy=strategy.name, queues=names, members=members,
            own=[f"{each.broker_name}/{each.queue_id}" for each in mine],
            arithmetic=strategy.explain(member, queues, members),
        )  # fmt: skip
        lesson.tell(
            Rebalanced, 1.0, member, group=GROUP, client_id=member, queues=queue_texts(mine)
        )
    lesson.flush(2.0, "broker-a")
    return encode_recording(header_of("hash", BEGAN_MS, [*SERVERS, *BROKERS]), lesson.events)


def test_consistent_hash_is_drawn_as_its_ring(page: Seen, tmp_path: Path) -> None:
    members = [consumer(number) for number in (1, 2, 3)]
    strategy = AllocateMessageQueueConsistentHash()
    queues = [MessageQueue(TOPIC, broker, number) for broker in BROKERS for number in range(4)]
    own = {each: list(strategy.allocate(GROUP, each, queues, members)) for each in members}
    path = tmp_path / "ring.html"
    path.write_text(exported_page(allocated_by_hash(members, own), "ring"))
    page.open(f"{path.as_uri()}#view=queues&t=1.5")
    ring = page.page.locator("svg[aria-label^='Consistent hash as a ring']")
    assert ring.locator("circle:not(.axis)").count() == 10 * len(members)  # virtual nodes
    drawn = {each.text_content() for each in ring.locator("g > title").all()}
    computed = {
        f"{queue.broker_name.removeprefix('broker-')}/{queue.queue_id} → {member.partition('@')[2]}"
        for member, mine in own.items()
        for queue in mine
    }
    assert drawn == computed  # the page computes MD5 itself, and comes to what the strategy says


def test_a_queue_with_two_owners_stands_out(page: Seen, tmp_path: Path) -> None:
    members = [consumer(1), consumer(2)]
    both = [MessageQueue(TOPIC, "broker-a", 0)]
    path = tmp_path / "two.html"
    recording = allocated_by_hash(members, {members[0]: both, members[1]: both})
    path.write_text(exported_page(recording, "two"))
    page.open(f"{path.as_uri()}#view=queues&t=1.5")
    assert "With several owners" in page.text()
    assert "Without owner" in page.text()
    assert page.page.locator("rect.lane.several").count() == 2
    page.page.keyboard.press("1")
    page.until("document.querySelectorAll('#view rect.several').length === 1")


def test_offsets_out_of_order_hold_the_committable_one_back(page: Seen, lesson: str) -> None:
    page.open(f"{lesson}#t=5.3&view=offsets")
    progress = state(page, "Object.values(page.state.offsets.billing)")
    assert isinstance(progress, list)
    assert any(each["out"] and each["next"] <= min(each["out"]) for each in progress)


def test_everything_is_there_in_chinese(page: Seen, lesson: str) -> None:
    page.open(lesson)
    page.page.click("[data-language=zh]")
    page.until("document.documentElement.lang === 'zh-CN'")
    assert "集群" in page.text()
    lacking = page.page.evaluate(
        "import('watch/words.js').then(({LANGUAGES: {en, zh}, SENTENCES: s}) => ["
        "...Object.keys(en).filter((key) => !(key in zh)),"
        "...Object.keys(zh).filter((key) => !(key in en)),"
        "...Object.keys(s.en).filter((key) => !(key in s.zh))])"
    )
    assert lacking == []


def test_scrubbing_gives_the_same_state_as_playing_from_the_beginning(
    page: Seen, lesson: str
) -> None:
    page.open(lesson)
    differing = page.page.evaluate(
        """async () => {
          const { apply, empty } = await import("watch/state.js");
          const { timeline } = pocketmqWatch;
          const wrong = [];
          for (const part of [0.9, 0.2, 0.5, 0.51, 0.05, 1]) {
            const moment = timeline.began_ms + part * (timeline.ended_ms - timeline.began_ms);
            const played = empty();
            for (const role of ["nameserver-1", "nameserver-2", "broker-a", "broker-b"]) {
              apply(played, { event: "role-started", loaded: true, role, at_ms: 1795369348000 });
            }
            const until = timeline.indexAt(moment);
            for (const event of timeline.events.slice(0, until)) apply(played, event);
            if (JSON.stringify(played) !== JSON.stringify(timeline.at(moment))) wrong.push(part);
          }
          return wrong;
        }"""
    )
    assert differing == []


def test_a_script_in_a_key_does_nothing(page: Seen, lesson: str) -> None:
    page.open(f"{lesson}#view=files&t=1.6")
    for _ in range(3):
        page.page.keyboard.press("ArrowRight")
    assert "</script>" in page.page.evaluate("JSON.stringify(pocketmqWatch.timeline.events)")
    assert page.page.evaluate("globalThis.evil") is None
    assert page.page.locator("img").count() == 0


def of_version_9(recording: bytes) -> bytes:
    return recording.replace(b'{"pocketmq_recording":1', b'{"pocketmq_recording":9', 1)


def with_garbage(recording: bytes) -> bytes:
    middle = len(recording) // 2
    return recording[:middle] + b"\xff\x00{{garbage\n" + recording[middle:]


def cut(recording: bytes) -> bytes:
    return recording[:-40]


def of_something_else(_recording: bytes) -> bytes:
    return b"\x89PNG\r\n<script>evil = 1</script>"


def empty(_recording: bytes) -> bytes:
    return b""


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (of_version_9, "of version 9"),
        (cut, "ends in the middle of line"),
        (with_garbage, "cannot be read"),
        (of_something_else, "no header of a recording"),
        (empty, "no events"),
    ],
)
def test_a_damaged_recording_is_opened_as_far_as_it_goes(
    damage: Callable[[bytes], bytes], words: str, page: Seen, tmp_path: Path
) -> None:
    path = tmp_path / "damaged.html"
    path.write_text(exported_page(damage(lesson_recording()), "damaged"))
    page.open(path.as_uri())
    assert words in page.text()
    if damage not in (of_something_else, empty):
        assert state(page, "page.timeline.events.length > 1000") is True
    assert page.page.evaluate("globalThis.evil") is None
