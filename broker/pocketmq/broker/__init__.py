"""The broker. These names are what a program needs that runs one in its own event loop.

    from pocketmq.broker import Broker, BrokerConfig, StoreConfig

Everything else is imported from its own module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pocketmq.runtime.public_names import on_first_use

if TYPE_CHECKING:
    from pocketmq.broker.config import BrokerConfig as BrokerConfig
    from pocketmq.broker.server import Broker as Broker
    from pocketmq.broker.store.config import StoreConfig as StoreConfig
else:
    __all__, __dir__, __getattr__ = on_first_use(
        __name__,
        {
            "pocketmq.broker.config": ["BrokerConfig"],
            "pocketmq.broker.server": ["Broker"],
            "pocketmq.broker.store.config": ["StoreConfig"],
        },
    )
