"""Where RocketMQ 4.9 and 5.x differ, as one value; 5.x is the default.

Each field is one difference, with the rule that explains it ([docs/rules](../../../docs/rules)).
Code asks the field and never the profile's name, so that searching for a field finds every place
where the releases differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pocketmq.runtime.errors import ConfigError

ProfileName = Literal["4.9", "5.x"]

DEFAULT_PROFILE: ProfileName = "5.x"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One line of RocketMQ releases: 4.9 as read at 4.9.8, 5.x as read at 5.3.4-SNAPSHOT."""

    name: ProfileName

    # -- protocol ---------------------------------------------------------------------------

    client_version: int
    """Version ordinal that clients and servers stamp on commands (E-7)."""
    invalid_parameter_code: int
    """Illegal topic or queue id: INVALID_PARAMETER (29), or in 4.9 SYSTEM_ERROR (1) (B-110)."""
    group_name_max_chars_client: int
    """Longest producer or consumer group that a client accepts (P-23)."""
    group_name_max_chars_broker: int | None
    """Longest group that a broker creates by itself; None: it does not look (B-40)."""
    retry_topic_max_chars: int
    """Longest `%RETRY%` and `%DLQ%` topic name (B-110, S-10)."""
    heartbeat_v2: bool
    """Heartbeat replies carry IS_SUPPORT_HEART_BEAT_V2 and IS_SUB_CHANGE (B-21, B-29)."""
    state_version_in_data_version: bool
    """DataVersion has `stateVersion`, and equality needs it (N-10, E-60)."""

    # -- name server ------------------------------------------------------------------------

    nameserver_scan_initial_delay_ms: int
    """First scan for silent brokers (N-3)."""
    nameserver_scan_period_ms: int
    """Scan for silent brokers; the worst detection is 120 s more than this (N-3, N-21)."""
    apply_topics_per_topic: bool
    """A registration is tested per topic, so a deleted route comes back with it (N-15, N-30)."""
    refuse_first_incremental_registration: bool
    """A broker unknown by id may not register just one topic (N-14)."""
    heartbeat_timeout_per_broker: bool
    """`heartbeatTimeoutMillis` of a registration overrides the 120 s (N-2)."""
    unregister_in_background: bool
    """UNREGISTER_BROKER is queued and answered at once (N-19)."""
    unregister_by_broker_id: bool
    """UNREGISTER_BROKER drops whatever address holds the broker id, not its own (N-20)."""
    live_brokers_by_cluster: bool
    """The live table is keyed by cluster and address, not by address alone (N-7)."""

    # -- broker -----------------------------------------------------------------------------

    register_timeout_ms: int
    """How long a broker waits for all its name servers to take a registration (B-4)."""
    register_created_topics_incrementally: bool
    """An auto-created topic registers itself alone, not the whole table (B-6)."""
    check_offset_commits: bool
    """UPDATE_CONSUMER_OFFSET (15) refuses unknown groups and topics (B-33)."""
    offset_of_empty_queue: Literal["zero", "not_found"]
    """QUERY_CONSUMER_OFFSET (14) without a stored value, in a queue without messages: 0, or
    QUERY_NOT_FOUND (22) (B-34.3)."""
    notify_broadcast_groups: bool
    """Members of a broadcasting group are notified of changes (B-24, B-26)."""
    note_broadcast_offsets: bool
    """A broker notes where members of broadcast groups pull, for proxies (B-36)."""
    dlq_when_retries_equal_max: bool
    """A plain send to `%RETRY%` turns to `%DLQ%` at times >= max, not only above it (B-86).

    CONSUMER_SEND_MSG_BACK (36) uses >= in both (B-83)."""
    dlq_when_group_holds_locks: bool
    """A plain send to `%RETRY%` turns to `%DLQ%` when the group has any live queue lock (B-86)."""
    write_offset_moved_event: bool
    """PULL_OFFSET_MOVED (21) of a master is also stored in OFFSET_MOVED_EVENT (B-65)."""
    transaction_check_interval_ms: int
    """Between two rounds of checks on half messages (B-106)."""
    transaction_ops_batched: bool
    """Op messages list several half offsets (B-105)."""
    server_side_reset_offset: bool
    """A reset waits on the broker for the next pull; else it is pushed to the consumers (B-34)."""
    system_topics_of_5x: bool
    """The broker also makes the topics of pop, timers and transactions at boot (E-70)."""
    arbitrary_delay: bool
    """`TIMER_*` properties delay by milliseconds (B-96)."""

    # -- store ------------------------------------------------------------------------------

    search_nearest_time: bool
    """Offset by time takes the neighbour nearer in time, not a boundary (S-40, S-41)."""
    pid_in_abort_file: bool
    """The `abort` file holds the process id (S-60)."""

    # -- client -----------------------------------------------------------------------------

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
    skip_send_back_of_dropped: bool
    """A failed message that has left its process queue is not sent back (C-56)."""
    heartbeat_on_new_channel: bool
    """A client introduces itself to a broker as soon as it has connected, and rebalances (C-21)."""
    lite_pull_code: bool
    """Lite pull consumers send LITE_PULL_MESSAGE (361), not PULL_MESSAGE (11) (L-3)."""
    pull_names_max_bytes: bool
    """Pull requests also say how many bytes are wanted (5.1, E-22)."""
    compression_kind_in_sys_flag: bool
    """A zlib body says its kind in bits 8-10 of `sysFlag`; 4.9 knows no other kind (P-44)."""
    fault_latency_max_ms: tuple[int, ...]
    """Latency classes, each from this value on (P-34)."""
    fault_not_available_ms: tuple[int, ...]
    """How long a broker of that class is avoided (P-34)."""
    fault_isolation_latency_ms: int
    """Latency that is looked up for an isolated broker (P-35)."""
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


