"""Histories: what clients sent, were told and got, written down and judged from outside."""

from pocketmq.cluster.histories.judge import Anomaly, Judge, Judgement
from pocketmq.cluster.histories.recorder import Recorder

__all__ = ["Anomaly", "Judge", "Judgement", "Recorder"]
