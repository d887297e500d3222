"""GET_METRICS (30008): what `/metrics` of the control address shows of this broker."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, islice
from typing import Final

from pocketmq.broker.core import defer
from pocketmq.broker.metrics.figures import Figures
from pocketmq.protocol.bodies.stats import MetricDistribution, MetricNumber, MetricsReport
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, error_reply, handles

MOST_FIGURES: Final = 50_000
"""That an answer has; RocketMQ's exporter shows as many series of one metric."""

FIGURES_PER_TURN: Final = 2_000
"""That are gathered in one turn of the loop; 50,000 take 70 ms."""


class MetricsProcessor:
    """Asks its sources one after the other.

    Args:
        sources: each gives its figures as they are now; what they read may change between two.
    """

    def __init__(self, *sources: Callable[[], Figures]) -> None:
        self._sources = sources

    @handles(RequestCode.GET_METRICS)
    def metrics(self, peer: Peer, request: Command) -> Reply:
        """All of them, at most `MOST_FIGURES`; many are answered some turns later."""
        figures = islice(chain.from_iterable(ask() for ask in self._sources), MOST_FIGURES)
        report = MetricsReport()
        if _gather(report, figures):
            return _answer(request, report)

        def go_on() -> None:
            # Nobody waits for the answer any more.
            if not peer.is_open:
                return
            try:
                is_whole = _gather(report, figures)
                reply: Reply = _answer(request, report) if is_whole else None
            except Exception as exc:  # noqa: BLE001 - the peer is told, as by the dispatcher
                reply = error_reply(peer, request, exc)
            if reply is None:
                # Continue in another turn, so that requests are served in between.
                defer(go_on)
            else:
                peer.reply(request, reply)

        defer(go_on)
        return None


def _gather(report: MetricsReport, figures: Figures) -> bool:
    """Take some more into the report; whether these were the last."""
    some = list(islice(figures, FIGURES_PER_TURN))
    for metric, labels, value in some:
        if isinstance(value, int):
            number = MetricNumber(name=metric.name, labels=list(labels), value=value)
            report.numbers.append(number)
        else:
            distribution = MetricDistribution(
                name=metric.name,
                labels=list(labels),
                counts=list(value.counts),  # it may change until the answer is encoded
                total=value.total,
            )
            report.distributions.append(distribution)
    return len(some) < FIGURES_PER_TURN


def _answer(request: Command, report: MetricsReport) -> Command:
    return request.reply(body=encode_body(report, request.encoding))
