"""`ReplicaManager`: joins the controllers, and carries out what they say (D-1 to D-17)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import structlog

from pocketmq.broker.controller_mode.controllers import Controllers, Verdict
from pocketmq.broker.controller_mode.identity import Identity, IdentityFiles
from pocketmq.broker.controller_mode.sick_disk import SickDisk, successors
from pocketmq.broker.core import BrokerCore
from pocketmq.broker.replication.assembly import Replication
from pocketmq.broker.replication.role_changes import MasterAddresses
from pocketmq.broker.store.flush.flush_service import SYNC_FAILED
from pocketmq.broker.subject import Service
from pocketmq.protocol.bodies.controller import SyncStateSet
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.codes import ResponseCode, response_name
from pocketmq.protocol.errors import BrokerError, RemotingError
from pocketmq.protocol.headers.controller import (
    ExchangeHaInfoRequestHeader,
    ExchangeHaInfoResponseHeader,
)
from pocketmq.protocol.headers.route import BrokerHeartbeatRequestHeader
from pocketmq.protocol.transport.remoting import RemotingClient, expect
from pocketmq.runtime.errors import PeerError
from pocketmq.runtime.periodic import PeriodicService
from pocketmq.runtime.tasks import TaskOwner

log = structlog.get_logger()

TOO_FEW = "fewer replicas are in sync than minInSyncReplicas asks for"
"""Among the reasons why the store takes no message (D-90)."""

NO_LEASE = "the controllers do not answer, so another master may have been elected"
"""Likewise (W-2)."""

LEASE_CHECK_S = 0.25
LEASE_POLL_S = 1.0

RETRY_S = 1.0
"""Until this broker asks again, at its start."""

CHECK_S = 1.0
"""Between two looks at who is in sync, and at the master's address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerRules:
    """Periods, and what acknowledged means."""

    heartbeat_s: float
    timeout_ms: int
    poll_s: float
    all_ack: bool
    min_in_sync: int
    priority: int


