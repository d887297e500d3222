"""How much controllers keep, and how much they may. Pure.

The limits are options, and may be other ones at each controller. What is decided may not: so a
command brings its proposer's limits along, and each controller decides by those (F-27).
"""

from __future__ import annotations

import msgspec

from pocketmq.protocol.budget import Budget
from pocketmq.protocol.scalars import Int64

NO_LIMIT = 2**63 - 1


class Limits(msgspec.Struct, frozen=True, array_like=True):
    """What a proposer's budget allows; the defaults are of commands from before there was one."""

    names: Int64 = 10_000
    replicas_per_name: Int64 = 64
    replicas: Int64 = NO_LIMIT
    size_bytes: Int64 = NO_LIMIT


def limits_of(budget: Budget) -> Limits:
    """The limits to propose a command with."""
    return Limits(
        budget.broker_names, budget.replicas_per_name, budget.replicas, budget.replica_bytes
    )


class Kept:
    """How many names and replicas there are, and how long their texts are together."""

    def __init__(self) -> None:
        self.names = 0
        self.replicas = 0
        self.size_bytes = 0

    def add(self, size_bytes: int, *, names: int = 0, replicas: int = 0) -> None:
        """So much came; what went is negative."""
        self.names += names
        self.replicas += replicas
        self.size_bytes += size_bytes

    def refusal(
        self, limits: Limits, size_bytes: int, *, names: int = 0, replicas: int = 0
    ) -> str | None:
        """Why so much more does not fit; None: it does. What is there may stay, and become less."""
        claims = "bytes of names, addresses and claims"
        for more, there, limit, what, option in (
            (names, self.names, limits.names, "broker names", "broker_names"),
            (replicas, self.replicas, limits.replicas, "replicas", "replicas"),
            (size_bytes, self.size_bytes, limits.size_bytes, claims, "replica_bytes"),
        ):
            # Less is always allowed: a limit must not keep a group from being cleaned up.
            if more > 0 and there + more > limit:
                return (
                    f"controllers keep at most {limit} {what} (budget.{option}); have those that"
                    " are gone cleaned with CLEAN_BROKER_DATA (1011), or raise it"
                )
        return None


def text_bytes(*texts: str) -> int:
    """How long texts are in a snapshot."""
    return sum(len(_ENCODER.encode(text)) for text in texts)


_ENCODER = msgspec.json.Encoder()
