"""Which replicas are in sync with a master, and how far consumers may see. Pure (H-143 to H-154).

The controller keeps the set; the master proposes changes, and until one is answered counts with the
union of what held and what it proposed:

    set {1}       2 reports the end of the log          propose {1, 2}; 2 counts from now on
                  the controller says {1, 2}, epoch 5    set {1, 2}
    set {1, 2}    2 was not at the end for 15 s          propose {1}; 2 still counts
                  the controller says {1}, epoch 6       set {1}: acknowledged without 2 from now on
"""

from __future__ import annotations

from dataclasses import dataclass

ALONE = 2**63 - 1
"""As an offset: nobody else has to have anything."""


@dataclass(slots=True)
class _Slave:
    acked: int = -1
    caught_up_at: float = 0.0
    """When it last had all that this master had."""
    connection: object = None
    """None while it is not connected."""
    has_left: bool = False
    """It was connected, and is not any more."""

    @property
    def is_connected(self) -> bool:
        return self.connection is not None


class SyncState:
    """The master's view; of a slave it is empty.

    Args:
        lag_s: a member that was not at the end for so long is taken out.
    """

    def __init__(self, lag_s: float) -> None:
        self.own_id = 0
        """0 until the controller gave one."""
        self.ids: frozenset[int] = frozenset()
        """What the controller said last."""
        self.set_epoch = 0
        self._lag_s = lag_s
        self._asked: list[frozenset[int]] = []
        """Proposed and not answered: any of them may hold (W-7)."""
        self._slaves: dict[int, _Slave] = {}
        self._epoch_start = 0

    @property
    def members(self) -> frozenset[int]:
        """Everybody who may count as in sync at the controller (H-150)."""
        return self.ids.union(*self._asked)

    @property
    def others(self) -> frozenset[int]:
        """The members but this one."""
        return self.members - {self.own_id}

    def named(self, own_id: int) -> None:
        """The id that this replica has at the controller."""
        self.own_id = own_id

    def begin(self, ids: frozenset[int], set_epoch: int, epoch_start: int, now: float) -> None:
        """This replica became master in an epoch that begins at an offset.

        Slaves may have connected since it answers as master, which is a little earlier: they count.
        """
        self.ids, self.set_epoch, self._epoch_start = ids, set_epoch, epoch_start
        # Proposals of an earlier term do not count any more.
        self._asked.clear()
        # Keep connected slaves only: what others reported is about another master's log.
        self._slaves = {each: slave for each, slave in self._slaves.items() if slave.is_connected}
        # Members get a whole period to connect again: they were in sync a moment ago.
        for each in ids - {self.own_id}:
            self._slaves.setdefault(each, _Slave()).caught_up_at = now

    def end(self) -> None:
        """It is no master any more."""
        self.ids, self.set_epoch = frozenset(), 0
        self._asked.clear()
        self._slaves.clear()

    def told(self, ids: frozenset[int], set_epoch: int) -> bool:
        """The controller's set; an older one changes nothing (H-154). Whether it was news."""
        if set_epoch <= self.set_epoch:
            return False
        self.ids, self.set_epoch = ids, set_epoch
        self._asked.clear()
        return True

    def connected(self, slave_id: int, connection: object) -> None:
        """A slave said over a new connection who it is; an older one of it counts no more."""
        slave = self._slaves.setdefault(slave_id, _Slave())
        # -1 until this connection reports: reports of an older one do not count.
        slave.connection, slave.acked, slave.has_left = connection, -1, False

    def gone(self, slave_id: int, connection: object) -> None:
        """A connection ended."""
        slave = self._slaves.get(slave_id)
        # A newer connection of the same slave may be there already.
        if slave is not None and slave.connection is connection:
            slave.connection, slave.acked, slave.has_left = None, -1, True

    def reported(self, slave_id: int, connection: object, offset: int, caught_up_at: float) -> None:
        """How far a slave is, and when this master had no more than that (H-125)."""
        slave = self._slaves.get(slave_id)
        if slave is not None and slave.connection is connection:
            slave.acked = offset
            slave.caught_up_at = max(slave.caught_up_at, caught_up_at)

    @property
    def acked(self) -> dict[int, int]:
        """Connected slaves, and how far they are."""
        return {each: slave.acked for each, slave in self._slaves.items() if slave.is_connected}

    def wanted(self, confirm_offset: int, now: float) -> frozenset[int] | None:
        """The set to propose; None when the present one is right (H-126, H-152, H-153).

        Who has left is taken out at once; who was not here yet, as after this master's restart,
        has the time of one that lags.
        """
        late = {
            each
            for each in self.ids - {self.own_id}
            if self._slave(each).has_left or now - self._slave(each).caught_up_at > self._lag_s
        }
        joining = {
            each
            for each, slave in self._slaves.items()
            if each not in self.ids
            and slave.is_connected
            # Only then does it have all that was ever acknowledged (H-152).
            and slave.acked >= max(confirm_offset, self._epoch_start)
        }
        ids = (self.ids - late) | joining
        # Without a set there is nothing to change.
        return None if ids == self.ids or not self.ids else ids

    def asked(self, ids: frozenset[int]) -> None:
        """A set was proposed."""
        # The same proposal is repeated while no answer comes.
        if ids not in self._asked:
            self._asked.append(ids)

    def answered(self) -> None:
        """The last proposal was decided; an earlier one without an answer cannot take effect any
        more, for the controllers' log would have it before."""
        self._asked.clear()

    @property
    def is_asking(self) -> bool:
        """Whether a proposal is not answered."""
        return bool(self._asked)

    def lowest_ack(self) -> int:
        """What all other members have; `ALONE` without others, -1 while one is not connected."""
        # All who may be in the set, whether or not the controller has decided it (H-150).
        slaves = [self._slave(each) for each in self.others]
        return min((each.acked if each.is_connected else -1 for each in slaves), default=ALONE)

    def confirm_offset(self, before: int, log_end: int) -> int:
        """How far consumers may see; it stands still while a member is away (F-6)."""
        lowest = self.lowest_ack()
        return before if lowest < 0 else max(before, min(log_end, lowest))

    def _slave(self, slave_id: int) -> _Slave:
        return self._slaves.get(slave_id) or _Slave()
