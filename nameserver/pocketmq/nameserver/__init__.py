"""The nameserver: which brokers are alive, and which of them have the queues of a topic.

    from pocketmq.nameserver import NameServer, NameServerConfig

Everything else is imported from its own module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pocketmq.runtime.public_names import on_first_use

if TYPE_CHECKING:
    from pocketmq.nameserver.config import NameServerConfig as NameServerConfig
    from pocketmq.nameserver.server import NameServer as NameServer
else:
    __all__, __dir__, __getattr__ = on_first_use(
        __name__,
        {
            "pocketmq.nameserver.config": ["NameServerConfig"],
            "pocketmq.nameserver.server": ["NameServer"],
        },
    )
