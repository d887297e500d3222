"""Builds the metrics subject."""

from __future__ import annotations

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.groups.assembly import Groups
from pocketmq.broker.metrics import figures
from pocketmq.broker.metrics.figures import Figure, Figures
from pocketmq.broker.metrics.group_lag import LagReader
from pocketmq.broker.metrics.metrics_processor import MetricsProcessor
from pocketmq.broker.offsets.assembly import Offsets
from pocketmq.broker.pop.assembly import Pop
from pocketmq.broker.subject import Subject
from pocketmq.broker.timers.assembly import Timers
from pocketmq.broker.topics.assembly import Topics
from pocketmq.broker.transactions.assembly import Transactions
from pocketmq.operation import metrics


def assemble_metrics(
    core: BrokerCore,
    topics: Topics,
    groups: Groups,
    offsets: Offsets,
    timers: Timers,
    pop: Pop,
    transactions: Transactions,
) -> Subject:
    """Reads the other subjects when it is asked; counts nothing itself."""
    lags = LagReader(
        core.store.reads,
        topics.configs,
        offsets.table,
        groups.consumers,
        groups.configs,
        pop.progress,
    )

    def numbers() -> Figures:
        yield Figure(metrics.TOPIC_NUMBER, (), len(topics.configs.table))
        yield Figure(metrics.GROUP_NUMBER, (), len(groups.configs.table))
        if transactions.counts is not None:
            for topic, count in transactions.counts.table().items():
                yield Figure(metrics.HALF_MESSAGES, (topic,), count.count)

    processor = MetricsProcessor(
        numbers,
        lambda: figures.store_figures(core),
        lambda: figures.timer_figures(timers, core),
        lambda: figures.pop_figures(pop),
        lambda: figures.connection_figures(groups.consumers, groups.producers),
        lambda: figures.traffic_figures(core),
        lambda: figures.meter_figures(core),
        lambda: figures.lag_figures(lags, core),
    )
    return Subject(tools=(processor,))
