"""Sending messages and sending them back (E-20, E-21, E-26)."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.header import Header
from pocketmq.protocol.scalars import Int32, Int64


class SendMessageResponseHeader(
    Header,
    kw_only=True,
    rename={
        "msg_id": "msgId",
        "queue_id": "queueId",
        "queue_offset": "queueOffset",
        "transaction_id": "transactionId",
        "batch_uniq_id": "batchUniqId",
        "recall_handle": "recallHandle",
        "region": "MSG_REGION",
        "trace": "TRACE_ON",
    },
):
    """Where a message was stored."""

    msg_id: str
    """Offset message id; of a batch, one per message, joined by commas."""

    queue_id: Int32
    queue_offset: Int64
    """Of a batch, that of its first message."""

    transaction_id: str | None = None
    """The message's UNIQ_KEY."""

    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    region: str | None = None
    trace: str | None = None


class SendMessageRequestHeader(
    Header,
    kw_only=True,
    rename={
        "producer_group": "producerGroup",
        "default_topic": "defaultTopic",
        "default_topic_queue_nums": "defaultTopicQueueNums",
        "queue_id": "queueId",
        "sys_flag": "sysFlag",
        "born_timestamp": "bornTimestamp",
        "reconsume_times": "reconsumeTimes",
        "unit_mode": "unitMode",
        "max_reconsume_times": "maxReconsumeTimes",
        "broker_name": "bname",
    },
):
    """SEND_MESSAGE with long names (10)."""

    CODE: ClassVar[int] = RequestCode.SEND_MESSAGE
    RESPONSE = SendMessageResponseHeader

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str = ""
    reconsume_times: Int32 = 0
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    batch: bool = False
    broker_name: str | None = None


class SendMessageRequestHeaderV2(
    Header,
    kw_only=True,
    rename={
        "producer_group": "a",
        "topic": "b",
        "default_topic": "c",
        "default_topic_queue_nums": "d",
        "queue_id": "e",
        "sys_flag": "f",
        "born_timestamp": "g",
        "flag": "h",
        "properties": "i",
        "reconsume_times": "j",
        "unit_mode": "k",
        "max_reconsume_times": "l",
        "batch": "m",
        "broker_name": "n",
    },
):
    """SEND_MESSAGE_V2 (310), letters for names; also the header of SEND_BATCH_MESSAGE (320)."""

    CODE: ClassVar[int] = RequestCode.SEND_MESSAGE_V2
    RESPONSE = SendMessageResponseHeader

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    """Negative: the broker picks a random write queue."""

    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str = ""
    reconsume_times: Int32 = 0
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    batch: bool = False
    broker_name: str | None = None


class SendBatchMessageRequestHeader(
    SendMessageRequestHeaderV2,
    kw_only=True,
):
    """SEND_BATCH_MESSAGE (320): the same letters."""

    CODE: ClassVar[int] = RequestCode.SEND_BATCH_MESSAGE


class ConsumerSendMsgBackRequestHeader(
    Header,
    kw_only=True,
):
    """CONSUMER_SEND_MSG_BACK (36): deliver this message again, later (B-80)."""

    CODE: ClassVar[int] = RequestCode.CONSUMER_SEND_MSG_BACK

    offset: Int64
    """Physical offset of the message in the commit log."""

    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    bname: str | None = None
