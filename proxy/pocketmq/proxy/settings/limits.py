"""What the proxy lets through and tells SDKs, with the defaults of RocketMQ's (G-113)."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.protocol.budget import Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """One proxy's; bytes and milliseconds, unless a name says otherwise."""

    max_message_size: int
    clients_remembered: int
    """Clients whose settings are kept at once; above it the oldest's are forgotten."""
    topics_per_client: int
    """That its settings name; each costs a look at its rules, and a producer's asks brokers."""
    settings_bytes: int
    """Of all clients together, as `Client` counts them; above it the oldest's are forgotten."""
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
    client_expire_ms: int = 120_000
    """A client that was silent for so long is gone (G-41)."""

    @classmethod
    def of(cls, budget: Budget, max_message_size: int) -> Limits:
        """The limits of a proxy with these options."""
        return cls(
            max_message_size=max_message_size,
            clients_remembered=budget.grpc_clients,
            topics_per_client=budget.grpc_topics,
            settings_bytes=budget.grpc_clients_bytes,
        )
