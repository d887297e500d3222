"""Where the producers and consumers of RocketMQ 4.9 and 5.x differ."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientProfile:
    """What producers and consumers ask of their profile."""

    group_name_max_chars: int
    """Longest producer or consumer group that a client accepts (P-23)."""
    rebalance_min_interval_ms: int | None
    """Least time between two rebalances, and the wait while unbalanced; None: neither (C-20)."""
    first_pull_delay_ms: int
    """From the assignment of a queue to its first pull (C-25.4)."""
    lock_retry_delay_ms: int | None
    """Rebalance again so soon after a refused lock; None: at the next period (C-25.3, C-21)."""
    orderly_removal_wait_ms: int
    """How long a removal waits for the queue's consume lock (C-30)."""
    orderly_removal_force_after_ms: int | None
    """A removal goes on without the lock when the last one is this old; None: never (C-30)."""
    orderly_unlock_delay_ms: int
    """The unlock comes this late when messages are cached (C-30)."""
    illegal_offset_delay_ms: int
    """From PULL_OFFSET_MOVED (21) until the offset is corrected and the queue removed (C-43)."""
    freeze_offset_when_illegal: bool
    """After PULL_OFFSET_MOVED (21) the offset is frozen, and a rebalance is woken (C-43)."""
    reset_waits_for_ordered_listener: bool
    """A reset waits until the listener of an ordered queue is done, at most as long as else (C-70).
    """
    ordered_copies_count_the_next_try: bool
    """An ordered message that failed too often is sent to the retry topic with one try more than
    it had; in 4.9 with as many (C-60)."""
    skip_send_back_of_dropped: bool
    """A failed message that has left its process queue is not sent back (C-56)."""
    heartbeat_on_new_channel: bool
    """A client introduces itself to a broker as soon as it has connected, and rebalances (C-21)."""
    busy_sends_are_tried_again: bool
    """A send tries another broker after SYSTEM_BUSY (2) and GO_AWAY (1500); in 4.9 they end it
    (P-41)."""
    transactions_refuse_delays: bool
    """A delayed message is no half message; else its delay level is taken away (P-60)."""
    lite_pull_code: bool
    """Lite pull consumers send LITE_PULL_MESSAGE (361), not PULL_MESSAGE (11) (L-3)."""
    pull_names_max_bytes: bool
    """Pull requests also say how many bytes are wanted (5.1, E-22)."""
    search_names_boundary: bool
    """A search by time says LOWER (the first offset at or after it) where nothing else is wanted
    (5.1.4, S-41)."""
    fault_latency_max_ms: tuple[int, ...]
    """Latency classes, each from this value on (P-34)."""
    fault_not_available_ms: tuple[int, ...]
    """How long a broker of that class is avoided (P-34)."""
    fault_isolation_latency_ms: int
    """Latency that is looked up for an isolated broker (P-35)."""
    fault_of_client_isolates: bool
    """A try that failed in the client isolates its broker as one that the broker failed (P-37)."""
    fault_only_extends: bool
    """A good send does not free a broker early (P-36)."""
    fault_filters: bool
    """Choice by available, then reachable, then round robin, not the better half (P-32, P-33)."""

    # behaviour 55
    def not_available_ms(self, latency_ms: float, *, isolated: bool = False) -> int:
        """How long a broker is avoided after a send that took `latency_ms` (P-34, P-35)."""
        looked_up_ms = self.fault_isolation_latency_ms if isolated else latency_ms
        avoided_ms = 0
        for at_least_ms, duration_ms in zip(
            self.fault_latency_max_ms, self.fault_not_available_ms, strict=True
        ):
            if looked_up_ms >= at_least_ms:
                avoided_ms = duration_ms
        return avoided_ms


CLIENT_4_9 = ClientProfile(
    group_name_max_chars=255,
    rebalance_min_interval_ms=None,
    first_pull_delay_ms=0,
    lock_retry_delay_ms=None,
    orderly_removal_wait_ms=1_000,
    orderly_removal_force_after_ms=None,
    orderly_unlock_delay_ms=20_000,
    illegal_offset_delay_ms=10_000,
    freeze_offset_when_illegal=False,
    reset_waits_for_ordered_listener=False,
    ordered_copies_count_the_next_try=False,
    skip_send_back_of_dropped=False,
    heartbeat_on_new_channel=False,
    busy_sends_are_tried_again=False,
    transactions_refuse_delays=False,
    lite_pull_code=False,
    pull_names_max_bytes=False,
    search_names_boundary=False,
    fault_latency_max_ms=(50, 100, 550, 1_000, 2_000, 3_000, 15_000),
    fault_not_available_ms=(0, 0, 30_000, 60_000, 120_000, 180_000, 600_000),
    fault_isolation_latency_ms=30_000,
    fault_of_client_isolates=True,
    fault_only_extends=False,
    fault_filters=False,
)
"""RocketMQ 4.9.8."""

CLIENT_5_3 = ClientProfile(
    group_name_max_chars=255,
    rebalance_min_interval_ms=1_000,
    first_pull_delay_ms=500,
    lock_retry_delay_ms=500,
    orderly_removal_wait_ms=500,
    orderly_removal_force_after_ms=20_000,
    orderly_unlock_delay_ms=0,
    illegal_offset_delay_ms=0,
    freeze_offset_when_illegal=True,
    reset_waits_for_ordered_listener=False,
    ordered_copies_count_the_next_try=True,
    skip_send_back_of_dropped=True,
    heartbeat_on_new_channel=True,
    busy_sends_are_tried_again=True,
    transactions_refuse_delays=False,
    lite_pull_code=True,
    pull_names_max_bytes=True,
    search_names_boundary=True,
    fault_latency_max_ms=(50, 100, 550, 1_800, 3_000, 5_000, 15_000),
    fault_not_available_ms=(0, 0, 2_000, 5_000, 6_000, 10_000, 30_000),
    fault_isolation_latency_ms=10_000,
    fault_of_client_isolates=False,
    fault_only_extends=True,
    fault_filters=True,
)
"""RocketMQ 5.2.0 to 5.3."""

CLIENT_5_5 = replace(
    CLIENT_5_3,
    group_name_max_chars=120,
    reset_waits_for_ordered_listener=True,
    transactions_refuse_delays=True,
)
"""RocketMQ 5.5."""
