"""Histories: records of what clients sent and received, and checks of these records."""

from pocketmq.cluster.histories.judge import Anomaly, Judge, Judgement
from pocketmq.cluster.histories.recorder import Recorder

__all__ = ["Anomaly", "Judge", "Judgement", "Recorder"]