PROFILE_4_9 = Profile(
    name="4.9",
    client_version=409,
    invalid_parameter_code=1,
    group_name_max_chars_client=255,
    group_name_max_chars_broker=None,
    retry_topic_max_chars=127,
    heartbeat_v2=False,
    state_version_in_data_version=False,
    nameserver_scan_initial_delay_ms=5_000,
    nameserver_scan_period_ms=10_000,
    apply_topics_per_topic=False,
    refuse_first_incremental_registration=False,
    heartbeat_timeout_per_broker=False,
    unregister_in_background=False,
    unregister_by_broker_id=True,
    live_brokers_by_cluster=False,
    register_timeout_ms=6_000,
    register_created_topics_incrementally=False,
    check_offset_commits=False,
    offset_of_empty_queue="zero",
    notify_broadcast_groups=True,
    note_broadcast_offsets=False,
    dlq_when_retries_equal_max=True,
    dlq_when_group_holds_locks=False,
    write_offset_moved_event=True,
    transaction_check_interval_ms=60_000,
    transaction_ops_batched=False,
    server_side_reset_offset=False,
    system_topics_of_5x=False,
    arbitrary_delay=False,
    search_nearest_time=True,
    pid_in_abort_file=False,
    rebalance_min_interval_ms=None,
    first_pull_delay_ms=0,
    lock_retry_delay_ms=None,
    orderly_removal_wait_ms=1_000,
    orderly_removal_force_after_ms=None,
    orderly_unlock_delay_ms=20_000,
    illegal_offset_delay_ms=10_000,
    freeze_offset_when_illegal=False,
    skip_send_back_of_dropped=False,
    heartbeat_on_new_channel=False,
    lite_pull_code=False,
    pull_names_max_bytes=False,
    compression_kind_in_sys_flag=False,
    fault_latency_max_ms=(50, 100, 550, 1_000, 2_000, 3_000, 15_000),
    fault_not_available_ms=(0, 0, 30_000, 60_000, 120_000, 180_000, 600_000),
    fault_isolation_latency_ms=30_000,
    fault_only_extends=False,
    fault_filters=False,
)
"""RocketMQ 4.9.8."""

PROFILE_5_X = Profile(
    name="5.x",
    client_version=479,
    invalid_parameter_code=29,
    group_name_max_chars_client=120,
    group_name_max_chars_broker=120,
    retry_topic_max_chars=255,
    heartbeat_v2=True,
    state_version_in_data_version=True,
    nameserver_scan_initial_delay_ms=5_000,
    nameserver_scan_period_ms=5_000,
    apply_topics_per_topic=True,
    refuse_first_incremental_registration=True,
    heartbeat_timeout_per_broker=True,
    unregister_in_background=True,
    unregister_by_broker_id=False,
    live_brokers_by_cluster=True,
    register_timeout_ms=24_000,
    register_created_topics_incrementally=True,
    check_offset_commits=True,
    offset_of_empty_queue="not_found",
    notify_broadcast_groups=False,
    note_broadcast_offsets=True,
    dlq_when_retries_equal_max=False,
    dlq_when_group_holds_locks=True,
    write_offset_moved_event=False,
    transaction_check_interval_ms=30_000,
    transaction_ops_batched=True,
    server_side_reset_offset=True,
    system_topics_of_5x=True,
    arbitrary_delay=True,
    search_nearest_time=False,
    pid_in_abort_file=True,
    rebalance_min_interval_ms=1_000,
    first_pull_delay_ms=500,
    lock_retry_delay_ms=500,
    orderly_removal_wait_ms=500,
    orderly_removal_force_after_ms=20_000,
    orderly_unlock_delay_ms=0,
    illegal_offset_delay_ms=0,
    freeze_offset_when_illegal=True,
    skip_send_back_of_dropped=True,
    heartbeat_on_new_channel=True,
    lite_pull_code=True,
    pull_names_max_bytes=True,
    compression_kind_in_sys_flag=True,
    fault_latency_max_ms=(50, 100, 550, 1_800, 3_000, 5_000, 15_000),
    fault_not_available_ms=(0, 0, 2_000, 5_000, 6_000, 10_000, 30_000),
    fault_isolation_latency_ms=10_000,
    fault_only_extends=True,
    fault_filters=True,
)
"""RocketMQ 5.2.0 and later."""

_PROFILES: dict[str, Profile] = {profile.name: profile for profile in (PROFILE_4_9, PROFILE_5_X)}


def profile_named(name: str) -> Profile:
    """The profile called `4.9` or `5.x`.

    Raises:
        ConfigError: There is no such profile.
    """
    try:
        return _PROFILES[name]
    except KeyError:
        raise ConfigError(
            "profile", f"there is no {name!r}", advice=f"choose from {', '.join(_PROFILES)}"
        ) from None
