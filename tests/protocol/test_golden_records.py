"""Every record that a real RocketMQ wrote re-encodes to the same bytes (S-5, issue: proof 1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.protocol.store_layout import FIXED_SIZE, store_time_ms
from pocketmq.protocol.stored.record import encode_record
from pocketmq.protocol.stored.record_check import RecordKind, check_record
from support.golden import unpack_store


@pytest.mark.parametrize(("name", "at_least"), [("clean", 1000), ("killed", 1300)])
def test_each_record_of_a_real_rocketmq_re_encodes_to_the_same_bytes(
    name: str, at_least: int, tmp_path: Path
) -> None:
    log = unpack_store(name, tmp_path) / "store" / "commitlog"
    records = wide = 0
    for path in sorted(log.iterdir()):
        data = path.read_bytes()
        at = 0
        while at < len(data):
            checked = check_record(data, at, len(data))
            if checked.kind is not RecordKind.RECORD:
                assert checked.kind in (RecordKind.BLANK, RecordKind.END)
                break
            message = checked.message
            assert message is not None
            again = encode_record(
                topic=message.topic.encode(),
                queue_id=message.queue_id,
                flag=message.flag,
                queue_offset=message.queue_offset,
                physical_offset=int(path.name) + at,
                sys_flag=message.sys_flag,
                born_timestamp_ms=message.born_timestamp_ms,
                born_host=message.packed_born_host,
                store_timestamp_ms=message.store_timestamp_ms,
                store_host=message.packed_store_host,
                reconsume_times=message.reconsume_times,
                prepared_transaction_offset=message.prepared_transaction_offset,
                body=message.raw_body,
                properties=bytes(message.raw_properties),
            )
            assert again == data[at : at + checked.size]
            assert store_time_ms(data[at : at + FIXED_SIZE]) == message.store_timestamp_ms
            records += 1
            wide += len(message.topic) > 127
            at += checked.size
    assert records >= at_least
    assert wide > 0  # the V2 magic is among them
