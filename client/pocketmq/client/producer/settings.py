"""Options of a producer besides its group (P-1 to P-70)."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.protocol.compression import DEFAULT_LEVEL, DEFAULT_MAX_BODY_BYTES, CompressionKind
from pocketmq.protocol.messages.validation import AUTO_CREATE_TOPIC
from pocketmq.runtime.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """A producer's options with their defaults.

    Raises:
        ConfigError: a value cannot be used.
    """

    send_timeout_ms: int = 3_000
    """Real milliseconds for all tries of a send together (P-40)."""
    retry_times_when_send_failed: int = 2
    """Tries after the first (P-40)."""
    retry_another_broker_when_not_store_ok: bool = False
    """Also try again on FLUSH_DISK_TIMEOUT (10) and the codes of slaves (11, 12) (P-42)."""
    send_timeout_per_request_ms: int | None = None
    """Bounds every try but the last; None for no bound (5.x)."""
    max_message_size: int = DEFAULT_MAX_BODY_BYTES
    """Largest body in bytes, before compression (P-22)."""
    compress_body_over: int = 4_096
    """Bodies of at least so many bytes are compressed (P-44)."""
    compression: str = "zlib"
    """`zlib`, `lz4` or `zstd`."""
    compression_level: int = DEFAULT_LEVEL
    """As the library counts."""
    send_latency_fault_enable: bool = False
    """Learn which brokers are slow and avoid them (P-32, P-33)."""
    start_detector_enable: bool = False
    """Probe brokers that failed, so that they come back early (5.x, P-38)."""
    create_topic_key: str = AUTO_CREATE_TOPIC
    """Topic whose queues a new topic begins with (P-14)."""
    default_topic_queue_nums: int = 4
    """Queues that a new topic is to get (P-14)."""
    send_smart_msg: bool = True
    """Send headers with one-letter names: SEND_MESSAGE_V2 (310), not SEND_MESSAGE (10) (P-43)."""

    def __post_init__(self) -> None:
        if self.compression.upper() not in CompressionKind.__members__:
            kinds = ", ".join(kind.name.lower() for kind in CompressionKind)
            raise ConfigError(
                "compression", f"there is no {self.compression!r}", advice=f"choose from {kinds}"
            )

    @property
    def compression_kind(self) -> CompressionKind:
        """What `compression` names."""
        return CompressionKind[self.compression.upper()]

    @property
    def detects_faults(self) -> bool:
        """Whether failed brokers are probed; without fault mode nobody would ask (P-38)."""
        return self.send_latency_fault_enable and self.start_detector_enable
