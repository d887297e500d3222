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
            "Age of a half message at which the broker first asks the producer whether to "
            "commit the message (transaction check)."
        ),
        rule="B-107",
        rocketmq_name="transactionTimeOut",
        live=True,
        within=(0, inf),
    )
    transaction_check_max: int = option(
        15,
        help=(
            "How often the broker may ask a producer about a half message. After that, the "
            "broker moves the message to the topic TRANS_CHECK_MAX_TIME_TOPIC."
        ),
        rule="B-107",
        live=True,
        within=(0, inf),
    )
    transaction_check_interval_ms: int | None = option(
        None,
        unit="ms",
        help=(
            "Time between two rounds of transaction checks. Default: 30000, or 60000 in "
            "profile 4.9."
        ),
        rule="B-106",
        rocketmq_name="transactionCheckInterval",
        live=True,
        within=(100, inf),
    )
    transaction_metric_flush_interval_ms: int | None = option(
        None,
        unit="ms",
        help=(
            "Time between two writes of the file that counts open transactions. Default: "
            "10000, or 3000 in profile 5.3. In profile 4.9, the file is never written."
        ),
        rule="X-50",
        rocketmq_name="transactionMetricFlushInterval",
        live=True,
        within=(100, inf),
    )
    transaction_op_msg_max_size: int = option(
        4_096,
        help=(
            "Size in characters at which an op record is written at once. An op record "
            "lists transactions that have ended."
        ),
        rule="X-25",
        live=True,
        within=(1, inf),
    )
    transaction_op_batch_interval_ms: int = option(
        3_000,
        unit="ms",
        help=(
            "Time between two writes of op records, which list the transactions that have "
            "ended. With SYNC_FLUSH, op records are written at once."
        ),
        rule="X-25",
        rocketmq_name="transactionOpBatchInterval",
        live=True,
        within=(0, inf),
    )
