"""Where the brokers and stores of RocketMQ 4.9 and 5.x differ."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerProfile:
    """What a broker and its store ask of their profile."""

    invalid_parameter_code: int
    """Illegal topic or queue id: INVALID_PARAMETER (29), or in 4.9 SYSTEM_ERROR (1) (B-110)."""
    group_name_max_chars: int | None
    """Longest group that a broker creates by itself; None: it does not look (B-40)."""
    created_groups_are_checked: bool
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200) refuses an illegal or too long name (B-40)."""
    groups_have_retry_policy: bool
    """A group is shown and written with a `groupRetryPolicy`, an empty one by default (B-40)."""
    retry_topic_max_chars: int
    """Longest `%RETRY%` and `%DLQ%` topic that a request may name (B-110, E-71)."""
    stored_retry_topic_max_bytes: int
    """Longest `%RETRY%` topic that the store takes; of all others 127 bytes (S-10)."""
    attributes_are_read: bool
    """Topics and groups have attributes; 4.9 ignores attributes in a request (E-62, E-65)."""
    fields_of_5x: bool
    """Answers with topics, groups and progress have the fields that came with 5.x: `attributes`,
    `stateVersion`, `pullOffset`, ... (E-60, E-62, E-65)."""
    permission_replaces_topics: bool
    """Where a broker may not read or write, its permission is registered in place of each topic's,
    without order and flags; else each topic lacks what the broker lacks (B-5)."""
    order_is_read: bool
    """UPDATE_AND_CREATE_TOPIC (17) says whether a topic is ordered; in 4.9 only a name server's
    order table does (E-62)."""
    order_table_is_whole: bool
    """A topic that a name server's order table lacks is not ordered any more (B-8)."""
    retry_topics_follow_order: bool
    """A heartbeat makes `%RETRY%group` ordered if a topic of the group is, and a send back makes it
    not so; else a retry topic is never ordered, and one that is there stays as it is (B-21)."""
    heartbeat_v2: bool
    """Heartbeat replies carry IS_SUPPORT_HEART_BEAT_V2 and IS_SUB_CHANGE (B-21, B-29)."""
    register_timeout_ms: int
    """How long a broker waits for all its name servers to take a registration (B-4)."""
    register_created_topics_incrementally: bool
    """An auto-created topic registers itself alone, not the whole table (B-6)."""
    check_offset_commits: bool
    """UPDATE_CONSUMER_OFFSET (15) refuses unknown groups and topics (B-33)."""
    deleted_topics_take_offsets: bool
    """A deleted topic takes its offsets and its pop retry topics along (B-16, M-16)."""
    offset_of_empty_queue: Literal["zero", "not_found"]
    """QUERY_CONSUMER_OFFSET (14) without a stored value, in a queue without messages: 0, or
    QUERY_NOT_FOUND (22) (B-34.3)."""
    set_zero_is_read: bool
    """QUERY_CONSUMER_OFFSET (14) may say `setZeroIfNotFound` = false, and gets QUERY_NOT_FOUND (22)
    instead of 0 (B-34.2)."""
    notify_broadcast_groups: bool
    """Members of a broadcasting group are notified of changes (B-24, B-26)."""
    note_broadcast_offsets: bool
    """A broker notes where members of broadcast groups pull, for proxies (B-36)."""
    dlq_when_retries_equal_max: bool
    """A plain send to `%RETRY%` turns to `%DLQ%` at times >= max, not only above it (B-86).

    CONSUMER_SEND_MSG_BACK (36) uses >= in both (B-83)."""
    dlq_when_group_holds_locks: bool
    """A plain send to `%RETRY%` turns to `%DLQ%` when the group has any live queue lock (B-86)."""
    dlq_by_send_waits: bool
    """What a plain send puts into `%DLQ%` keeps its DELAY and waits by it, or gets -1 (B-86)."""
    region_is_stored: bool
    """A message is stored with MSG_REGION and TRACE_ON, as its answer has them; 4.9 does that only
    for hooks of a broker's own code (B-18, R-11)."""
    wait_is_stored: bool
    """WAIT stays among the properties of a message that is stored as it was sent (B-18)."""
    batches_are_stamped: bool
    """The messages of a batch get the properties of the broker (B-19)."""
    retry_topics_take_batches: bool
    """A batch may go to a retry topic (B-19)."""
    sends_tell_transaction_id: bool
    """Answers to sends carry `transactionId`, the message's UNIQ_KEY."""
    write_offset_moved_event: bool
    """PULL_OFFSET_MOVED (21) of a master is also stored in OFFSET_MOVED_EVENT (B-65)."""
    transaction_counts_flush_s: float | None
    """Interval at which `transactionMetrics` is written; None: there is no such file, nor a figure
    of open half messages (X-50)."""
    transaction_check_interval_ms: int
    """Between two rounds of checks on half messages (B-106)."""
    delayed_retries_are_halves: bool
    """A retry with a delay is a half message too when it has TRAN_MSG (B-100, X-10)."""
    half_ends_in_its_time: bool
    """Once the immunity time that a half message asked for is over, only an answer to a check
    decides it; any other is refused with ILLEGAL_OPERATION (604) (B-102)."""
    half_is_young_at_its_age: bool
    """A half message exactly as old as its immunity time is not checked yet (X-34)."""
    transaction_ops_batched: bool
    """Op messages list several half offsets (B-105)."""
    server_side_reset_offset: bool
    """A reset waits on the broker for the next pull; else it is pushed to the consumers (B-34)."""
    system_topics_of_5x: bool
    """The broker also makes the topics of pop, timers and transactions at boot (E-70)."""
    system_topics_of_rocksdb: bool
    """And two for half messages in RocksDB, which nothing comes into (E-70)."""
    arbitrary_delay: bool
    """`TIMER_*` properties delay by milliseconds (B-96)."""
    half_names_transaction: bool
    """A half message gets its unique key as `__transactionId__` too (X-1, X-10)."""
    committed_names_real_topic: bool
    """A committed message keeps REAL_TOPIC and REAL_QID among its stored properties (X-1)."""
    cancel_names_topic: bool
    """The cancel of a timer names its message by topic and unique key, not by the key (T-136)."""

    filters_test_texts: bool
    """SQL92 has CONTAINS, STARTSWITH and ENDSWITH, which are names before 5.1.4 (Q-3)."""
    pulls_tell_sys_flags: bool
    """Answers to pulls carry `topicSysFlag` and `groupSysFlag`, and those of NO_PERMISSION (16)
    `forbiddenType`."""
    plain_acl: bool
    """`aclEnable` has an effect: ACL 1.0, which 5.3.3 has no more (Y-20)."""
    longest_prefix_decides: bool
    """Of two rules for prefixes the longer decides, and Deny of two equal ones; in 5.3 the shorter,
    and Allow (Y-45)."""
    retry_sends_may_name_group: bool
    """A send to `%RETRY%` needs Sub of the group that it names, not of the topic's own (Y-43)."""
    message_priorities: bool
    """`_SYS_MSG_PRIORITY_` chooses a message's queue, and pops of a topic of type PRIORITY read the
    highest queue first (V-2, V-3)."""
    pop_ring_goes_down: bool
    """A pop of any queue goes from queue to queue downwards, where `priorityOrderAsc` is on
    (K-33)."""
    pops_can_be_suspended: bool
    """A check point says whether its revival counts as a try (K-57), and a NOTIFICATION (200054)
    may ask for messages that match an expression (K-66)."""
    revived_names_group: bool
    """A popped message that comes again has its group in ORIGIN_GROUP (K-90)."""
    forgets_points_of_missing_groups: bool
    """A check point in memory is dropped where its group does not exist and is not made (K-102)."""

    # -- replication ------------------------------------------------------------------------

    sync_master_needs_slave: bool
    """A SYNC_MASTER waits for one slave, and answers SLAVE_NOT_AVAILABLE (11) without one; else it
    waits for `inSyncReplicas` (B-140, B-141)."""
    slave_rejects_sends: bool
    """A slave answers SYSTEM_BUSY (2) to sends; else SERVICE_NOT_AVAILABLE (14) (H-3)."""
    slaves_take_pulled_offsets: bool
    """A slave commits the offset that a pull carries (B-35)."""
    slaves_wake_pulls: bool
    """What a slave gets from its master wakes held pulls; else they wait for the next look, which
    is every 5 s (B-74)."""
    slave_sync_s: float
    """Interval at which a slave fetches the master's tables (B-120)."""

    # -- store ------------------------------------------------------------------------------

    search_nearest_time: bool
    """Offset by time takes the neighbour nearer in time, not a boundary (S-40, S-41)."""
    tags_are_indexed: bool
    """The index has messages under their tag too, and QUERY_MESSAGE (12) finds them by it when its
    `indexType` is `T` (S-22, S-46, S-48)."""
    pid_in_abort_file: bool
    """The `abort` file holds the process id (S-60)."""
    full_down_to_forcible: bool
    """A disk that was full takes messages again at the forcible level (85 %), not as soon as it is
    below the warning level (90 %) (B-166)."""


