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
        help="Age of a half message before its producer is asked (transaction check).",
        rule="B-107",
        rocketmq_name="transactionTimeOut",
        live=True,
        within=(0, inf),
    )
    transaction_check_max: int = option(
        15,
        help="Most checks of a half message; after them the broker gives it up.",
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
        help="Interval at which the counts of open transactions are written; default: by profile. "
        "4.9 writes none.",
        rule="X-50",
        rocketmq_name="transactionMetricFlushInterval",
        live=True,
        within=(100, inf),
    )
    transaction_op_msg_max_size: int = option(
        4_096,
        help="Length in characters from which an op record is written at once.",
        rule="X-25",
        live=True,
        within=(1, inf),
    )
    transaction_op_batch_interval_ms: int = option(
        3_000,
        unit="ms",
        help="Interval at which op records are written; at once with SYNC_FLUSH.",
        rule="X-25",
        rocketmq_name="transactionOpBatchInterval",
        live=True,
        within=(0, inf),
    )
