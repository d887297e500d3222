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

from typing import TYPE_CHECKING

from pocketmq.runtime.public_names import on_first_use

if TYPE_CHECKING:
    from pocketmq.cluster.steering.errors import NotReachedError as NotReachedError
    from pocketmq.cluster.steering.errors import RealTimeClientWarning as RealTimeClientWarning
    from pocketmq.cluster.steering.errors import WrongClusterError as WrongClusterError
    from pocketmq.testing.cluster import Cluster as Cluster
    from pocketmq.testing.cluster import SyncCluster as SyncCluster
    from pocketmq.testing.cluster import start_cluster as start_cluster
    from pocketmq.testing.sync_clients import SyncConsumer as SyncConsumer
    from pocketmq.testing.sync_clients import SyncProducer as SyncProducer
else:
    __all__, __dir__, __getattr__ = on_first_use(
        __name__,
        {
            "pocketmq.cluster.steering.errors": [
                "NotReachedError",
                "RealTimeClientWarning",
                "WrongClusterError",
            ],
            "pocketmq.testing.cluster": ["Cluster", "SyncCluster", "start_cluster"],
            "pocketmq.testing.sync_clients": ["SyncConsumer", "SyncProducer"],
        },
    )
