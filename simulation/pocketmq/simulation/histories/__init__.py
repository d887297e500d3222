"""Histories: records of what clients sent and received, and checks of these records."""

from pocketmq.simulation.histories.judge import Anomaly, Judge, Judgement
from pocketmq.simulation.histories.recorder import Recorder

__all__ = ["Anomaly", "Judge", "Judgement", "Recorder"]