BROKER_4_9 = BrokerProfile(
    invalid_parameter_code=1,
    group_name_max_chars=None,
    created_groups_are_checked=False,
    groups_have_retry_policy=False,
    retry_topic_max_chars=127,
    stored_retry_topic_max_bytes=127,
    attributes_are_read=False,
    fields_of_5x=False,
    permission_replaces_topics=True,
    order_is_read=False,
    order_table_is_whole=True,
    retry_topics_follow_order=False,
    heartbeat_v2=False,
    register_timeout_ms=6_000,
    register_created_topics_incrementally=False,
    check_offset_commits=False,
    deleted_topics_take_offsets=False,
    offset_of_empty_queue="zero",
    set_zero_is_read=False,
    notify_broadcast_groups=True,
    note_broadcast_offsets=False,
    dlq_when_retries_equal_max=True,
    dlq_when_group_holds_locks=False,
    dlq_by_send_waits=True,
    region_is_stored=False,
    wait_is_stored=False,
    batches_are_stamped=True,
    retry_topics_take_batches=True,
    sends_tell_transaction_id=False,
    write_offset_moved_event=True,
    transaction_counts_flush_s=None,
    transaction_check_interval_ms=60_000,
    delayed_retries_are_halves=True,
    half_ends_in_its_time=False,
    half_is_young_at_its_age=False,
    transaction_ops_batched=False,
    server_side_reset_offset=False,
    system_topics_of_5x=False,
    system_topics_of_rocksdb=False,
    arbitrary_delay=False,
    half_names_transaction=False,
    committed_names_real_topic=True,
    cancel_names_topic=True,
    filters_test_texts=False,
    pulls_tell_sys_flags=False,
    plain_acl=True,
    longest_prefix_decides=False,
    retry_sends_may_name_group=True,
    message_priorities=False,
    pop_ring_goes_down=False,
    pops_can_be_suspended=False,
    revived_names_group=False,
    forgets_points_of_missing_groups=False,
    sync_master_needs_slave=True,
    slave_rejects_sends=False,
    slaves_take_pulled_offsets=False,
    slaves_wake_pulls=False,
    slave_sync_s=10.0,
    search_nearest_time=True,
    tags_are_indexed=False,
    pid_in_abort_file=False,
    full_down_to_forcible=False,
)
"""RocketMQ 4.9.8."""

