"""Scripted histories of replicas: each shows one known loss, where seeds seldom draw it. Pure.

`python scripts/simulate.py --replicas --schedule NAME` plays one. A history names machines by their
part in it: `MASTER` is the replica that leads when its first trouble begins, `B` and `C` are the
others, in the order of their names; they stay who they are when another one is elected.
"""

from __future__ import annotations

from collections.abc import Callable

from pocketmq.simulation.replicas.plan import (
    CONTROLLERS,
    MASTER,
    NAMESERVER,
    PRODUCER,
    TRANSACTION_CLIENTS,
    B,
    C,
    Happening,
    ReplicaPlan,
    Trouble,
)

CONTROLLER = CONTROLLERS[0]


def schedule(name: str) -> ReplicaPlan:
    """The history of a name.

    Raises:
        KeyError: there is none; `SCHEDULES` has all.
    """
    return SCHEDULES[name]()


def _plan(
    *happenings: Happening,
    all_ack: bool = True,
    sync_flush: bool = False,
    ends_without: str = "",
    close_grace_ms: int = 0,
    ends_with_failing_disk: bool = False,
    min_in_sync: int = 1,
    transactions: bool = False,
) -> ReplicaPlan:
    return ReplicaPlan(
        0,
        CONTROLLERS[:1],
        all_ack=all_ack,
        min_in_sync=min_in_sync,
        sync_flush=sync_flush,
        close_grace_ms=close_grace_ms,
        latency_s=(0.0002, 0.002),
        drift={},
        gap_s=0.15,
        happenings=tuple(sorted(happenings, key=lambda each: each.at_s)),
        ends_without=ends_without,
        ends_with_failing_disk=ends_with_failing_disk,
        transactions=transactions,
    )


def _quiet() -> ReplicaPlan:
    """No trouble for half a minute; then the master is killed, and comes back late."""
    return _plan(Happening(60.0, Trouble.KILL_MASTER, lasts_s=10.0))


def _lost_for_good() -> ReplicaPlan:
    """At the end the master's machine is lost, and stays so until another one leads."""
    return _plan(ends_without=MASTER)


def _slave_lost_for_good() -> ReplicaPlan:
    """At the end a slave's machine is lost, and stays so until messages are taken without it."""
    return _plan(ends_without=B)


def _parted(*, all_ack: bool = True, back_s: float = 20.0) -> ReplicaPlan:
    """The master is cut off from its slaves and the controllers, not from its clients.

    It stores what the producer sends, until the controllers have another one elected; then it
    comes back, with a tail that nobody else has.
    """
    return _plan(
        Happening(20.0, Trouble.PART_MASTER, lasts_s=back_s),
        all_ack=all_ack,
    )


def _empty_epoch() -> ReplicaPlan:
    """A master is elected while nobody sends, and then cut off before anything is sent.

    Its epoch is empty on the others, who know of it by heartbeats of the stream. It stores the
    first messages of that epoch; its successor, the killed one, those of the next, from the same
    offset on, because the producer reaches nobody else.
    """
    return _plan(
        Happening(20.0, Trouble.PAUSE, lasts_s=16.0),
        Happening(22.0, Trouble.KILL_MASTER, lasts_s=0.5),
        Happening(35.5, Trouble.PART_MASTER, lasts_s=25.0),
        Happening(41.0, Trouble.CUT, B, PRODUCER, lasts_s=25.0),
        Happening(41.0, Trouble.CUT, C, PRODUCER, lasts_s=25.0),
    )


def _cut_and_power_cut() -> ReplicaPlan:
    """The parted master comes back, cuts its tail, and loses its power before it syncs again."""
    cuts = (40.5, 42.9, 45.3, 47.7, 50.1)
    return _plan(
        Happening(20.0, Trouble.PART_MASTER, lasts_s=18.0),
        Happening(37.0, Trouble.SLOW_DISK, MASTER, lasts_s=30.0),
        *(Happening(at_s, Trouble.POWER_CUT, MASTER, lasts_s=0.5) for at_s in cuts),
        # A machine starts with a disk in order; this one is slow again before it can cut.
        *(Happening(at_s + 0.505, Trouble.SLOW_DISK, MASTER, lasts_s=30.0) for at_s in cuts),
        sync_flush=True,
    )


def _unflushed() -> ReplicaPlan:
    """The master's disk hangs, then its power fails; it is back at once, before a slave reaches it.

    What it had not synced is gone from it; if a slave had that, both logs would go on from there
    with other bytes each, in one epoch.
    """
    return _plan(
        Happening(20.0, Trouble.HUNG_DISK, MASTER, lasts_s=6.0),
        Happening(23.0, Trouble.CUT, MASTER, B, lasts_s=8.0),
        Happening(23.0, Trouble.CUT, MASTER, C, lasts_s=8.0),
        Happening(24.0, Trouble.POWER_CUT, MASTER, lasts_s=0.05),
        sync_flush=True,
        close_grace_ms=2000,  # so that it stays master, in its epoch
    )


def _behind() -> ReplicaPlan:
    """One slave is cut off from its master for less than it takes to be taken out of the set.

    The other has everything, for seconds, when the master is killed.
    """
    return _plan(
        Happening(20.0, Trouble.CUT, MASTER, B, lasts_s=14.5),
        Happening(33.5, Trouble.KILL, MASTER, lasts_s=15.0),
        all_ack=False,
    )


