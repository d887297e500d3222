"""PocketMQ in tests: clusters inside the test's process or as processes, and a pytest plugin.

With pytest there is nothing to import: the fixtures `pocketmq`, `pocketmq_cluster` and
`pocketmq_clock` come with the installed package (docs/testing.md). Without pytest:

    from pocketmq.testing import start_cluster

    with start_cluster(brokers=2, clock="manual") as cluster:
        cluster.sync.create_topic("orders")
        cluster.sync.advance(seconds=126)

`cluster` itself has the same calls as coroutines, which any event loop may await.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pocketmq.testing.cluster import Cluster, start_cluster
    from pocketmq.testing.errors import NotReachedError, RealTimeClientWarning, WrongClusterError
    from pocketmq.testing.sync import SyncCluster, SyncConsumer, SyncProducer

__all__ = [
    "Cluster",
    "NotReachedError",
    "RealTimeClientWarning",
    "SyncCluster",
    "SyncConsumer",
    "SyncProducer",
    "WrongClusterError",
    "start_cluster",
]

_MODULES = {
    "Cluster": "cluster",
    "start_cluster": "cluster",
    "NotReachedError": "errors",
    "RealTimeClientWarning": "errors",
    "WrongClusterError": "errors",
    "SyncCluster": "sync",
    "SyncConsumer": "sync",
    "SyncProducer": "sync",
}


def __getattr__(name: str) -> Any:
    """Import on first use: pytest loads this package in every run, also where nobody needs it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
