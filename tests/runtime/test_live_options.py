"""Options that tools change while a process runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import pytest

from pocketmq.runtime.configuration.java_properties import parse_properties
from pocketmq.runtime.configuration.live_options import LiveOptions, ProtectedOptionError
from pocketmq.runtime.configuration.options import option
from pocketmq.runtime.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Sample:
    section: ClassVar[str] = "sample"

    max_count: int = option(3, help="How many.", live=True, within=(1, 9))
    mode: Literal["PULL", "POP"] = option("PULL", help="Which.", live=True)
    folder: str = option("", help="Where.")
    limit: int | None = option(None, help="Unset.")
    password: str = option("x", help="Hidden.", secret=True)


def live() -> LiveOptions:
    return LiveOptions(Sample(), protected={"rocketmqHome"}, others={"haListenPort": "1"})


def test_live_options_act_at_once_and_others_only_in_the_file() -> None:  # O-2, O-3
    options, heard = live(), []
    options.changed.connect(heard.append)
    change = options.update(b"# by hand\nmaxCount = 4\nmode:pop\nfolder=a\\\\b\n")
    assert (change.applied, change.at_restart) == (("maxCount", "mode"), ("folder",))
    assert options.current(Sample) == Sample(max_count=4, mode="POP")
    assert options.text() == "folder=a\\b\nmaxCount=4\nmode=POP\n"
    assert parse_properties(options.file_text())["folder"] == "a\\b"
    assert parse_properties(options.file_text())["haListenPort"] == "1"
    assert change.remark == "only after a restart with this file: folder"
    assert heard == [{"maxCount", "mode"}]
    assert "maxCount ('10' is not 1 up to 9)" in str(options.update(b"maxCount=10").remark)


def test_what_cannot_be_taken_is_named_and_the_others_apply() -> None:  # O-5, O-6
    options = live()
    change = options.update(b"maxCount=many\nmode=PUSH\npassword=y\nnone=1\nfolder=\\n\nlimit=7")
    assert change.at_restart == ("folder", "limit")  # white space around a value goes
    assert change.remark is not None
    assert "maxCount ('many' is not a whole number)" in change.remark
    assert "mode ('PUSH' is not one of PULL, POP)" in change.remark
    assert "password (no such option), none (no such option)" in change.remark
    assert options.current(Sample) == Sample()


def test_a_value_cannot_bring_a_second_line_into_the_file() -> None:
    options = live()
    change = options.update(b"folder=a\\nrocketmqHome=/tmp")
    assert "folder (one line" in str(change.remark)
    assert "rocketmqHome" not in options.file_text()


@dataclass(frozen=True, kw_only=True)
class Bounded:
    section: ClassVar[str] = "bounded"

    least: int = option(1, help="Acts after a restart.")
    most: int = option(9, help="Acts at once.", live=True)

    def __post_init__(self) -> None:
        if self.most < self.least:
            raise ValueError(f"{self.least} or more")


def test_what_does_not_fit_now_does_not_stand_in_the_file() -> None:  # O-5
    options = LiveOptions(Bounded(least=5))
    assert options.update(b"least=2").at_restart == ("least",)  # acts later: 5 holds until then
    refused = options.update(b"most=3")
    assert refused.remark == "not changed: most ('3' is not 5 or more)"
    assert options.current(Bounded) == Bounded(least=5)
    assert parse_properties(options.file_text()) == {"least": "2", "most": "9"}


def test_one_protected_key_spoils_the_whole_change() -> None:  # fault 33, O-4, CVE-2023-33246
    options = live()
    with pytest.raises(ProtectedOptionError, match="rocketmqHome"):
        options.update(b"maxCount=9\nrocketmqHom\\u0065=/tmp")
    assert options.current(Sample).max_count == 3


def test_text_that_is_no_properties_changes_nothing() -> None:  # O-3
    with pytest.raises(ConfigError):
        live().update(b"maxCount=1\nmode=\\u00zz")
    with pytest.raises(UnicodeDecodeError):
        live().update(b"maxCount=\xff")
