"""A recording that is too long to be loaded whole: its index first, single events by range."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from pocketmq.cluster.recordings.writer import RecordingWriter
from pocketmq.cluster.watch_page.routes import WHOLE_BYTES
from support.browser import chromium, seen
from support.lesson import BEGAN_MS, BROKERS, SERVERS, lesson_events

pytestmark = pytest.mark.browser

LESSON_US = 20_000_000


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    path, events, number = tmp_path / "long.jsonl", lesson_events(), 0
    with RecordingWriter(path, "long", BEGAN_MS, [*SERVERS, *BROKERS]) as writer:
        while path.stat().st_size <= WHOLE_BYTES:
            for event in events:
                real_us = event.real_us + number * LESSON_US
                writer.write(msgspec.structs.replace(event, real_us=real_us))
            number += 1
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 40)  # and it is cut: its index is made anew
    command = [sys.executable, "-m", "pocketmq.cluster.cli.main", "watch", "--from", str(path)]
    with subprocess.Popen([*command, "--no-browser"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def test_a_long_recording_is_opened_by_its_index(url: str) -> None:
    with chromium() as browser, seen(browser) as page:
        page.open(url)
        page.until("pocketmqWatch.large !== null")
        loaded = page.page.evaluate("pocketmqWatch.timeline.events.length")
        assert 100 < loaded < 20_000  # of 70,000
        # The index counts what was stored; it does not tell from which offset, nor what of it was
        # dispatched.
        queues = page.page.evaluate("pocketmqWatch.timeline.newest.queues")
        assert queues["orders broker-a/0"]["least"]
        assert {each["dispatched"] for each in queues.values()} == {None}
        assert not [name for name in queues if "producer" in name]
        page.page.evaluate("pocketmqWatch.player.seek(pocketmqWatch.timeline.began_ms + 507_500)")
        page.until("document.querySelectorAll('.marks .dot').length > 3")
        page.shows(
            "producer-1", "consumer-3", "Its index is shown at once", "cut in the middle of line"
        )
