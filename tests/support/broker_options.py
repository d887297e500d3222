"""The options of our broker under RocketMQ's names."""

from __future__ import annotations

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.store.config import StoreConfig
from pocketmq.runtime.configuration.options import OptionDescription, describe


def options_of_broker() -> dict[str, OptionDescription]:
    """Those of the broker and its store, by the key in `broker.conf`."""
    return {
        each.rocketmq_name: each for cls in (BrokerConfig, StoreConfig) for each in describe(cls)
    }