BROKER_5_3 = BrokerProfile(
    invalid_parameter_code=29,
    group_name_max_chars=255,
    created_groups_are_checked=False,
    groups_have_retry_policy=True,
    retry_topic_max_chars=127,
    stored_retry_topic_max_bytes=255,
    attributes_are_read=True,
    fields_of_5x=True,
    permission_replaces_topics=False,
    order_is_read=True,
    order_table_is_whole=False,
    retry_topics_follow_order=True,
    heartbeat_v2=True,
    register_timeout_ms=24_000,
    register_created_topics_incrementally=True,
    check_offset_commits=True,
    deleted_topics_take_offsets=True,
    offset_of_empty_queue="not_found",
    set_zero_is_read=True,
    notify_broadcast_groups=False,
    note_broadcast_offsets=True,
    dlq_when_retries_equal_max=False,
    dlq_when_group_holds_locks=True,
    dlq_by_send_waits=False,
    region_is_stored=True,
    wait_is_stored=True,
    batches_are_stamped=True,
    retry_topics_take_batches=False,
    sends_tell_transaction_id=True,
    write_offset_moved_event=False,
    transaction_counts_flush_s=3.0,
    transaction_check_interval_ms=30_000,
    delayed_retries_are_halves=False,
    half_ends_in_its_time=True,
    half_is_young_at_its_age=False,
    transaction_ops_batched=True,
    server_side_reset_offset=True,
    system_topics_of_5x=True,
    system_topics_of_rocksdb=False,
    arbitrary_delay=True,
    half_names_transaction=True,
    committed_names_real_topic=True,
    cancel_names_topic=True,
    filters_test_texts=True,
    pulls_tell_sys_flags=True,
    plain_acl=False,
    longest_prefix_decides=False,
    retry_sends_may_name_group=True,
    message_priorities=False,
    pop_ring_goes_down=False,
    pops_can_be_suspended=False,
    revived_names_group=False,
    forgets_points_of_missing_groups=False,
    sync_master_needs_slave=False,
    slave_rejects_sends=True,
    slaves_take_pulled_offsets=True,
    slaves_wake_pulls=True,
    slave_sync_s=60.0,
    search_nearest_time=False,
    tags_are_indexed=False,
    pid_in_abort_file=True,
    full_down_to_forcible=True,
)
"""RocketMQ 5.2.0 to 5.3."""

BROKER_5_5 = replace(
    BROKER_5_3,
    group_name_max_chars=120,
    created_groups_are_checked=True,
    groups_have_retry_policy=True,
    retry_topic_max_chars=255,
    batches_are_stamped=False,
    transaction_counts_flush_s=10.0,
    system_topics_of_rocksdb=True,
    half_is_young_at_its_age=True,
    committed_names_real_topic=False,
    cancel_names_topic=False,
    longest_prefix_decides=True,
    retry_sends_may_name_group=False,
    message_priorities=True,
    pop_ring_goes_down=True,
    tags_are_indexed=True,
    pops_can_be_suspended=True,
    revived_names_group=True,
    forgets_points_of_missing_groups=True,
)
"""RocketMQ 5.5."""
