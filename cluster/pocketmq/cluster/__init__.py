"""Starts, stops, shows and steers clusters, and moves their time.

from pocketmq.cluster import local_cluster
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pocketmq.cluster.local import local_cluster
    from pocketmq.cluster.supervisor import Supervisor

__all__ = ["Supervisor", "local_cluster"]


def __getattr__(name: str) -> Any:
    """Import on first use: worker processes import this package and need no supervisor."""
    if name == "local_cluster":
        from pocketmq.cluster.local import local_cluster

        return local_cluster
    if name == "Supervisor":
        from pocketmq.cluster.supervisor import Supervisor

        return Supervisor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
