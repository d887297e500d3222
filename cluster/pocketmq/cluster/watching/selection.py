"""Part of a recording, by seconds since its beginning. Pure.

What lies before the part is kept as far as it says who is there and who owns what, so that the part
shows the same as the whole at the same moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pocketmq.operation.events import AnyEvent
from pocketmq.operation.events.groups import (
    Allocated,
    MemberJoined,
    MemberLeft,
    MemberSilent,
    QueuesLocked,
    QueuesUnlocked,
    Rebalanced,
    RouteLearned,
)
from pocketmq.operation.events.messages import OffsetCommitted
from pocketmq.operation.events.roles import (
    BrokerForgotten,
    BrokerRegistered,
    FaultBegan,
    FaultEnded,
    LeaderElected,
    MasterElected,
    RoleChanged,
    RoleStarted,
    RoleStopped,
)

LASTING: Final = (
    RoleStarted,
    RoleStopped,
    BrokerRegistered,
    BrokerForgotten,
    RoleChanged,
    MasterElected,
    LeaderElected,
    MemberJoined,
    MemberLeft,
    MemberSilent,
    RouteLearned,
    FaultBegan,
    FaultEnded,
    Allocated,
    Rebalanced,
    QueuesLocked,
    QueuesUnlocked,
    OffsetCommitted,
)
"""Events without which what comes later cannot be understood."""


def selected(
    events: Sequence[AnyEvent], begin_s: float | None, end_s: float | None
) -> Iterator[AnyEvent]:
    """The events of a part.

    Args:
        events: Of a recording, in order.
        begin_s: Seconds of real time since the first event; None for the beginning.
        end_s: The same for the end.
    """
    if not events:
        return
    first_us = events[0].real_us
    begin_us = first_us + round((begin_s or 0) * 1e6)
    end_us = None if end_s is None else first_us + round(end_s * 1e6)
    for event in events:
        if end_us is not None and event.real_us > end_us:
            # The loop goes on, as events of several roles are not strictly in the order of real
            # time.
            continue
        if event.real_us >= begin_us or isinstance(event, LASTING):
            yield event
