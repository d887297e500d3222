"""Options of transactions. They are part of `BrokerConfig`."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from pocketmq.runtime.configuration.options import option


@dataclass(frozen=True, kw_only=True)
class TransactionOptions:
    """Transactions: half messages, their checks and their op records."""

    reject_transaction_message: bool = option(
        False,
        help="Refuse half messages.",
        rule="B-100",
        live=True,
    )
    transaction_time_out_ms: int = option(
        6_000,
        unit="ms",
        help=(
            "Age at which the broker first asks the producer about a half message "
            "(transaction check)."
        ),
        rule="B-107",
        rocketmq_name="transactionTimeOut",
        live=True,
        within=(0, inf),
    )
    transaction_check_max: int = option(
        15,
        help="Maximum number of checks of a half message. Then the broker gives it up.",
        rule="B-107",
        live=True,
        within=(0, inf),
    )
    transaction_check_interval_ms: int | None = option(
        None,
        unit="ms",
        help="Interval of transaction checks; default: by profile.",
        rule="B-106",
        rocketmq_name="transactionCheckInterval",
        live=True,
        within=(100, inf),
    )
    transaction_metric_flush_interval_ms: int | None = option(
        None,
        unit="ms",
        help=(
            "Time between two writes of the counts of open transactions. Default: by profile. "
            "Profile 4.9 writes none."
        ),
        rule="X-50",
        rocketmq_name="transactionMetricFlushInterval",
        live=True,
        within=(100, inf),
    )
    transaction_op_msg_max_size: int = option(
        4_096,
        help="An op record of at least this many characters is written at once.",
        rule="X-25",
        live=True,
        within=(1, inf),
    )
    transaction_op_batch_interval_ms: int = option(
        3_000,
        unit="ms",
        help="Time between two writes of op records. With SYNC_FLUSH they are written at once.",
        rule="X-25",
        rocketmq_name="transactionOpBatchInterval",
        live=True,
        within=(0, inf),
    )
