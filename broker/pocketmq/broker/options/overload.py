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
        help="Answer SYSTEM_BUSY (2) to requests that waited too long.",
        rule="B-161",
        live=True,
    )
    wait_time_mills_in_send_queue: int = option(
        200,
        unit="ms",
        help="Refuse sends that waited longer.",
        rule="B-161",
        live=True,
    )
    wait_time_mills_in_pull_queue: int = option(
        5_000,
        unit="ms",
        help="Refuse pulls that waited longer.",
        rule="B-161",
        live=True,
    )
    wait_time_mills_in_heartbeat_queue: int = option(
        31_000,
        unit="ms",
        help="Refuse heartbeats that waited longer.",
        rule="B-161",
        live=True,
    )
    wait_time_mills_in_admin_broker_queue: int = option(
        5_000,
        unit="ms",
        help="Refuse admin requests that waited longer.",
        rule="B-161",
        live=True,
    )
    transient_store_pool_enable: bool = option(
        False, help="Refuse sends while too many bytes of the log are unflushed.", rule="B-162"
    )
    transient_store_pool_size: int = option(
        5, help="Maximum size of the unflushed log, counted in commit-log files.", rule="B-162"
    )
    disable_consume_if_consumer_read_slowly: bool = option(
        False,
        help="Do not let groups consume if they lag too far behind.",
        rule="B-168",
        live=True,
    )
    consumer_fallbehind_threshold: int = option(
        16 * 1024**3,
        unit="bytes",
        help=(
            "With disableConsumeIfConsumerReadSlowly: a group that lags further behind may not "
            "consume."
        ),
        rule="B-168",
        live=True,
        within=(0, inf),
    )
