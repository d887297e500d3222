"""Messages as a consumer gets them."""

from __future__ import annotations

from pocketmq.protocol.hosts import pack_host
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.stored.record import decode_record, encode_record

_HOST = pack_host("127.0.0.1", 10911)


def pulled_message(
    *,
    topic: str = "T",
    queue_id: int = 0,
    offset: int = 0,
    body: bytes = b"x",
    properties: str = "",
    reconsume_times: int = 0,
    broker_name: str = "a",
) -> MessageExt:
    """One message out of a pull reply."""
    record = encode_record(
        topic=topic.encode(),
        queue_id=queue_id,
        flag=0,
        queue_offset=offset,
        physical_offset=offset * 100,
        sys_flag=0,
        born_timestamp_ms=1,
        born_host=_HOST,
        store_timestamp_ms=2,
        store_host=_HOST,
        reconsume_times=reconsume_times,
        prepared_transaction_offset=0,
        body=body,
        properties=properties.encode(),
    )
    return decode_record(record, broker_name=broker_name)
