"""Request and response headers, declared once each, one file per family.

Importing this package fills `pocketmq.protocol.header.REQUEST_HEADERS`.
"""

from pocketmq.protocol.headers import (
    clients,
    control,
    controller,
    groups,
    kv,
    locks,
    offsets,
    pop,
    pull,
    query,
    replies,
    route,
    send,
    settings,
    timers,
    topics,
    transactions,
)

__all__ = [
    "clients",
    "control",
    "controller",
    "groups",
    "kv",
    "locks",
    "offsets",
    "pop",
    "pull",
    "query",
    "replies",
    "route",
    "send",
    "settings",
    "timers",
    "topics",
    "transactions",
]
