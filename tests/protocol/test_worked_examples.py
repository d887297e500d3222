"""The worked examples that modules open with are what the code does."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from pocketmq.protocol import frame, record
from pocketmq.protocol.codes import LanguageCode, RequestCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.record import encode_record, pack_host


def example(module_file: str) -> bytes:
    """The bytes at the left of the indented lines in a module's docstring."""
    text = ast.get_docstring(ast.parse(Path(module_file).read_text())) or ""
    rows = re.findall(r"^ {4}((?:[0-9a-f]{2,} ?)+) {2,}\S", text, re.MULTILINE)
    return bytes.fromhex("".join(rows))


def test_the_frame_in_frame_py_is_what_encode_frame_makes() -> None:  # E-1, E-4
    command = Command(
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        {"topic": "T"},
        b"B",
        opaque=9,
        remark="hi",
        encoding=Encoding.ROCKETMQ,
        language=LanguageCode.JAVA,
        version=399,
    )
    assert b"".join(frame.encode_frame(command)) == example(frame.__file__)


def test_the_record_in_record_py_is_what_encode_record_makes() -> None:  # S-5
    made = encode_record(
        topic=b"TopicA",
        queue_id=1,
        flag=0,
        queue_offset=2,
        physical_offset=3,
        sys_flag=0,
        born_timestamp_ms=4,
        born_host=pack_host("127.0.0.1", 1),
        store_timestamp_ms=5,
        store_host=pack_host("127.0.0.1", 10911),
        reconsume_times=0,
        prepared_transaction_offset=0,
        body=b"hello",
        properties=b"k\x01v\x02",
    )
    assert made == example(record.__file__)
