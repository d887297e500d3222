"""A test reads its own log lines, not those of a cluster that runs in threads beside it."""

from __future__ import annotations

import threading

import structlog

from support.own_logs import own_logs

log = structlog.get_logger()


def test_lines_of_other_threads_are_left_out() -> None:
    other = threading.Thread(target=lambda: log.warning("other"))
    with own_logs() as lines:
        other.start()
        other.join()
        log.warning("own")
    assert lines == [{"event": "own", "log_level": "warning"}]
