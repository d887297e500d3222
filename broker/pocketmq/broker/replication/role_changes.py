"""`RoleChanges`: becomes master or slave. What a controller, or the options, drive."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import structlog

from pocketmq.broker.replication.epoch_file import EpochFile
from pocketmq.broker.replication.epochs import Epoch
from pocketmq.broker.replication.ha_client import HaClient
from pocketmq.broker.replication.ha_service import HaService
from pocketmq.broker.replication.replicas import Replicas
from pocketmq.broker.role import RoleState
from pocketmq.broker.role_names import BrokerRole
from pocketmq.broker.store import MessageStore
from pocketmq.broker.subject import Service
from pocketmq.protocol.bodies.route import MASTER_ID
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.signals import Signal

log = structlog.get_logger()

FENCED = "the broker waits for a controller to say who is master"
"""Among the reasons why the store takes no message."""


class ReplicaProgress(NamedTuple):
    """What a controller asks of a replica, for its elections (D-33)."""

    epoch: int
    """Of the last master that wrote here; 0 without a controller."""
    max_offset: int
    """End of the log."""
    confirm_offset: int
    """All in-sync replicas have the log below it."""


class LaterEpochError(PocketMQError):
    """The controllers elect in an epoch that this log has left behind: they are not the ones under
    which it was written, or they have lost what they knew.

    Args:
        elected: the epoch that they name.
        last: the last one of `epochFileCheckpoint`.
    """

    def __init__(self, elected: int, last: int) -> None:
        self.elected = elected
        self.last = last
        super().__init__(
            f"this replica is to lead in epoch {elected}, and its log has epoch {last} already:"
            " start the controllers under which it was written, with their data; if that is lost,"
            " keep the replica with the longest log, remove its brokerIdentity,"
            " epochFileCheckpoint and epochFileCheckpoint.bak, and empty the stores of the others"
        )


class MasterAddresses(NamedTuple):
    """Where a slave finds its master; None where it is not known."""

    broker: str | None
    replication: str | None


class RoleChanges(Service):
    """One change at a time; each is complete when its coroutine returns.

    Args:
        role: what is changed.
        store: takes puts, or a master's bytes.
        ha: the slaves' connections.
        client: the connection to the master.
        replicas: producers that wait for slaves.
        epochs: this log's epochs, and their file.
        changed: emitted after each change.
    """

    def __init__(
        self,
        role: RoleState,
        store: MessageStore,
        ha: HaService,
        client: HaClient,
        replicas: Replicas,
        epochs: EpochFile,
        changed: Signal[[]],
    ) -> None:
        self.epochs = epochs
        self.master = MasterAddresses(None, None)
        """Of a slave."""
        self._role = role
        self._store = store
        self._ha = ha
        self._client = client
        self._replicas = replicas
        self._changed = changed
        self._changing = asyncio.Lock()
        self._is_promoted = False
        """Whether `become_master` is at work: who names a master now does not know that yet."""

    async def load(self) -> None:
        await self.epochs.load()

    def recovered(self) -> None:
        """What the options say, from the first moment on."""
        # Before the role: epochs beyond a log that a power cut shortened would be compared with the
        # master's (H-134).
        self.epochs.recovered(self._store.commit_log.max_offset)
        # A slave refuses puts from the start, even before it has found its master.
        if not self._role.leads:
            self._store.replica.follow()

    @property
    def progress(self) -> ReplicaProgress:
        """How far this replica is."""
        log_end = self._store.commit_log.max_offset
        confirmed = self._store.confirmed_offset
        return ReplicaProgress(self.epochs.table.last_number, log_end, confirmed)

    def fence(self) -> None:
        """Take no message until `unfence`: nobody knows yet who is master."""
        self._store.readiness.block(FENCED)

    def unfence(self) -> None:
        """Take messages, if this broker is the master."""
        self._store.readiness.unblock(FENCED)

    def master_told(self, broker: str | None, replication: str | None) -> None:
        """Follow the master that a name server or a controller names; None: it is not known.

        When the master is gone, the stream goes on trying its old address (H-7).
        """
        # By following, a master would cut its own log, and so would a broker that becomes one.
        if not self._may_follow:
            return
        self.master = MasterAddresses(broker, replication or self.master.replication)
        self._role.note_master(is_known=broker is not None)
        if replication is not None:
            self._client.follow(replication)

    def master_lost(self) -> None:
        """The master is gone, as a name server says: follow nobody until it is told (Z-5)."""
        if not self._may_follow:
            return
        self.master = MasterAddresses(None, None)
        self._role.note_master(is_known=False)
        self._client.follow(None)

    def stream_told(self, replication: str) -> None:
        """Follow a master that is not online yet: its stream, and none of its tables (Z-9)."""
        if not self._may_follow:
            return
        self.master = self.master._replace(replication=replication)
        self._client.follow(replication)
        # The client may be pausing after a failure, but the master is there now.
        self._client.retry()

    @property
    def _may_follow(self) -> bool:
        """Not as master, nor as one that becomes it: its log would be cut to the old master's."""
        return not (self._role.leads or self._is_promoted)

    async def become_master(self, epoch: int = 0, *, is_confirmed: bool = True) -> None:
        """Take messages from now on (D-10 to D-15).

        Half a record at the end of the log is cut, all others are dispatched, and the epoch begins
        at the end of the log. Slaves' connections are closed: they come again and compare epochs.

        Args:
            epoch: the term, given by the controller; 0 without one. A term that this broker has
                already is kept as it is (W-5).
            is_confirmed: whether consumers may see all of the log at once; see `ReplicaLog.lead`.

        Raises:
            ValueError: this broker has another role in a later epoch.
            LaterEpochError: the log has a later one; nothing was changed.
            DiskError: queues or the epoch file could not be written; the broker takes nothing.
        """
        async with self._changing:
            # An older epoch may come late from another controller or from a name server.
            if epoch < self._role.epoch:
                raise ValueError(
                    f"epoch {epoch} is older than the current epoch {self._role.epoch}"
                )
            if epoch and epoch < self.epochs.table.last_number:
                raise LaterEpochError(epoch, self.epochs.table.last_number)
            # From here on nothing may make this broker follow: its log becomes the master's.
            self._is_promoted = True
            try:
                await self._take_over(epoch, is_confirmed=is_confirmed)
            finally:
                self._is_promoted = False
            self.master = MasterAddresses(None, None)
            # Only now does this broker answer as master: after a failure above it is still a slave.
            self._role.set(BrokerRole.SYNC_MASTER, MASTER_ID, epoch)
            await self._role.apply()
            log.info("role.changed", role=BrokerRole.SYNC_MASTER.value, epoch=epoch)
            self._changed.emit()

    async def _take_over(self, epoch: int, *, is_confirmed: bool) -> None:
        """Write the log from now on; the part of `become_master` before the role is set."""
        replica = self._store.replica
        # Stop following first, including its work at the disk: a cut must not take new messages.
        self._client.follow(None)
        await self._client.stopped_following()
        # A master that is elected again only begins an epoch (H-145).
        is_new = not self._role.leads or replica.is_following
        if is_new:
            # Slaves connect again and compare epochs, so that they are cut to this log.
            self._ha.drop_all("this broker becomes the master")
            await replica.lead(is_confirmed=is_confirmed)
        if epoch:
            commit_log = self._store.commit_log
            try:
                await self.epochs.append(Epoch(epoch, commit_log.max_offset), commit_log.min_offset)
            except BaseException:  # cancelled, too; it goes on to the caller
                # Without its epoch on the disk this broker is no master: two epochs could get the
                # same start (F-8).
                if is_new:
                    replica.follow()  # it is no master
                raise

    async def become_slave(self, broker_id: int, master: MasterAddresses, epoch: int = 0) -> None:
        """Take no messages and follow a master from now on.

        Producers that wait for slaves get FLUSH_SLAVE_TIMEOUT (12); what they sent may be kept or
        cut by the new master's epochs (I-17).

        Args:
            broker_id: above 0.
            master: its addresses, as far as they are known; `master_told` tells the rest.
            epoch: the master's term; 0 without a controller.

        Raises:
            ValueError: a later epoch has begun here, or the id is a master's.
        """
        if broker_id <= MASTER_ID:
            raise ValueError(f"the id of a slave must be above 0, but is {broker_id}")
        async with self._changing:
            if epoch < self._role.epoch:
                raise ValueError(
                    f"epoch {epoch} is older than the current epoch {self._role.epoch}"
                )
            # Puts are refused before the role is set, so that no message is taken in between.
            self._store.replica.follow()
            self._role.set(BrokerRole.SLAVE, broker_id, epoch)
            # Nobody may get PUT_OK now: the new master may cut these messages (I-17).
            self._replicas.give_up()
            self._ha.drop_all("this broker becomes a slave")
            await self._role.apply()
            # End the old master's stream before taking the new address.
            self._client.follow(None)
            await self._client.stopped_following()
            self.master = master
            self._role.note_master(is_known=master.broker is not None)
            self._client.follow(master.replication)
            log.info("role.changed", role="SLAVE", broker_id=broker_id, epoch=epoch, master=master)
            self._changed.emit()
