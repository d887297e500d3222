"""Request and response headers, each declared once, in one file per family of requests.

    send, pull, pop         messages to and from a broker
    query                   messages by id and key
    transactions, timers    the end of a transaction; recall of a timed message
    replies                 request and reply between clients
    offsets, locks          what consumers keep at a broker
    clients                 heartbeats, members and their connections
    groups, topics          their configuration, and lists of them
    settings                options and statistics of a running server
    route, kv               a name server: registration, routes, key-value configuration
    controller              who is master, and which replicas are in sync
    replication             how far slaves are
    access                  users, and what they may do
    plain_access            accounts of ACL 1.0

Classes are named as in RocketMQ: `<Request>RequestHeader` and `<Request>ResponseHeader`; a body has
no such ending (`bodies/`). A request header refers to what belongs to it: `RESPONSE` is the reply's
header, `BODY` and `RESPONSE_BODY` are the structured bodies of request and reply.

Importing this package fills `pocketmq.protocol.header.REQUEST_HEADERS`. PocketMQ's own requests are
in `operation/control/requests.py` and `operation/faults/requests.py`.
"""

from pocketmq.protocol.headers import (
    access,
    clients,
    controller,
    groups,
    kv,
    locks,
    offsets,
    plain_access,
    pop,
    pull,
    query,
    replication,
    replies,
    route,
    send,
    settings,
    timers,
    topics,
    transactions,
)

__all__ = [
    "access",
    "clients",
    "controller",
    "groups",
    "kv",
    "locks",
    "offsets",
    "plain_access",
    "pop",
    "pull",
    "query",
    "replication",
    "replies",
    "route",
    "send",
    "settings",
    "timers",
    "topics",
    "transactions",
]
