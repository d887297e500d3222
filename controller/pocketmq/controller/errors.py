"""What a controller refuses, and why."""

from __future__ import annotations

from pocketmq.protocol.codes import ResponseCode
from pocketmq.runtime.errors import CallerError, DiskError, PeerError


class ControllerRefusedError(CallerError):
    """A request that is understood and refused; the dispatcher answers `code` with the remark."""

    def __init__(self, code: int, remark: str) -> None:
        self.code = code
        self.remark = remark
        super().__init__(remark)


class NotLeadingError(CallerError):
    """Only the leader of the controllers decides; ask it instead (2007)."""

    def __init__(self, leader: str) -> None:
        self.leader = leader
        self.code = ResponseCode.CONTROLLER_NOT_LEADER
        where = f"ask controller {leader}" if leader else "none leads now; ask again in a second"
        super().__init__(f"this controller does not lead; {where}")


class TooManyProposalsError(CallerError):
    """So many commands wait for a majority of the controllers that no more are taken."""

    def __init__(self, waiting: int) -> None:
        self.waiting = waiting
        self.code = ResponseCode.SYSTEM_BUSY
        super().__init__(
            f"{waiting} commands wait for a majority of the controllers; see that enough of them"
            " run and reach each other, then ask again"
        )


class UndecidedError(PeerError):
    """No majority of the controllers answered in time; the command may still be decided."""

    def __init__(self, waited_s: float) -> None:
        self.waited_s = waited_s
        self.code = ResponseCode.CONTROLLER_NOT_LEADER
        super().__init__(
            f"no majority of the controllers answered within {waited_s:g} s; it may still take"
            " effect. Ask for the present state, then ask again"
        )


class RaftMessageError(PeerError):
    """A message that no controller of this group sends."""

    def __init__(self, sender: str, reason: str) -> None:
        self.sender = sender
        self.reason = reason
        self.code = ResponseCode.CONTROLLER_INVALID_REQUEST
        super().__init__(f"message of controller {sender}: {reason}; it was dropped")


class ForeignLogError(PeerError):
    """A leader's log contradicts what is committed here: it stems from another history."""

    def __init__(self, leader: str, index: int) -> None:
        self.leader = leader
        self.index = index
        super().__init__(
            f"controller {leader} leads with another entry {index} than the one committed here;"
            " controllers with emptied or copied stores were mixed. Keep the store that has the"
            " data you want, and empty those of the others"
        )


class JournalError(DiskError):
    """A controller's journal is there and cannot be used."""
