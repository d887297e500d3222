"""How long a cluster may take, in real time."""

from __future__ import annotations

from typing import Final

ROUTE_LIMIT_S: Final = 60.0
"""Real seconds until every nameserver knows what has started, or was created."""
