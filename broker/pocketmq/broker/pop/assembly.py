"""Builds the pop subject."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.core import BrokerCore
from pocketmq.broker.filters.assembly import Filters
from pocketmq.broker.groups.assembly import Groups
from pocketmq.broker.offsets.assembly import Offsets
from pocketmq.broker.pop.ack_processor import AckProcessor
from pocketmq.broker.pop.assignment_processor import AssignmentProcessor
from pocketmq.broker.pop.assignments import RequestModes
from pocketmq.broker.pop.checks import PopChecks
from pocketmq.broker.pop.merge import MergeLimits, PopMerge
from pocketmq.broker.pop.merge_service import MergeService
from pocketmq.broker.pop.order_service import OrderService
from pocketmq.broker.pop.orders import ConsumerOrders, OrderTable
from pocketmq.broker.pop.pop_processor import NotificationProcessor, PopExpressions, PopProcessor
from pocketmq.broker.pop.pop_reads import Popper
from pocketmq.broker.pop.priorities import Priorities
from pocketmq.broker.pop.progress import PopProgress
from pocketmq.broker.pop.revive_log import ReviveLog
from pocketmq.broker.pop.revive_service import ReviveService
from pocketmq.broker.pop.route_cache import RouteCache
from pocketmq.broker.pop.taken_points import TakenPoints
from pocketmq.broker.storing.assembly import Storing
from pocketmq.broker.subject import Subject
from pocketmq.broker.tables.periodic_table import PeriodicTable
from pocketmq.broker.tables.saved_tables import SavedTable
from pocketmq.broker.timers.assembly import Timers
from pocketmq.broker.topics.assembly import Topics
from pocketmq.protocol.bodies.pop import MessageRequestModes, RequestMode
from pocketmq.protocol.messages.validation import REVIVE_TOPIC_PREFIX
from pocketmq.protocol.transport.network import Network

CLEANED_PER_SAVE = 4_000
"""Queues of ordered pops that are looked at, each time they are saved, whether they are used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pop(Subject):
    """What is handed out."""

    progress: PopProgress
    orders: ConsumerOrders
    modes: RequestModes
    buffer: PopMerge | None = None
    """Check points in memory; None in 4.9, which has no pop, as the next."""
    revive: ReviveService | None = None


def assemble_pop(
    core: BrokerCore,
    topics: Topics,
    groups: Groups,
    offsets: Offsets,
    filters: Filters,
    storing: Storing,
    timers: Timers,
    network: Network,
) -> Pop:
    """Listens to `message_arrived`, `topic_deleted` and `channel_closed`. 4.9 has no pop."""
    # 4.9 gets these too; they stay empty, so that their users need not look at the profile.
    progress, orders = PopProgress(core.clock.time_ms()), ConsumerOrders()
    config = core.config

    def default_mode() -> tuple[RequestMode, int]:
        config = core.config
        return config.default_message_request_mode, config.default_pop_share_queue_num

    # A function, because both options may change while the broker runs.
    modes = RequestModes(default_mode)
    # Pop needs timers for its records (K-70), and 4.9 has neither.
    if not core.profile.broker.arbitrary_delay:
        return Pop(progress=progress, orders=orders, modes=modes)
    revive_topic = REVIVE_TOPIC_PREFIX + config.cluster_name
    revive_log = ReviveLog(core, timers.rules, revive_topic, config.revive_queue_num, storing.puts)
    checks = PopChecks(core, topics.configs, groups.configs)
    merges = MergeService(
        core,
        PopMerge(_limits_now(lambda: core.config)),
        revive_log,
        offsets.table,
        progress,
        groups.configs,
    )
    priorities = Priorities(
        topics.configs, groups.configs, enabled=core.profile.broker.message_priorities
    )
    popper = Popper(
        core, topics.configs, offsets.table, revive_log, progress, orders, merges.merge, priorities
    )
    points = TakenPoints(core, offsets.table, revive_log, progress, merges)
    expressions = PopExpressions(filters.message_filters)
    pops = PopProcessor(core, checks, popper, points, expressions)
    notifications = NotificationProcessor(core, checks, popper, expressions)
    acks = AckProcessor(
        core, checks, revive_log, offsets.table, progress, orders, pops.waiting, merges
    )
    revive = ReviveService(
        core,
        topics.configs,
        groups.configs,
        offsets.table,
        progress,
        storing,
        (revive_topic, config.revive_queue_num),
        # Until the timers have delivered all that was due, some acks may be missing (K-82).
        lambda: timers.service.is_caught_up,
    )

    def group_deleted(group: str, with_offsets: bool) -> None:
        progress.forget_group(group, with_offsets=with_offsets)
        # A group that keeps its offsets goes on behind what was handed out.
        if with_offsets:
            orders.forget_group(group)

    core.signals.topic_deleted.connect(progress.forget_topic)
    core.signals.topic_deleted.connect(orders.forget_topic)
    core.signals.group_deleted.connect(group_deleted)

    # A slave hands nothing out; the new master delivers again what was only in memory (K-104).
    def role_changed() -> None:
        if not core.role.leads:
            progress.forget()
            merges.forget()

    core.signals.role_changed.connect(role_changed)

    # Called before each save; cleans only some queues each time, as the table may be large.
    def cleaned() -> OrderTable:
        orders.clean(
            lambda topic: known.read_queue_nums if (known := topics.configs.get(topic)) else None,
            lambda group: groups.configs.get(group) is not None,
            core.clock.time_ms(),
            CLEANED_PER_SAVE,
        )
        return orders.wrapper()

    routes = RouteCache(core, network)
    modes_file = core.table_file(
        "messageRequestMode.json", MessageRequestModes, modes.load, modes.wrapper
    )
    modes_saved = SavedTable("request modes", modes_file.save, core.clock, modes_file.load)
    modes.changed.connect(modes_saved.changed)
    table = PeriodicTable(
        core.table_file("consumerOrderInfo.json", OrderTable, orders.load, cleaned),
        orders.unsaved,
        core.clock,
        config.flush_consumer_offset_interval_ms / 1000,
    )
    return Pop(
        progress=progress,
        orders=orders,
        modes=modes,
        buffer=merges.merge,
        revive=revive,
        readers=(pops, notifications),
        processors=(
            acks,
            AssignmentProcessor(core, topics.configs, groups, modes, routes, modes_saved),
        ),
        services=(
            table,
            modes_saved,
            routes,
            pops.waiting,
            notifications.waiting,
            OrderService(core.clock, orders, pops.waiting),
            # Only the master delivers again; with a slave, every message would be stored twice.
            core.role.while_leading(revive),
            merges,
        ),
    )


def _limits_now(config: Callable[[], BrokerConfig]) -> Callable[[], MergeLimits]:
    """The limits as the options are now; made again when those change."""
    made_of = config()
    limits = _merge_limits(made_of)

    def now() -> MergeLimits:
        nonlocal made_of, limits
        if (known := config()) is not made_of:
            made_of, limits = known, _merge_limits(known)
        return limits

    return now


def _merge_limits(config: BrokerConfig) -> MergeLimits:
    return MergeLimits(
        enabled=config.enable_pop_buffer_merge,
        stay_ms=config.pop_ck_stay_buffer_time_ms,
        before_due_ms=config.pop_ck_stay_buffer_time_out_ms,
        max_points=config.pop_ck_max_buffer_size,
        max_points_of_queue=config.pop_ck_offset_max_queue_size,
    )
