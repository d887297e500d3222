"""Builds the transactions subject."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.broker.core import BrokerCore, defer
from pocketmq.broker.groups.assembly import Groups
from pocketmq.broker.offsets.assembly import Offsets
from pocketmq.broker.store import FlushDiskType
from pocketmq.broker.storing.assembly import Storing
from pocketmq.broker.subject import Periodically, Service, Subject
from pocketmq.broker.tables.periodic_table import PeriodicTable
from pocketmq.broker.topics.assembly import Topics
from pocketmq.broker.transactions.check_round import CheckLimits
from pocketmq.broker.transactions.check_service import TransactionCheck
from pocketmq.broker.transactions.counts import TransactionCounts, TransactionMetrics
from pocketmq.broker.transactions.decisions import Decisions
from pocketmq.broker.transactions.end_processor import EndTransactionProcessor
from pocketmq.broker.transactions.half_sends import HalfSends
from pocketmq.broker.transactions.op_batches import OpBatches, OpLimits
from pocketmq.broker.transactions.op_writer import OpWriter
from pocketmq.broker.transactions.questions import Questions
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
    # 4.9 has no such file: its counts are lost at a restart.
    if flush_s is not None:
        file = core.table_file(
            "transactionMetrics", TransactionMetrics, counts.load, counts.wrapper
        )

        # A function, because the option may change at run time.
        def saved_every_s() -> float:
            wanted_ms = core.config.transaction_metric_flush_interval_ms
            return flush_s if wanted_ms is None else wanted_ms / 1000

        saved = (PeriodicTable(file, counts.unsaved, clock, saved_every_s, first_s=None),)
    at_once = store.config.flush_disk_type is FlushDiskType.SYNC_FLUSH

    def op_limits() -> OpLimits:
        config = core.config
        return OpLimits(
            # With 1, each offset gets its own record, the form that 4.9 and 5.0 read.
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
        # The option, or else the profile's default (B-106).
        return (core.config.transaction_check_interval_ms or default_ms) / 1000

    ops = OpWriter(
        OpBatches(op_limits),
        storing.puts,
        core.address,
        clock,
        # With SYNC_FLUSH, op records are written at once: after a kill, the producer of a decided
        # transaction must not be asked again.
        defer if at_once or not profile.transaction_ops_batched else None,
    )

    halves = HalfSends(core, topics.configs, decisions, counts)
    storing.of_sends.add(halves.to_half_topic)
    storing.halves.connect(halves.sent_half)
    check = TransactionCheck(
        store.reads,
        storing.puts,
        offsets.table,
        Questions(groups.producers, core.config.name),
        decisions,
        check_limits,
        clock,
        halves.given_up,
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
        ends_in_its_time=profile.half_ends_in_its_time,
    )

    # A slave decides nothing, and the decisions that it remembers may be cut from its log.
    def role_changed() -> None:
        if not core.role.leads:
            end.forget()
            check.forget()

    core.signals.role_changed.connect(role_changed)
    return Transactions(
        counts=None if flush_s is None else counts,
        processors=(end,),
        # Only the master checks: a slave would ask about messages that its master has decided.
        services=(*saved, ops, core.role.while_leading(Periodically(walks))),
    )
