"""Seeds that run without a fault in any case, so that no fault has to run them once more."""

from __future__ import annotations

CI_SEEDS = range(100)
"""Of the cluster: test_simulation.py."""
REPLICA_SEEDS = range(6)
"""Of replicas: test_replicas.py."""
