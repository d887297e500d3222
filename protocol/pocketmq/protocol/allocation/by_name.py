"""Strategies by the name a user types: `averagely`, `circle`, `consistent-hash`, `module:Class`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final

from pocketmq.protocol.allocation.averagely import AllocateMessageQueueAveragely
from pocketmq.protocol.allocation.by_circle import AllocateMessageQueueAveragelyByCircle
from pocketmq.protocol.allocation.consistent_hash import AllocateMessageQueueConsistentHash
from pocketmq.protocol.allocation.strategy import AllocateMessageQueueStrategy
from pocketmq.runtime.errors import ConfigError

# behaviours 10 and 12
STRATEGIES: Final[Mapping[str, Callable[[], AllocateMessageQueueStrategy]]] = {
    "averagely": AllocateMessageQueueAveragely,
    "circle": AllocateMessageQueueAveragelyByCircle,
    "consistent-hash": AllocateMessageQueueConsistentHash,
}
"""Those that need no configuration; RocketMQ's own names (`AVG`, ...) are understood too."""


def strategy_named(name: str) -> AllocateMessageQueueStrategy:
    """A built-in strategy, or an instance of the user's own class.

    Args:
        name: `averagely`, `AVG`, `circle`, ..., or `module:Class` for a class without arguments.

    Raises:
        ConfigError: there is no such strategy, or it is none.
    """
    for known, make in STRATEGIES.items():
        strategy = make()
        if name in (known, strategy.name):
            return strategy
    module_name, colon, class_name = name.partition(":")
    if not colon:
        raise ConfigError(
            "strategy",
            f"there is no {name!r}",
            advice=(
                f"choose a strategy from {', '.join(STRATEGIES)}, or write module:Class to use "
                "a class of your own"
            ),
        )
    try:
        own = getattr(import_module(module_name), class_name)()
    except (ImportError, AttributeError, TypeError) as exc:
        raise ConfigError("strategy", f"{name!r} cannot be made: {exc}") from exc
    if not isinstance(own, AllocateMessageQueueStrategy):
        raise ConfigError(
            "strategy", f"{name!r} is no strategy", advice="it needs `name` and `allocate(...)`"
        )
    return own
