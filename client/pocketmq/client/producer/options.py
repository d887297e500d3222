"""The keyword arguments of a producer, for type checkers."""

from __future__ import annotations

from pocketmq.client.config import ClientOptions


class ProducerOptions(ClientOptions, total=False):
    """Keyword arguments of a `Producer`; see `ProducerSettings` for each one's meaning."""

    send_timeout_ms: int
    retry_times_when_send_failed: int
    retry_another_broker_when_not_store_ok: bool
    send_timeout_per_request_ms: int | None
    max_message_size: int
    compress_body_over: int
    compression: str
    compression_level: int
    send_latency_fault_enable: bool
    start_detector_enable: bool
    create_topic_key: str
    default_topic_queue_nums: int
    send_smart_msg: bool
