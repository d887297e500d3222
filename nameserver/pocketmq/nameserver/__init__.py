"""The nameserver: which brokers are alive, and which of them have the queues of a topic.

    from pocketmq.nameserver import NameServer, NameServerConfig

Everything else is imported from its own module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pocketmq.nameserver.config import NameServerConfig
    from pocketmq.nameserver.server import NameServer

__all__ = ["NameServer", "NameServerConfig"]


def __getattr__(name: str) -> Any:
    """Import on first use: a nameserver process passes through here before its logs are set up."""
    if name == "NameServer":
        from pocketmq.nameserver.server import NameServer

        return NameServer
    if name == "NameServerConfig":
        from pocketmq.nameserver.config import NameServerConfig

        return NameServerConfig
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
