"""Builds the transactions subject."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.broker.core import BrokerCore, defer
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.groups.assembly import Groups
from pocketmq.broker.offsets.assembly import Offsets
from pocketmq.broker.store import FlushDiskType
from pocketmq.broker.store.stored_message import StoredMessage
from pocketmq.broker.storing.assembly import Storing
from pocketmq.broker.subject import Periodically, Service, Subject
from pocketmq.broker.tables.periodic_table import PeriodicTable
from pocketmq.broker.topics.assembly import Topics
from pocketmq.broker.transactions.check_round import CheckLimits
from pocketmq.broker.transactions.check_service import TransactionCheck
from pocketmq.broker.transactions.counts import TransactionCounts, TransactionMetrics
from pocketmq.broker.transactions.decisions import Decisions
from pocketmq.broker.transactions.end_processor import EndTransactionProcessor
from pocketmq.broker.transactions.half_messages import add_to_half, is_half, to_half
from pocketmq.broker.transactions.op_batches import OpBatches, OpLimits
from pocketmq.broker.transactions.op_writer import OpWriter
from pocketmq.broker.transactions.questions import Questions
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.validation import (
    HALF_TOPIC,
    OP_HALF_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
)
from pocketmq.runtime.periodic import PeriodicService


@dataclass(frozen=True, slots=True, kw_only=True)
class Transactions(Subject):
    """The transactions."""

    counts: TransactionCounts | None
    """None: no file holds them, so that they are not known after a restart (X-50)."""


def assemble_transactions(
    core: BrokerCore, topics: Topics, groups: Groups, offsets: Offsets, storing: Storing
) -> Transactions:
    """Rewrites sends with TRAN_MSG into half messages."""
    profile, clock, store = core.profile.broker, core.clock, core.store
    decisions, counts = Decisions(), TransactionCounts(core.stats.meters)
    core.signals.topic_deleted.connect(counts.forget)
    flush_s = profile.transaction_counts_flush_s
    saved: tuple[Service, ...] = ()
    if flush_s is not None:
        file = core.table_file(
            "transactionMetrics", TransactionMetrics, counts.load, counts.wrapper
        )

        def saved_every_s() -> float:
            wanted_ms = core.config.transaction_metric_flush_interval_ms
            return flush_s if wanted_ms is None else wanted_ms / 1000

        saved = (PeriodicTable(file, counts.unsaved, clock, saved_every_s, first_s=None),)
    at_once = store.config.flush_disk_type is FlushDiskType.SYNC_FLUSH

    def op_limits() -> OpLimits:
        config = core.config
        return OpLimits(
            config.transaction_op_msg_max_size if profile.transaction_ops_batched else 1,
            config.transaction_op_batch_interval_ms / 1000,
        )

    def check_limits() -> CheckLimits:
        config = core.config
        return CheckLimits(
            config.transaction_time_out_ms,
            config.transaction_check_max,
            store.config.file_reserved_time_h * 3_600_000,
            profile.half_is_young_at_its_age,
        )

    def interval_s() -> float:
        default_ms = profile.transaction_check_interval_ms
        return (core.config.transaction_check_interval_ms or default_ms) / 1000

    ops = OpWriter(
        OpBatches(op_limits),
        storing.puts,
        core.address,
        clock,
        # A sender that waits for the disk must not be asked again after a kill.
        defer if at_once or not profile.transaction_ops_batched else None,
    )

    def ensure(topic: str) -> None:
        if topics.configs.get(topic) is None:
            topics.configs.ensure_system_topic(topic, queue_nums=1, now_ms=clock.time_ms())

    def to_half_topic(message: StoredMessage, properties: dict[str, str], now_ms: int) -> bool:
        delayed_retries = profile.delayed_retries_are_halves
        if not is_half(message, properties, delayed_retries=delayed_retries):
            return False
        open_half(message, now_ms)
        to_half(message, properties, names_transaction=profile.half_names_transaction)
        return True

    def sent_half(message: StoredMessage, now_ms: int) -> None:
        open_half(message, now_ms)
        add_to_half(message, names_transaction=profile.half_names_transaction)

    def open_half(message: StoredMessage, now_ms: int) -> None:
        if core.config.reject_transaction_message:
            raise RequestRefusedError(
                ResponseCode.NO_PERMISSION,
                f"the broker[{core.address}] sending transaction message is forbidden",
            )
        ensure(HALF_TOPIC)
        ensure(OP_HALF_TOPIC)
        if message.uniq_key:
            decisions.opened(message.uniq_key)
        counts.change(message.topic, 1, now_ms)

    def given_up(half: MessageExt) -> None:
        ensure(TRANS_CHECK_MAX_TIME_TOPIC)
        counts.change(half.properties.get(names.REAL_TOPIC), -1, clock.time_ms())

    storing.of_sends.add(to_half_topic)
    storing.halves.connect(sent_half)
    check = TransactionCheck(
        store,
        storing.puts,
        offsets.table,
        Questions(groups.producers, core.config.name),
        decisions,
        check_limits,
        clock,
        given_up,
    )
    walks = PeriodicService("check transactions", clock, interval_s, check.run)
    end = EndTransactionProcessor(
        store,
        storing.puts,
        ops,
        decisions,
        clock,
        timeout_ms=lambda: core.config.transaction_time_out_ms,
        counts=counts,
        names_real_topic=profile.committed_names_real_topic,
    )

    def role_changed() -> None:
        if not core.role.leads:
            end.forget()
            check.forget()

    core.signals.role_changed.connect(role_changed)
    return Transactions(
        counts=None if flush_s is None else counts,
        processors=(end,),
        services=(*saved, ops, core.role.while_leading(Periodically(walks))),
    )
