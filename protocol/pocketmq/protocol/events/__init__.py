"""Events: what people and tools watch, each declared once with its fields and rule."""

from pocketmq.protocol.events.vocabulary import (
    VOCABULARY,
    BrokerForgotten,
    BrokerRegistered,
    ClockMoved,
    Event,
    FaultFired,
    MemberJoined,
    MemberLeft,
    Rebalanced,
    RoleStarted,
    RoleStopped,
)

__all__ = [
    "VOCABULARY",
    "BrokerForgotten",
    "BrokerRegistered",
    "ClockMoved",
    "Event",
    "FaultFired",
    "MemberJoined",
    "MemberLeft",
    "Rebalanced",
    "RoleStarted",
    "RoleStopped",
]