# behaviour 45
class ReplicaManager(Service):
    """This broker's part of controller mode (B-152).

    Args:
        core: of the broker; its store is fenced until the controllers have spoken.
        replication: carries out changes of role.
        controllers: are asked.
        peers: connections to other brokers.
        files: who this replica is.
        rules: periods.
    """

    def __init__(
        self,
        core: BrokerCore,
        replication: Replication,
        controllers: Controllers,
        peers: RemotingClient,
        files: IdentityFiles,
        rules: ManagerRules,
    ) -> None:
        self._core = core
        self._replication = replication
        self._controllers = controllers
        self._peers = peers
        self._files = files
        self._rules = rules
        self._who = Identity(core.config.cluster_name, core.config.name, 0)
        self._changing = asyncio.Lock()
        self._proposals = 0
        self._is_unsure = False
        """The last proposal was refused; an earlier one may hold until the controllers are asked
        what does (F-5)."""
        self._applied: Verdict | None = None
        self._tasks = TaskOwner("controller_mode")
        clock = core.clock
        self._beats = PeriodicService(
            "controller heartbeat", clock, rules.heartbeat_s, self._beat, initial_delay_s=0
        )
        self._disk = SickDisk()
        self._lease = core.role.lease
        # Polls renew the lease, so they must come more often than it expires.
        poll_s = min(rules.poll_s, LEASE_POLL_S) if self._lease.is_wanted else rules.poll_s
        self._polls = PeriodicService("controller poll", clock, poll_s, self._poll)
        self._leases = PeriodicService("master lease", clock, LEASE_CHECK_S, self._check_lease)
        self._checks = PeriodicService("sync state", clock, CHECK_S, self._check)
        replication.slaves.acks_moved.connect(self._acks_moved)
        if self._lease.is_wanted:  # the clock, too: timers come late in a process that was stopped
            core.store.about_to_put.connect(self._look_at_lease)

    # -- life -----------------------------------------------------------------------------------

    async def load(self) -> None:
        self._replication.roles.fence()

    async def start(self) -> None:
        """Return when the controllers know this broker: until then it registers nowhere (F-24)."""
        self._core.store.replica.follow()
        if self._rules.all_ack:  # after recovery has clamped consumer offsets to what is there
            self._core.store.replica.hide_unconfirmed()
        while True:
            try:
                await self._join()
                break
            except (PeerError, RemotingError, BrokerError) as exc:
                log.warning("controller.not_joined", reason=str(exc), retry_s=RETRY_S)
            await self._core.clock.sleep(RETRY_S)
        # Start these only after the join, which gives this broker its id.
        self._beats.start()
        self._polls.start()
        self._checks.start()
        if self._lease.is_wanted:
            self._leases.start()

    async def stop(self) -> None:
        for service in (self._beats, self._polls, self._checks, self._leases):
            await service.stop()
        with self._core.clock.peer_wait():
            async with self._changing:  # half a change of role would leave the epoch unwritten
                await self._tasks.stop()
        await self._controllers.close()
        await self._peers.close()

    # -- joining --------------------------------------------------------------------------------

    async def _join(self) -> None:
        self._who = await self._identity()
        self._replication.sync.named(self._who.broker_id)
        verdict = await self._controllers.register(self._who, str(self._core.address))
        # Send a heartbeat before the election, which only counts brokers that have sent one.
        await self._send_heartbeat()
        if verdict.master_id is None:
            elected = await self._controllers.elect(self._who)
            if elected is not None:
                verdict = elected
        if verdict.master_id is not None:
            await self.apply(verdict)
        else:
            log.warning("master.none", broker=self._who.name, reason="nobody in sync is alive")
            await self._wait_as_slave(verdict)
        self._replication.roles.unfence()
        log.info("controller.joined", broker_id=self._who.broker_id, master=verdict.master_id)

    async def _identity(self) -> Identity:
        cluster, name = self._who.cluster, self._who.name
        found = await self._files.load(cluster, name)
        if found is not None and not found.check_code:
            return found
        if found is None:
            number = await self._controllers.next_id(cluster, name)
            # Unique for this broker and start: by it the controllers know who claimed the id.
            code = f"{self._core.address};{self._core.clock.time_ms()}"
            found = Identity(cluster, name, number, code)
            # Save the claim before sending it: after a crash this broker claims the same id again.
            await self._files.claim(found)
        if not await self._controllers.claim(found):
            # Another broker has the id; the next attempt asks for a new one.
            self._files.refused()
            raise BrokerError(
                ResponseCode.CONTROLLER_BROKER_ID_INVALID, f"id {found.broker_id} was taken"
            )
        await self._files.confirmed(found)
        return found._replace(check_code="")

    # -- who is master --------------------------------------------------------------------------

    def told(self, verdict: Verdict) -> None:
        """A controller told of an election (D-17); older news changes nothing."""
        # Before the start and after the stop nothing may change the role.
        if self._polls.running and verdict.epoch > self._core.role.epoch:
            self._tasks.start(self.apply(verdict), name=f"role of epoch {verdict.epoch}")

    async def apply(self, verdict: Verdict) -> None:
        """Become what the controllers say, unless it is older than what this broker is."""
        async with self._changing:
            role, sync = self._core.role, self._replication.sync
            # After a restart the epoch on the disk may be the verdict's although no role is taken
            # yet.
            is_new = verdict.epoch > role.epoch or self._applied is None
            if verdict.master_id is None or verdict.epoch < role.epoch:
                return
            if not is_new:
                # The role stays; only the sync state set may be newer.
                if role.leads and verdict.epoch == role.epoch:
                    sync.told(verdict.in_sync, verdict.set_epoch)
                    self._settle()
                return
            self._applied = verdict
            if verdict.master_id == self._who.broker_id:
                await self._lead(verdict)
            else:
                await self._follow(verdict)

    async def _lead(self, verdict: Verdict) -> None:
        core, sync = self._core, self._replication.sync
        ids = verdict.in_sync or frozenset({self._who.broker_id})
        others_count = self._rules.all_ack and len(ids) > 1
        if len(ids) < self._rules.min_in_sync:  # before the first message could be taken
            core.store.readiness.block(TOO_FEW)
        await self._replication.roles.become_master(verdict.epoch, is_confirmed=not others_count)
        start = core.store.commit_log.max_offset
        # This broker was elected just now, which renews the lease as an answer does.
        self._renew(core.clock.monotonic())
        sync.begin(ids, verdict.set_epoch, start, core.clock.monotonic())
        self._settle()

    async def _follow(self, verdict: Verdict) -> None:
        self._replication.sync.end()
        # These reasons are for a master only; a slave writes what its master sends.
        self._core.store.readiness.unblock(TOO_FEW, NO_LEASE)
        where = MasterAddresses(verdict.master_address, None)
        await self._replication.roles.become_slave(self._who.broker_id, where, verdict.epoch)
        self._checks.wakeup()

    async def _wait_as_slave(self, verdict: Verdict) -> None:
        nobody = MasterAddresses(None, None)
        await self._replication.roles.become_slave(self._who.broker_id, nobody, verdict.epoch)

    async def _poll(self) -> None:
        """Ask who is master; propose an election when nobody is (D-6)."""
        is_unsure, proposals = self._is_unsure, self._proposals
        try:
            if self._lease.is_wanted:
                await self._send_heartbeat()  # so that who answers has heard of us
            # The lease counts from the question: the answer may have been on its way for long.
            asked_at = self._core.clock.monotonic()
            verdict = await self._controllers.master_of(self._who.name)
            if verdict.master_id is None:
                elected = await self._controllers.elect(self._who)
                if elected is None:
                    return
                verdict = elected
        except (PeerError, RemotingError, BrokerError) as exc:
            log.warning("controller.not_asked", reason=str(exc))
            return
        await self.apply(verdict)
        role = self._core.role
        if (verdict.master_id, verdict.epoch) == (self._who.broker_id, role.epoch) and role.leads:
            self._renew(asked_at)
        # No proposal was made meanwhile, so this answer shows the outcome of the last one.
        if is_unsure and proposals == self._proposals:
            self._is_unsure = False
            if verdict.epoch == self._core.role.epoch:
                self._replication.sync.answered()
                self._settle_if_leading()

    # -- the lease ------------------------------------------------------------------------------

    def _renew(self, asked_at: float) -> None:
        self._lease.answered(asked_at)
        if not self._lease.has_ended(self._core.clock.monotonic()):
            self._core.store.readiness.unblock(NO_LEASE)

    async def _check_lease(self) -> None:
        self._look_at_lease()

    def _look_at_lease(self) -> None:
        readiness = self._core.store.readiness
        if not self._core.role.leads or NO_LEASE in readiness.reasons:
            return
        if self._lease.has_ended(self._core.clock.monotonic()):
            log.warning("master.lease_ended", broker=self._who.name, reason=NO_LEASE)
            readiness.block(NO_LEASE)

    # -- heartbeats -----------------------------------------------------------------------------

    async def _beat(self) -> None:
        await self._send_heartbeat()

    async def _send_heartbeat(self) -> None:
        progress = self._replication.roles.progress
        await self._controllers.heartbeat(
            BrokerHeartbeatRequestHeader(
                cluster_name=self._who.cluster,
                broker_addr=str(self._core.address),
                broker_name=self._who.name,
                broker_id=self._who.broker_id,
                epoch=progress.epoch,
                max_offset=progress.max_offset,
                confirm_offset=progress.confirm_offset,
                heartbeat_timeout_mills=self._rules.timeout_ms,
                election_priority=self._rules.priority,
            )
        )

    # -- who is in sync -------------------------------------------------------------------------

    def _acks_moved(self) -> None:
        if not self._core.role.leads or not self._replication.sync.ids:
            return
        self._settle()
        if self._wanted() is not None:
            # Check at once: producers may be waiting for a slave that has left.
            self._checks.wakeup()

    def _wanted(self) -> frozenset[int] | None:
        store = self._core.store
        sync = self._replication.sync
        return sync.wanted(store.confirmed_offset, self._core.clock.monotonic())

    def _settle(self) -> None:
        """What follows from the set: how far consumers see, and whether messages are taken."""
        store, sync = self._core.store, self._replication.sync
        if self._rules.all_ack and sync.others:
            end = store.commit_log.max_offset
            store.confirm(sync.confirm_offset(store.confirmed_offset, end))
        else:
            # No other replica counts, so consumers see all that is stored.
            store.confirm(None)
        if len(sync.members) < self._rules.min_in_sync:
            store.readiness.block(TOO_FEW)
        else:
            store.readiness.unblock(TOO_FEW)

    def _settle_if_leading(self) -> None:
        if self._core.role.leads and self._replication.sync.ids:
            self._settle()
            self._replication.slaves.acks_moved.emit()

    async def _check(self) -> None:
        """The master proposes a set where it has changed; a slave finds its master."""
        if not self._core.role.leads:
            await self._find_master()
            return
        if self._disk.look(
            self._core.clock.monotonic(),
            has_failed=SYNC_FAILED in self._core.store.readiness.reasons,
        ):
            await self._hand_over()
        sync = self._replication.sync
        wanted = self._wanted()
        # A proposal without an answer is repeated: it may have been accepted.
        if wanted is None and not sync.is_asking:
            return
        ids = wanted or sync.ids
        epoch = self._core.role.epoch
        sync.asked(ids)
        self._proposals += 1
        self._settle()  # from now on both sets count (H-150)
        try:
            reply = await self._controllers.alter(self._who, epoch, ids, sync.set_epoch)
        except (PeerError, RemotingError, BrokerError) as exc:
            # It may have been accepted, so both sets still count.
            log.warning("sync_state.unknown", wanted=sorted(ids), reason=str(exc))
            return
        # The answer is about an epoch that is over.
        if not self._core.role.leads or self._core.role.epoch != epoch:
            return
        if reply.code != ResponseCode.SUCCESS:
            self._is_unsure = True
            log.info(
                "sync_state.refused", wanted=sorted(ids), code=response_name(reply.code),
                reason=reply.remark,
            )  # fmt: skip
            self._polls.wakeup()
        else:
            sync.answered()
            body = decode_body(reply.body_view, SyncStateSet, reply.encoding)
            sync.told(frozenset(body.sync_state_set or ()), body.sync_state_set_epoch)
            log.info("sync_state.changed", in_sync=sorted(sync.ids), epoch=sync.set_epoch)
        self._settle()

    async def _hand_over(self) -> None:
        """Have another one elected, which the disk of this broker cannot stop (W-13)."""
        sync = self._replication.sync
        try:
            verdict = await self._controllers.master_of(self._who.name)
            for each in successors(sync.ids, sync.own_id, sync.acked):
                if verdict.master_id != self._who.broker_id:
                    break
                log.warning("master.hands_over", broker=self._who.name, to=each, reason=SYNC_FAILED)
                verdict = await self._controllers.elect(self._who, each) or verdict
        except (PeerError, RemotingError, BrokerError) as exc:
            log.warning("master.not_handed_over", broker=self._who.name, reason=str(exc))
            return
        await self.apply(verdict)

    async def _find_master(self) -> None:
        """Ask the master for its replication address, which controllers do not know (W-6)."""
        roles = self._replication.roles
        if roles.master.broker is None or roles.master.replication is not None:
            return
        try:
            reply = expect(
                await self._core.clock.peer_answer(
                    self._peers.call(roles.master.broker, ExchangeHaInfoRequestHeader()),
                    roles.master.broker,
                )
            )
        except (PeerError, RemotingError, BrokerError) as exc:
            log.info("master.not_asked", master=roles.master.broker, reason=str(exc))
            return
        answer = reply.header(ExchangeHaInfoResponseHeader)
        if answer.master_ha_address:
            roles.master_told(roles.master.broker, answer.master_ha_address)
