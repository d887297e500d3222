"""What the page is made of, and how it is put into one file; no browser is needed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pocketmq.cluster.recordings.reader import open_recording
from pocketmq.cluster.watch_page.page import (
    MAX_EXPORT_BYTES,
    TooLargeError,
    exported_page,
    page_files,
)
from pocketmq.cluster.watch_page.routes import byte_range
from pocketmq.cluster.watching.export import export_recording
from pocketmq.cluster.watching.selection import LASTING
from pocketmq.runtime.errors import CallerError
from support.decoded import decode_recording
from support.lesson import lesson_recording


def test_nothing_is_fetched_from_elsewhere() -> None:
    for name, content in page_files().items():
        found = set(re.findall(rb"https?://[^\s\"']+", content))
        assert found <= {b"http://www.w3.org/2000/svg"}, name


def test_every_module_that_is_imported_is_there() -> None:
    for name, content in page_files().items():
        for wanted in re.findall(r'from "([^"]+)"', content.decode()):
            assert wanted.startswith("watch/"), f"{name} imports {wanted}"
            assert wanted.removeprefix("watch/") in page_files(), f"{name} imports {wanted}"


def test_no_module_makes_markup_from_text() -> None:
    for name, content in page_files().items():
        assert not re.search(
            rb"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", content
        ), name


def test_a_page_has_one_end_of_a_script_for_each_begin() -> None:
    page = exported_page(lesson_recording(), "</script><b>")
    assert page.count("<script") == page.count("</script>") == 4
    assert "<b>" not in page


def test_a_large_recording_is_refused_with_advice(tmp_path: Path) -> None:
    source = tmp_path / "large.jsonl"
    with source.open("wb") as file:
        file.truncate(MAX_EXPORT_BYTES + 1)
    with pytest.raises(TooLargeError, match="--begin and --end"):
        export_recording(source, tmp_path / "large.html")


@pytest.mark.parametrize("begin_s", [None, 1.0], ids=["all", "a part"])
@pytest.mark.parametrize("content", [b"root:x:0:0\n", b"{}\n", b"no line", b""])
def test_a_file_that_is_no_recording_makes_no_page(
    content: bytes, begin_s: float | None, tmp_path: Path
) -> None:
    source, target = tmp_path / "passwords", tmp_path / "page.html"
    source.write_bytes(content)
    with pytest.raises(CallerError, match="passwords is not a recording: "):
        export_recording(source, target, begin_s=begin_s)
    assert not target.exists()


def test_a_part_keeps_what_the_rest_stands_on(tmp_path: Path) -> None:
    source, target = tmp_path / "lesson.jsonl", tmp_path / "part.html"
    source.write_bytes(lesson_recording())
    assert "part.html" in export_recording(source, target, begin_s=10, end_s=11)
    inside = re.search(r'id="recording">(.*?)</script>', target.read_text(), re.DOTALL)
    assert inside is not None
    _, events, problems = decode_recording(inside[1].encode())
    assert problems == []
    first_us = open_recording(source).events[0].real_us
    late = [each for each in events if not isinstance(each, LASTING)]
    assert late
    assert all(10 <= (each.real_us - first_us) / 1e6 <= 11 for each in late)
    assert any(each.real_us - first_us < 1e6 for each in events)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, (0, 100)),
        ("bytes=0-9", (0, 10)),
        ("bytes=90-", (90, 100)),
        ("bytes=90-500", (90, 100)),
    ],
)
def test_a_range_is_of_bytes(header: str | None, expected: tuple[int, int]) -> None:
    assert byte_range(header, 100) == expected


@pytest.mark.parametrize(
    "header", ["bytes=100-", "bytes=5-4", "bytes=-5", "lines=1-2", "bytes=1-2,4-"]
)
def test_a_wrong_range_is_refused(header: str) -> None:
    with pytest.raises(CallerError):
        byte_range(header, 100)
