"""Clusters for tests, in the test's process or as processes, and a pytest plugin.

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
    from pocketmq.cluster.steering.errors import (
        NotReachedError,
        RealTimeClientWarning,
        WrongClusterError,
    )
    from pocketmq.testing.cluster import Cluster, start_cluster
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
    "Cluster": "pocketmq.testing.cluster",
    "start_cluster": "pocketmq.testing.cluster",
    "NotReachedError": "pocketmq.cluster.steering.errors",
    "RealTimeClientWarning": "pocketmq.cluster.steering.errors",
    "WrongClusterError": "pocketmq.cluster.steering.errors",
    "SyncCluster": "pocketmq.testing.sync",
    "SyncConsumer": "pocketmq.testing.sync",
    "SyncProducer": "pocketmq.testing.sync",
}


def __getattr__(name: str) -> Any:
    """Import on first use, because pytest loads this package in every run."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
