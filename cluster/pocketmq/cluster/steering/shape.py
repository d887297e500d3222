"""The cluster that a test asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pocketmq.runtime.profile import DEFAULT_PROFILE, ProfileName

Mode = Literal["in-process", "processes"]
ClockKind = Literal["real", "manual"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterShape:
    """How many roles, where they run, and on which time."""

    mode: Mode = "in-process"
    """`in-process`: each role in a thread of this process; `processes`: each one a process."""
    nameservers: int = 1
    brokers: int = 1
    """Number of brokers: broker-a, broker-b, ..."""
    clock: ClockKind = "real"
    """`manual`: time stands still until `advance`."""
    profile: ProfileName = DEFAULT_PROFILE
