"""All events. Pure."""

from __future__ import annotations

from typing import Final, TypeAlias

from pocketmq.operation.events.event import Event
from pocketmq.operation.events.groups import (
    Allocated,
    MemberJoined,
    MemberLeft,
    MemberNotified,
    MemberRefused,
    MemberSilent,
    NotificationHeard,
    QueuesLocked,
    QueuesUnlocked,
    Rebalanced,
    RouteLearned,
    SdkJoined,
    SdkLeft,
)
from pocketmq.operation.events.messages import (
    MessageAcknowledged,
    MessageConsumed,
    MessageDead,
    MessageDispatched,
    MessagePulled,
    MessageSent,
    MessageSentBack,
    MessageStored,
    OffsetCommitted,
    PullHeld,
    PullWoken,
    SendAnswered,
    StoreFlushed,
)
from pocketmq.operation.events.roles import (
    BrokerForgotten,
    BrokerRegistered,
    ClockMoved,
    EventsCounted,
    EventsDropped,
    FaultBegan,
    FaultEnded,
    FaultFired,
    InvariantViolated,
    LeaderElected,
    MasterElected,
    RoleChanged,
    RoleStarted,
    RoleStopped,
    TroubleBegan,
)

AnyEvent: TypeAlias = (
    MessageSent
    | SendAnswered
    | MessageStored
    | MessageDispatched
    | MessagePulled
    | PullHeld
    | PullWoken
    | MessageConsumed
    | MessageAcknowledged
    | MessageSentBack
    | MessageDead
    | OffsetCommitted
    | StoreFlushed
    | MemberJoined
    | MemberLeft
    | MemberRefused
    | SdkJoined
    | SdkLeft
    | MemberSilent
    | MemberNotified
    | NotificationHeard
    | RouteLearned
    | Allocated
    | Rebalanced
    | QueuesLocked
    | QueuesUnlocked
    | RoleStarted
    | RoleStopped
    | BrokerRegistered
    | BrokerForgotten
    | RoleChanged
    | MasterElected
    | LeaderElected
    | ClockMoved
    | FaultBegan
    | FaultEnded
    | FaultFired
    | TroubleBegan
    | InvariantViolated
    | EventsCounted
    | EventsDropped
)
"""What decodes from JSON by its `event`."""

VOCABULARY: Final[tuple[type[Event], ...]] = AnyEvent.__args__
"""All of them, in the order of the pages."""