def _same_master_again() -> ReplicaPlan:
    """The only replica in sync is cut off from the controllers, and then elected once more.

    Its slaves' connections stay open through both epochs.
    """
    return _plan(
        Happening(20.0, Trouble.HUNG_DISK, B, lasts_s=17.5),
        Happening(20.0, Trouble.HUNG_DISK, C, lasts_s=17.5),
        Happening(36.5, Trouble.CUT, MASTER, CONTROLLER, lasts_s=20.0),
        sync_flush=True,
    )


def _restarted_with_controller() -> ReplicaPlan:
    """The master and the only controller are killed together, and come back as they were."""
    return _plan(
        Happening(25.0, Trouble.KILL_CONTROLLER, CONTROLLER, lasts_s=1.0),
        Happening(25.0, Trouble.KILL, MASTER, lasts_s=1.0),
    )


def _lost_answers() -> ReplicaPlan:
    """B joins the set, and its master never hears so: neither that answer nor the next ones.

    B loses its master; C joins as well, as far as the master knows. The master dies, and the
    controllers know of B only.
    """
    return _plan(
        Happening(20.0, Trouble.KILL, B, lasts_s=8.0),
        Happening(20.0, Trouble.KILL, C, lasts_s=10.5),
        Happening(27.5, Trouble.ONE_WAY, CONTROLLER, MASTER, lasts_s=30.0),
        Happening(30.0, Trouble.RESET, MASTER, B),
        Happening(30.0, Trouble.CUT, MASTER, B, lasts_s=32.0),
        Happening(48.0, Trouble.KILL, MASTER, lasts_s=15.0),
    )


def _lost_answer() -> ReplicaPlan:
    """B joins the set, its master does not hear so, loses B, and is heard when it asks again.

    That proposal is refused: the set has another epoch by then.
    """
    return _plan(
        Happening(20.0, Trouble.KILL, B, lasts_s=8.0),
        Happening(20.0, Trouble.KILL, C, lasts_s=40.0),
        Happening(27.5, Trouble.ONE_WAY, CONTROLLER, MASTER, lasts_s=3.0),
        Happening(30.0, Trouble.RESET, MASTER, B),
        Happening(30.45, Trouble.RESET, MASTER, CONTROLLER),
        Happening(30.0, Trouble.CUT, MASTER, B, lasts_s=25.0),
        close_grace_ms=5000,  # it stays master
    )


def _parted_from_controllers() -> ReplicaPlan:
    """The master keeps its clients and name server, and does not hear that another one is elected.

    It registers again with the name server meanwhile (every 30 s), as the older of two masters.
    """
    return _plan(
        Happening(20.0, Trouble.PART_MASTER, lasts_s=50.0),
        Happening(21.0, Trouble.DELAY, NAMESERVER, PRODUCER, lasts_s=1.0),
    )


def _unflushed_reads() -> ReplicaPlan:
    """All disks hang, messages come, and the master's power fails."""
    return _plan(
        *(Happening(20.0, Trouble.HUNG_DISK, each, lasts_s=6.0) for each in (MASTER, B, C)),
        Happening(24.0, Trouble.POWER_CUT, MASTER, lasts_s=0.05),
        sync_flush=True,
        close_grace_ms=2000,
    )


def _failing_disk() -> ReplicaPlan:
    """At the end the master's disk fails for good; its process, and its heartbeats, go on."""
    return _plan(ends_without=MASTER, ends_with_failing_disk=True, sync_flush=True)


def _idle() -> ReplicaPlan:
    """Nobody sends for 50 s, and nothing else happens."""
    return _plan(Happening(15.0, Trouble.PAUSE, lasts_s=50.0))


def _wiped() -> ReplicaPlan:
    """A replica loses its disk when the log has a second file; it begins anew, with another id."""
    return _plan(Happening(45.0, Trouble.WIPE, C, lasts_s=2.0))


def _alone_with_halves() -> ReplicaPlan:
    """Both slaves are killed, and with two in sync required the master takes nothing for a while.

    Outcomes of transactions come meanwhile, whose halves it has.
    """
    return _plan(
        *(Happening(at_s, Trouble.KILL, each, lasts_s=5.0)
          for at_s in (20.0, 45.0) for each in (B, C)),
        min_in_sync=2,
        transactions=True,
    )  # fmt: skip


def _leads_again_with_halves() -> ReplicaPlan:
    """The parted master commits halves that all have, and what it stores for that is cut.

    Its successor can ask nobody, and is killed: the first one leads again, in the same process.
    """
    return _plan(
        Happening(20.0, Trouble.PART_MASTER, lasts_s=17.0),
        *(Happening(20.0, Trouble.CUT, each, client, lasts_s=40.0)
          for each in (B, C) for client in TRANSACTION_CLIENTS),
        Happening(50.0, Trouble.KILL_MASTER, lasts_s=15.0),
        transactions=True,
    )  # fmt: skip


SCHEDULES: dict[str, Callable[[], ReplicaPlan]] = {
    "quiet": _quiet,
    "lost for good": _lost_for_good,
    "slave lost for good": _slave_lost_for_good,
    "parted": _parted,
    "parted, default acks": lambda: _parted(all_ack=False),
    "empty epoch": _empty_epoch,
    "cut and power cut": _cut_and_power_cut,
    "unflushed": _unflushed,
    "behind": _behind,
    "same master again": _same_master_again,
    "restarted with controller": _restarted_with_controller,
    "lost answer": _lost_answer,
    "lost answers": _lost_answers,
    "parted from controllers": _parted_from_controllers,
    "unflushed reads": _unflushed_reads,
    "failing disk": _failing_disk,
    "idle": _idle,
    "wiped": _wiped,
    "alone, halves": _alone_with_halves,
    "leads again, halves": _leads_again_with_halves,
}
