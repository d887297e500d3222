"""Options of what a busy broker refuses. They are part of `BrokerConfig`."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from pocketmq.runtime.configuration.options import option


@dataclass(frozen=True, kw_only=True)
class OverloadOptions:
    """Overload: how long requests may wait, and who lags too far behind."""

    broker_fast_failure_enable: bool = option(
        True,
        help=(
            "Answer SYSTEM_BUSY (2) to a request that waited longer than the broker's "
            "waitTimeMills options allow."
        ),
        rule="B-161",
        live=True,
    )
    wait_time_mills_in_send_queue: int = option(
        200,
        unit="ms",
        help=(
            "Maximum time that a send waits in the broker before it is processed. After "
            "that, the broker refuses the send."
        ),
        rule="B-161",
        live=True,
    )
    wait_time_mills_in_pull_queue: int = option(
        5_000,
        unit="ms",
        help=(
            "Maximum time that a pull waits in the broker before it is processed. After "
            "that, the broker refuses the pull."
        ),
        rule="B-161",
        live=True,
    )
    wait_time_mills_in_heartbeat_queue: int = option(
        31_000,
        unit="ms",
        help=(
            "Maximum time that a heartbeat waits in the broker before it is processed. "
            "After that, the broker refuses the heartbeat."
        ),
        rule="B-161",
        live=True,
    )
    wait_time_mills_in_admin_broker_queue: int = option(
        5_000,
        unit="ms",
        help=(
            "Maximum time that an admin request waits in the broker before it is "
            "processed. After that, the broker refuses the request."
        ),
        rule="B-161",
        live=True,
    )
    transient_store_pool_enable: bool = option(
        False,
        help=(
            "If more bytes of the log wait to be flushed than transientStorePoolSize "
            "allows, refuse sends."
        ),
        rule="B-162",
    )
    transient_store_pool_size: int = option(
        5,
        help=(
            "Maximum size of the part of the log that is not flushed yet, counted in "
            "commit-log files. With more, sends are refused. Only used with "
            "transientStorePoolEnable."
        ),
        rule="B-162",
    )
    disable_consume_if_consumer_read_slowly: bool = option(
        False,
        help=(
            "If a group lags by more bytes than consumerFallbehindThreshold, turn off the "
            "group's permission to consume (consumeEnable)."
        ),
        rule="B-168",
        live=True,
    )
    consumer_fallbehind_threshold: int = option(
        16 * 1024**3,
        unit="bytes",
        help=(
            "Maximum lag of a group, in bytes of the log. If "
            "disableConsumeIfConsumerReadSlowly is on, a group with more lag may no longer "
            "consume."
        ),
        rule="B-168",
        live=True,
        within=(0, inf),
    )
