"""Starts, stops, shows and steers clusters, and moves their time.

from pocketmq.cluster import local_cluster
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pocketmq.runtime.public_names import on_first_use

if TYPE_CHECKING:
    from pocketmq.cluster.local import local_cluster as local_cluster
    from pocketmq.cluster.supervisor import Supervisor as Supervisor
else:
    __all__, __dir__, __getattr__ = on_first_use(
        __name__,
        {
            "pocketmq.cluster.local": ["local_cluster"],
            "pocketmq.cluster.supervisor": ["Supervisor"],
        },
    )
