"""The broker. These names are what a program needs that runs one in its own event loop.

    from pocketmq.broker import Broker, BrokerConfig, StoreConfig

Everything else is imported from its own module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pocketmq.broker.config import BrokerConfig
    from pocketmq.broker.server import Broker
    from pocketmq.broker.store.config import StoreConfig

__all__ = ["Broker", "BrokerConfig", "StoreConfig"]


def __getattr__(name: str) -> Any:
    """Import on first use: a broker process passes through here before its logs are set up."""
    if name == "Broker":
        from pocketmq.broker.server import Broker

        return Broker
    if name == "BrokerConfig":
        from pocketmq.broker.config import BrokerConfig

        return BrokerConfig
    if name == "StoreConfig":
        from pocketmq.broker.store.config import StoreConfig

        return StoreConfig
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
