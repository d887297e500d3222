"""Builds the subject of a slave's tables (B-120)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.delays.assembly import Delays
from pocketmq.broker.groups.assembly import Groups
from pocketmq.broker.offsets.assembly import Offsets
from pocketmq.broker.pop.assembly import Pop
from pocketmq.broker.replication.assembly import Replication
from pocketmq.broker.slave_tables.slave_synchronize import SlaveSynchronize, Table, TakeOver
from pocketmq.broker.subject import Subject
from pocketmq.broker.timers.assembly import Timers
from pocketmq.broker.timers.layout import Checkpoint, TimerMetrics
from pocketmq.broker.topics.assembly import Topics
from pocketmq.protocol.bodies.groups import SubscriptionGroupWrapper
from pocketmq.protocol.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from pocketmq.protocol.bodies.pop import MessageRequestModes
from pocketmq.protocol.bodies.topics import TopicConfigSerializeWrapper
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.headers.groups import GetAllSubscriptionGroupsRequestHeader
from pocketmq.protocol.headers.offsets import (
    GetAllConsumerOffsetRequestHeader,
    GetAllDelayOffsetRequestHeader,
)
from pocketmq.protocol.headers.pop import GetAllMessageRequestModeRequestHeader
from pocketmq.protocol.headers.timers import (
    GetTimerCheckPointRequestHeader,
    GetTimerMetricsRequestHeader,
)
from pocketmq.protocol.headers.topics import GetAllTopicConfigRequestHeader
from pocketmq.protocol.transport.network import Network
from pocketmq.protocol.transport.remoting import RemotingClient

BodyT = TypeVar("BodyT", bound=msgspec.Struct)

TIMER_PERIOD_S = 3.0
"""Between two questions for the timer checkpoint (B-122)."""

SERVING_PERIOD_S = 10.0
"""Between two questions for the offsets, of a slave that may have to serve: with controllers
(H-71), or as acting master."""

SERVING_TICK_S = 3.0
"""The same for topics and groups: a topic that no slave knows is lost with its master."""


_SMALL = frozenset({"topics", "subscription groups"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SlaveTables(Subject):
    """The rounds of a slave."""

    tables: SlaveSynchronize
    timers: SlaveSynchronize


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """The subjects whose tables are copied."""

    topics: Topics
    groups: Groups
    offsets: Offsets
    delays: Delays
    timers: Timers
    pop: Pop


# behaviour 44
def assemble_slave_tables(
    core: BrokerCore, network: Network, replication: Replication, copied: Copied
) -> SlaveTables:
    """Listens to `master_told` and `role_changed`."""
    profile, signals = core.profile, core.signals
    client = RemotingClient(
        network,
        encoding=Encoding[core.config.encoding.upper()],
        version=profile.client_version,
        credentials=core.config.inner_credentials,
    )
    tables = [
        Table(
            "topics",
            GetAllTopicConfigRequestHeader,
            _typed(TopicConfigSerializeWrapper, copied.topics.configs.replace),
        ),
        Table(
            "consumer offsets",
            GetAllConsumerOffsetRequestHeader,
            _typed(ConsumerOffsetTable, copied.offsets.table.merge),
        ),
        Table(
            "delay offsets",
            GetAllDelayOffsetRequestHeader,
            _typed(DelayOffsetTable, copied.delays.planner.follow),
        ),
        Table(
            "subscription groups",
            GetAllSubscriptionGroupsRequestHeader,
            _typed(SubscriptionGroupWrapper, copied.groups.configs.replace),
        ),
    ]
    timers: list[Table] = []
    # 4.9 has no pop and no timers, and does not know the requests.
    if profile.broker.arbitrary_delay:
        tables.append(
            Table(
                "request modes",
                GetAllMessageRequestModeRequestHeader,
                _typed(MessageRequestModes, copied.pop.modes.replace),
            )
        )
        counts, service = copied.timers.counts, copied.timers.service
        if core.store.config.timer_wheel_enable:
            tables.append(
                Table(
                    "timer metrics",
                    GetTimerMetricsRequestHeader,
                    lambda answer: counts.load(
                        msgspec.json.decode(answer.body_view, type=TimerMetrics, strict=False)
                    ),
                )
            )
            timers.append(
                Table(
                    "timer checkpoint",
                    GetTimerCheckPointRequestHeader,
                    lambda answer: service.follow(Checkpoint.decode(bytes(answer.body_view))),
                )
            )

    def synchronize(name: str, what: list[Table], period_s: float) -> SlaveSynchronize:
        made = SlaveSynchronize(
            name,
            tuple(what),
            replication.roles,
            core.role,
            core.address,
            client,
            core.clock,
            period_s,
        )
        signals.master_told.connect(lambda _broker, _replication: made.master_told())
        signals.role_changed.connect(made.role_changed)
        return made

    may_serve = core.config.enable_controller_mode or core.config.enable_slave_acting_master
    period_s = SERVING_PERIOD_S if may_serve else profile.broker.slave_sync_s
    small = [each for each in tables if may_serve and each.name in _SMALL]
    rest = [each for each in tables if each not in small]
    all_tables = synchronize("fetch the master's tables", rest, period_s)
    topics = synchronize("fetch the master's topics", small, SERVING_TICK_S)
    checkpoint = synchronize("fetch the master's timers", timers, TIMER_PERIOD_S)
    return SlaveTables(
        tables=all_tables, timers=checkpoint, services=(all_tables, topics, checkpoint)
    )


def _typed(cls: type[BodyT], take: Callable[[BodyT], object]) -> TakeOver:
    def take_answer(answer: Command) -> None:
        take(decode_body(answer.body_view, cls, answer.encoding))

    return take_answer
