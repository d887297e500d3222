"""The page of a running cluster, as `pocketmq watch --demo` starts it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Route

from pocketmq.cluster.recordings.reader import open_recording
from support.browser import Seen, chromium, seen

pytestmark = [pytest.mark.cluster, pytest.mark.browser]

POCKETMQ = [sys.executable, "-m", "pocketmq.cluster.cli.main"]
NEWEST = "pocketmqWatch.timeline.newest"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    command = [*POCKETMQ, "watch", "--demo", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        try:
            yield demo.stdout.readline().strip()
        finally:
            demo.terminate()
            assert demo.wait(timeout=200) == 0


@pytest.fixture(scope="module")
def page(url: str) -> Iterator[Seen]:
    with chromium() as browser, seen(browser) as opened:
        yield opened.open(url)


def choose(page: Seen, view: str) -> None:
    page.page.click(f"[data-view={view}]")


def test_messages_travel_and_are_consumed(page: Seen) -> None:
    page.until(f"{NEWEST}.totals.sent > 5 && {NEWEST}.totals.consumed > 5")
    page.until("document.querySelectorAll('.marks .dot').length > 0")
    page.until(f"Object.keys({NEWEST}.groups.billing.members).length >= 3")
    page.until(f"Object.keys({NEWEST}.groups.billing.queues).length >= 8")
    for broker in ("broker-a", "broker-b"):
        page.until(f"document.querySelectorAll(\"[data-key='thing {broker}']\").length === 1")
    assert Axe().run(page.page).violations_count == 0


def test_until_the_cluster_has_answered_the_page_loads(url: str, page: Seen) -> None:
    held = list[Route]()
    new = page.page.context.new_page()
    try:
        new.route("**/watch/now", lambda route: held.append(route))  # it looks at arguments
        with new.expect_request("**/watch/now"):
            new.goto(url)
        new.get_by_role("tabpanel").get_by_text("Loading…").wait_for()  # the header says it too
        assert not new.locator(".legend").is_visible()
        held[0].continue_()
        new.locator("[data-key='thing broker-a']").wait_for()
        assert new.locator(".legend").is_visible()
        assert new.get_by_text("Loading…").count() == 0
    finally:
        new.close()


def test_the_link_of_a_live_page_has_its_view_and_selection(page: Seen) -> None:
    page.page.keyboard.press("4")
    page.until("location.hash.includes('view=offsets')")
    page.page.keyboard.press("1")
    page.until("location.hash === '#view=cluster'")  # no moment: it stays at the newest
    page.page.focus("[data-key='thing broker-a']")
    page.page.keyboard.press("Enter")
    page.until("location.hash.includes('select=broker-a')")
    page.page.keyboard.press("Escape")


def test_the_clock_says_whether_it_runs_and_a_message_is_sent_by_hand(page: Seen) -> None:
    page.until("/ · (runs|stands|\\u00d7)/.test(document.querySelector('footer .clock').innerText)")
    page.page.fill("#send-topic", "orders")
    page.page.fill("#send-body", "by hand")
    page.page.click("[data-key='send one']")
    page.shows("Done: broker-")


def test_a_dead_letter_is_sent_to_its_topic_again_by_hand(url: str, page: Seen) -> None:
    control = url.removesuffix("/watch")
    dead = {"topic": "%DLQ%billing", "body": "of nobody", "origin": "orders"}
    seed = json.dumps({"messages": [dead]}).encode()
    urllib.request.urlopen(f"{control}/seed", seed).close()
    page.page.fill("#letters-group", "shipping")
    page.page.click("[data-key='letters show']")
    page.shows("shipping has no dead letters.")
    page.page.fill("#letters-group", "billing")
    page.page.click("[data-key='letters show']")
    page.shows("of nobody", "Dead letters of billing")
    assert Axe().run(page.page).violations_count == 0
    page.page.locator("[data-key^='again ']", has_text="Send again").click()
    page.shows("Done: 1 dead letter of billing sent again")
    with urllib.request.urlopen(f"{control}/messages?topic=orders&limit=1000") as found:
        (copy,) = [each for each in json.load(found) if each["body"] == "of nobody"]
    assert copy["reconsume_times"] == 0


def test_a_member_that_joins_moves_queues_with_its_arithmetic(page: Seen) -> None:
    choose(page, "queues")
    page.until(f"'127.0.0.1@guest' in {NEWEST}.clients")
    page.shows("guest joined")
    page.until("/queues \\/ \\d+ members/.test(document.body.innerText)")


def test_bytes_come_while_messages_come(page: Seen) -> None:
    choose(page, "files")
    page.page.wait_for_selector("[data-field=MAGICCODE]")  # nobody has pressed anything
    shown = "[...document.querySelectorAll('[data-field=PHYSICALOFFSET]')].map((e) => e.title)"
    first = page.page.evaluate(shown)
    page.until(f"!{shown}.some((each) => {first}.includes(each))")
    page.shows("tags code", "confirmPhyOffset")  # and of the other files


def test_the_bytes_of_a_record_stand_beside_its_fields(page: Seen) -> None:
    choose(page, "files")
    page.page.locator("[data-record]").first.click()
    page.shows("Follow the newest record")
    page.page.wait_for_selector("[data-field=MAGICCODE]")
    magic = page.page.locator("[data-field=MAGICCODE]").first
    assert magic.inner_text() == "da a3 20 a7"
    page.shows("0xDAA320A7")
    assert page.page.locator("[data-field=TOPIC]").first.inner_text() == b"orders".hex(" ")
    page.shows("tags code")  # of its consume queue entry
    page.shows("confirmPhyOffset")  # of the checkpoint
    magic.click()
    page.until("document.querySelector('tr.chosen') !== null")


def test_a_record_that_leaves_the_list_as_it_is_pressed_shows_its_bytes(page: Seen) -> None:
    choose(page, "files")
    page.page.wait_for_selector("[data-record]")
    pressed = page.page.evaluate(
        """() => {
            const drawn = document.querySelector("[data-record]");
            const [broker] = drawn.dataset.record.split(" ");
            pocketmqWatch.state.stores[broker].records.shift();
            drawn.click();
            return drawn.dataset.record;
        }"""
    )
    page.page.wait_for_selector(f"[data-bytes='{pressed}']")
    page.page.wait_for_selector("[data-field=MAGICCODE]")


def test_offsets_follow_the_consumers(page: Seen) -> None:
    choose(page, "offsets")
    before = page.page.evaluate(f"{NEWEST}.totals.committed")
    page.until(f"{NEWEST}.totals.committed > {before}")
    page.shows("committable")


def test_the_clock_is_stopped_and_stepped_to_the_next_deadline(page: Seen) -> None:
    choose(page, "time")
    page.page.click("[data-ask='clock/freeze']")
    page.until("pocketmqWatch.clock?.speed === 0")
    stood_ms = page.page.evaluate("pocketmqWatch.clock.now_ms")
    page.page.click("[data-ask='clock/next']")
    page.until(f"pocketmqWatch.clock.now_ms > {stood_ms}")
    page.page.locator("[data-ask='clock/run']").first.click()
    page.until("pocketmqWatch.clock.speed === 1")


def test_a_broker_is_frozen_killed_and_started_again_by_clicks(page: Seen) -> None:
    choose(page, "break")

    def click(action: str) -> None:
        with page.page.expect_response(
            f"**/roles/broker-b/{action}"
        ):  # else the next one disturbs it
            page.page.locator(f"#view [data-ask='roles/broker-b/{action}']").click()

    click("freeze")
    page.until(f"{NEWEST}.roles['broker-b'].state === 'frozen'")
    click("thaw")
    page.until(f"{NEWEST}.roles['broker-b'].state === 'running'")
    click("kill")
    page.until(f"Object.values({NEWEST}.forgot).filter((each) => each['broker-b']).length === 2")
    choose(page, "cluster")
    page.shows("forgotten (closed)")
    choose(page, "break")
    click("restart")
    page.until(f"Object.values({NEWEST}.knows).filter((each) => each['broker-b']).length === 2")
    before = page.page.evaluate(f"{NEWEST}.totals.consumed")
    page.until(f"{NEWEST}.totals.consumed > {before}")


def test_a_link_is_cut_a_disk_slowed_and_a_notification_lost_by_clicks(page: Seen) -> None:
    choose(page, "break")

    def click(role: str, action: str, words: str) -> None:
        # Text, not position: the table is drawn anew when anything happens.
        page.page.locator(f"#view [data-key^='{role} {action}']", has_text=words).first.click()

    def holds(do: str) -> str:
        return f"pocketmqWatch.faults.some(({{rule}}) => rule.do === '{do}')"

    click("broker-b", "partition", "Cut off from nameserver-1")
    page.until(holds("partition"))
    page.until("document.querySelector('#view').innerText.includes('cut off')")
    page.page.click("[data-key='clear all']")
    page.until("pocketmqWatch.faults.length === 0")
    click("broker-a", "fault slow-fsync", "Slow disk")
    page.until(holds("slow-fsync"))
    fired = f"({NEWEST}.faults[pocketmqWatch.faults.find(({{rule}}) => rule.do === 'slow-fsync')"
    page.until(f"{fired}?.rule.id]?.fired ?? 0) > 0")
    page.page.click("[data-key='clear all']")
    page.until("pocketmqWatch.faults.length === 0")
    click("broker-a", "fault lose", "Lose next notification")
    page.until(holds("lose"))
    lost = "pocketmqWatch.faults.find(({rule}) => rule.do === 'lose')"
    page.until(f"Object.values({lost}?.fired ?? {{}}).some((times) => times > 0)")  # the guest
    page.page.click("[data-key='clear all']")
    page.until("pocketmqWatch.faults.length === 0")


def test_what_happens_is_recorded_and_exported(url: str, tmp_path: Path, page: Seen) -> None:
    recording, lesson = tmp_path / "live.jsonl", tmp_path / "live.html"
    command = [*POCKETMQ, "watch", "--control", url.removesuffix("/watch"),
               "--record", str(recording), "--export", str(lesson)]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ran:
        wanted = (b'"event":"message-sent"', b'"event":"message-stored"')  # not its header
        while not recording.is_file() or any(w not in recording.read_bytes() for w in wanted):
            assert ran.poll() is None
            page.drawn()
        ran.send_signal(signal.SIGINT)
        _, complaint = ran.communicate(timeout=200)
    assert (ran.returncode, complaint) == (0, b"")
    found = open_recording(recording)
    assert found.problems == []
    names = {event.name() for event in found.events}
    assert {"role-started", "member-joined", "message-sent", "message-stored"} <= names
    page.open(f"{lesson.as_uri()}#view=cluster")
    assert "broker-b" in page.text()


def test_the_running_cluster_is_exported_at_once(url: str, tmp_path: Path, page: Seen) -> None:
    lesson = tmp_path / "at-once.html"
    control = ["--control", url.removesuffix("/watch"), "--seconds", "1"]
    ran = subprocess.run(
        [*POCKETMQ, "watch", *control, "--export", str(lesson)],
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == [lesson]
    assert "at-once" in page.open(lesson.as_uri()).text()
