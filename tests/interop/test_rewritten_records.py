"""The golden records of rewritten messages are what a real RocketMQ 5.3.3 stores today."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interop.record_rewritten import record
from support.rewriting import REWRITTEN

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(1200),  # a first run downloads RocketMQ
]


def test_rocketmq_stores_what_the_golden_records_say(tmp_path: Path) -> None:
    assert record(tmp_path) == json.loads(REWRITTEN.read_text())
