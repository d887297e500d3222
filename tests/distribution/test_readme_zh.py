"""`README.zh.md` is the first page of README.md: the same commands, programs and links."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENGLISH = (ROOT / "README.md").read_text(encoding="utf-8")
CHINESE = (ROOT / "README.zh.md").read_text(encoding="utf-8")
FIRST_PAGE = ENGLISH.split("## From a clone")[0]


def commands(page: str) -> list[str]:
    """What is to be typed, in blocks and in the text, without comments."""
    typed = re.findall(r"^\$ (.*)$", page, re.MULTILINE)
    named = re.findall(r"`(pocketmq [a-z][^`]*)`", page)
    return [each.split("  #")[0].strip() for each in (*typed, *named)]


def test_it_names_the_same_commands_in_the_same_order() -> None:
    wanted = [each for each in commands(FIRST_PAGE) if not each.startswith("pocketmq pipeline")]
    assert commands(CHINESE) == wanted
    assert len(wanted) > 12


def test_what_it_shows_to_be_printed_and_its_program_are_those_of_the_english_page() -> None:
    for kind in ("console", "python"):
        for block in re.findall(rf"```{kind}\n(.*?)```", CHINESE, re.DOTALL):
            for line in block.splitlines():
                assert line.split("  #")[0].strip() in FIRST_PAGE, line


def test_it_names_the_same_clients_and_the_same_figure() -> None:
    for said in ("`rocketmq-client`", "`rocketmq-client-go`", "`pocketmq.client`", "Node.js"):
        assert said in FIRST_PAGE
        assert said in CHINESE
    (figure,) = re.findall(r"(\d\.\d\d) times as fast", FIRST_PAGE)
    assert figure in CHINESE


def test_each_page_leads_to_the_other() -> None:
    assert "(README.zh.md)" in ENGLISH
    assert "(README.md)" in CHINESE
