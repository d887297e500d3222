"""Log lines: words for people, JSON for machines, never a failure because of a value."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.logs import configure, configure_if_unset


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def test_json_lines_hold_time_level_event_and_values() -> None:
    stream = io.StringIO()
    configure("info", "auto", stream=stream)  # no terminal: JSON
    structlog.get_logger().bind(role="broker").info("broker.expired", silent_s=121.4)
    line = json.loads(stream.getvalue())
    assert {key: line[key] for key in ("level", "event", "role", "silent_s")} == {
        "level": "info",
        "event": "broker.expired",
        "role": "broker",
        "silent_s": 121.4,
    }
    assert line["timestamp"].endswith("Z")


def test_lines_below_the_level_are_not_written() -> None:
    stream = io.StringIO()
    configure("warning", "json", stream=stream)
    structlog.get_logger().info("queue.assigned")
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    "value", ["\ud800", 2**70, {1: object()}, b"\xff", Path("/x"), {("a",): 1}, ValueError("x")]
)
def test_no_value_makes_a_line_fail(value: object) -> None:
    stream = io.StringIO()
    configure("info", "json", stream=stream)
    structlog.get_logger().info("frame.refused", value=value)
    assert "frame.refused" in json.loads(stream.getvalue())["event"]


def test_console_lines_show_a_plain_traceback() -> None:
    stream = io.StringIO()
    configure("info", "console", stream=stream)
    try:
        raise ValueError("broken")
    except ValueError:
        structlog.get_logger().exception("store.failed", at=7)
    text = stream.getvalue()
    assert "store.failed" in text
    assert "at=7" in text
    assert "ValueError: broken" in text


def test_an_unknown_level_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="loud"):
        configure("loud")


def test_a_process_that_logs_does_not_import_rich() -> None:
    code = "import pocketmq.runtime.logs, sys; print('rich' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
    after = "import pocketmq.runtime.logs, rich.text; print(rich.text.__name__)"
    ran = subprocess.run([sys.executable, "-c", after], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "rich.text"


def test_a_program_without_logs_of_its_own_hears_warnings_only_and_on_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    structlog.reset_defaults()
    try:
        configure_if_unset()
        structlog.get_logger().debug("client.started")
        structlog.get_logger().warning("client.lost")
        heard = capsys.readouterr()
        assert heard.out == ""
        assert "client.lost" in heard.err
        assert "client.started" not in heard.err
    finally:
        structlog.reset_defaults()
