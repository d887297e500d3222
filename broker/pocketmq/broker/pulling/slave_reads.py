"""What is different when a slave answers a pull (B-58, B-60, B-63, H-10 to H-13). Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.pulling.pull_checks import FOUND, MOVED, RETRY
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.bodies.route import MASTER_ID
from pocketmq.protocol.codes import ResponseCode


class Verdict(NamedTuple):
    """How a pull is answered."""

    code: int
    next_begin_offset: int
    suggested_id: int
    """Which broker id the consumer pulls from next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlaveReads:
    """Decides code, offset and suggestion; a master's answers stay as they are."""

    leads: Callable[[], bool] = lambda: True
    """Whether this broker is the master."""
    enabled: Callable[[], bool] = lambda: False
    """`slaveReadEnable`."""
    master_is_known: Callable[[], bool] = lambda: False
    """Of a slave: whether a name server knows its master."""
    refuses: bool = True
    """5.x: a slave that may not be read refuses pulls; 4.9 sends the consumer to the master."""

    def check(self) -> None:
        """Refuse a pull that must not be read here (B-58).

        Raises:
            RequestRefusedError: SYSTEM_BUSY (2).
        """
        if self.refuses and not self.leads() and not self.enabled():
            raise RequestRefusedError(
                ResponseCode.SYSTEM_BUSY,
                "[REJECTREQUEST]this broker is a slave and slaveReadEnable is off; pull from its "
                "master",
            )

    def verdict(
        self,
        code: int,
        asked_offset: int,
        next_begin_offset: int,
        group: SubscriptionGroupConfig,
        *,
        slow: bool,
    ) -> Verdict:
        """The answer to a pull.

        Args:
            code: what the read came to.
            asked_offset: where the consumer is.
            next_begin_offset: where it would go on.
            group: whose settings name the brokers to suggest.
            slow: it reads so far behind that a slave is better for it (B-62).
        """
        enabled = self.enabled()
        suggested = MASTER_ID
        if enabled:
            suggested = group.which_broker_when_consume_slowly if slow else group.broker_id
        if self.leads():
            return Verdict(code, next_begin_offset, suggested)
        if code == MOVED:  # this slave may lack what its master has (B-60)
            return Verdict(RETRY, asked_offset, group.broker_id)
        if not enabled:  # 4.9 reads all the same
            return Verdict(RETRY, next_begin_offset, MASTER_ID)
        if not slow and self.master_is_known():
            code = FOUND if code == FOUND else RETRY  # nobody waits here (H-11)
            return Verdict(code, next_begin_offset, MASTER_ID)
        return Verdict(code, next_begin_offset, suggested)
