"""What the proxy lets through and tells SDKs, with the defaults of RocketMQ's (G-113)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """One proxy's; bytes and milliseconds, unless a name says otherwise."""

    max_message_size: int = 4 * 1024 * 1024
    user_property_max_num: int = 128
    max_user_property_size: int = 16 * 1024
    max_message_group_size: int = 64
    """A group has fewer bytes than this."""
    max_delay_time_ms: int = 24 * 3_600_000
    max_transaction_recovery_s: int = 3_600
    producer_max_attempts: int = 3
    producer_backoff_initial_ms: int = 10
    producer_backoff_max_ms: int = 1_000
    producer_backoff_multiplier: float = 2.0
    max_long_polling_ms: int = 20_000
    receive_batch_size: int = 32
    transaction_data_expire_ms: int = 30_000
    transaction_data_max_num: int = 15
    """Half messages that are remembered of one transaction id."""
    transactions_remembered: int = 100_000
    """Transaction ids that are remembered at once; above it the oldest is forgotten."""
    clients_remembered: int = 100_000
    """Clients whose settings are kept at once; above it the oldest's are forgotten."""
    settings_bytes: int = 128 * 1024 * 1024
    """Settings and ids of all clients together, as sent; above it the oldest's are forgotten."""
    client_expire_ms: int = 120_000
    """A client that was silent for so long is gone (G-41)."""


DEFAULT_LIMITS = Limits()
