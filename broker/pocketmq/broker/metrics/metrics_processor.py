"""GET_METRICS (30008): what `/metrics` of the control address shows of this broker."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from pocketmq.broker.metrics.figures import Figures
from pocketmq.protocol.bodies.stats import MetricDistribution, MetricNumber, MetricsReport
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles

MOST_FIGURES: Final = 50_000
"""That an answer has; RocketMQ's exporter shows as many series of one metric."""


class MetricsProcessor:
    """Asks its sources one after the other.

    Args:
        sources: each gives its figures as they are now.
    """

    def __init__(self, *sources: Callable[[], Figures]) -> None:
        self._sources = sources

    @handles(RequestCode.GET_METRICS)
    def metrics(self, _peer: Peer, request: Command) -> Reply:
        """All of them, at most `MOST_FIGURES`."""
        report = MetricsReport()
        figures = (figure for source in self._sources for figure in source())
        for metric, labels, value in islice(figures, MOST_FIGURES):
            if isinstance(value, int):
                report.numbers.append(
                    MetricNumber(name=metric.name, labels=list(labels), value=value)
                )
            else:
                report.distributions.append(
                    MetricDistribution(
                        name=metric.name,
                        labels=list(labels),
                        counts=value.counts,
                        total=value.total,
                    )
                )
        return request.reply(body=encode_body(report, request.encoding))
