"""`Controller`: connects consensus, liveness, elections and network.

Start reading at `Controller.start`. Everything that controllers agree on is in `replicas.py`; how
they agree, in `raft/core.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from pocketmq.controller.config import PROTECTED_OPTIONS, ControllerConfig
from pocketmq.controller.consensus import Consensus
from pocketmq.controller.elections import Elections
from pocketmq.controller.journal_file import JournalFile
from pocketmq.controller.links import ControllerLinks, RoleNotices
from pocketmq.controller.liveness import LiveBrokers, LiveKey
from pocketmq.controller.processors.admin import AdminProcessor, SettingsProcessor
from pocketmq.controller.processors.bounds import Bounds
from pocketmq.controller.processors.brokers import BrokerProcessor
from pocketmq.controller.processors.raft import RaftProcessor
from pocketmq.controller.raft.group import Group
from pocketmq.controller.replicas import Outcome
from pocketmq.operation.access.own_requests import OwnRequestsDoor
from pocketmq.operation.control.processor import ControlProcessor
from pocketmq.operation.events.roles import LeaderElected, MasterElected
from pocketmq.operation.events.sink import NO_EVENTS, EventSink
from pocketmq.operation.membership.doors import CONTROLLER_OPEN, guarded
from pocketmq.operation.membership.members import Members
from pocketmq.operation.option_updates import options_writer
from pocketmq.protocol.budget import DEFAULT_BUDGET, Budget
from pocketmq.protocol.headers.controller import NotifyBrokerRoleChangedRequestHeader
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.network import Listener, Network
from pocketmq.runtime.addresses import split_address
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.configuration.config import all_in
from pocketmq.runtime.configuration.live_options import LiveOptions
from pocketmq.runtime.files.durable_file import DurableFile
from pocketmq.runtime.files.text_files import AppendFiles, OsTextFiles
from pocketmq.runtime.profile import PROFILE_5_X, Profile

log = structlog.get_logger()

HEARTBEAT_SHARE = 0.2
"""Of the election time-out, between two heartbeats of the leading controller."""


@dataclass(frozen=True, slots=True)
class ControllerSeams:
    """What a test or a simulation exchanges around a controller."""

    clock: Clock
    """Of elections, heartbeats and scans."""
    network: Network
    """Where it listens and connects."""
    files: AppendFiles = field(default_factory=OsTextFiles)
    """Where its journal is."""
    seed: int | None = None
    """Of the election time-outs; None: unpredictable."""
    members: Members | None = None
    """Who has proven to be a member of the cluster; None: everybody is taken for one."""


class Controller:
    """One controller of a group.

    Args:
        config: Its options.
        seams: Time, network, files and chance.
        profile: Of what it says of its version.
        budget: What peers may cost.
        on_failure: It cannot go on: its disk failed, or its log contradicts the group's.
        events: Takes what happens here.
    """

    def __init__(
        self,
        config: ControllerConfig,
        seams: ControllerSeams,
        profile: Profile = PROFILE_5_X,
        *,
        budget: Budget = DEFAULT_BUDGET,
        on_failure: Callable[[str, BaseException], None] | None = None,
        events: EventSink = NO_EVENTS,
    ) -> None:
        self.config = config
        self.options = LiveOptions(
            config, budget, protected=PROTECTED_OPTIONS, others=all_in(config.config_store_path)
        )
        self.members = config.members()
        clock = self._clock = seams.clock
        self._network = seams.network
        self._profile = profile
        self._listener: Listener | None = None
        self._is_stopping = False
        saved_options = DurableFile(config.options_file, seams.files)
        self._options_writer = options_writer(self.options, saved_options)
        self.live = LiveBrokers(config.broker_close_grace / 1000)
        election_s = config.election_timeout / 1000
        self._links = ControllerLinks(
            seams.network,
            config.group,
            config.self_id,
            self.members,
            # Also while nobody checks: the check is then turned on at one controller after the
            # other.
            config.own_credentials,
        )
        self._notices = RoleNotices(seams.network)
        self.consensus = Consensus(
            Group(config.self_id, tuple(self.members), election_s * HEARTBEAT_SHARE, election_s),
            JournalFile(config.store_path, config.group, config.self_id, seams.files),
            clock,
            send=self._links.send,
            on_outcome=self._decided,
            on_leading=self._leads,
            on_failure=on_failure or _only_logged,
            seed=seams.seed,
        )
        self._elections = Elections(
            self.consensus,
            self.live,
            clock,
            allows_unclean=self._allows_unclean,
            scan_s=config.scan_not_active_broker_interval / 1000,
            settle_s=config.scan_inactive_master_interval / 1000,
        )
        self._control = ControlProcessor(clock, self.status, events)
        self._events = events
        own = OwnRequestsDoor(config.own_users) if config.authentication_enabled else None
        self.dispatcher = guarded(
            seams.members, CONTROLLER_OPEN, own, lambda: self.options.current(Budget)
        )

    @property
    def port(self) -> int:
        """The port it listens on."""
        return split_address(self.config.address)[1]

    @property
    def address(self) -> str:
        """`host:port` for brokers and tools."""
        return self.config.address

    async def start(self) -> None:
        """Load the journal, answer requests, and take part in the group.

        Raises:
            PortInUseError: another process listens there.
            DiskError: the journal cannot be used.
        """
        self._add_processors()
        # Load the journal first: a member that answers without it does not know its own vote.
        await self.consensus.start()
        host, port = split_address(self.config.address)
        self._listener = await self._network.serve(
            host,
            port,
            self.dispatcher,
            version=self._profile.client_version,
            on_close=self._channel_closed,
        )
        self._elections.start()

    async def stop(self) -> None:
        """Leave the group and close every connection."""
        # Connections that close from now on do not mean that brokers are dead.
        self._is_stopping = True
        await self._elections.stop()
        await self.consensus.stop()
        await self._options_writer.stop()
        if self._listener is not None:
            await self._listener.close()
        await self._links.close()
        await self._notices.close()
        await self._control.stop()

    def status(self) -> dict[str, str]:
        """What ROLE_STATUS tells."""
        raft = self.consensus.raft
        return {
            "role": "controller",
            "name": self.config.name,
            "id": self.config.self_id,
            "raftRole": raft.role.value,
            "term": str(raft.term),
            "leader": raft.leader,
            "serves": str(self.consensus.serves).lower(),
            "commitIndex": str(raft.commit_index),
            "brokerNames": str(len(self.consensus.replicas.groups)),
            "brokersAlive": str(len(self.live)),
        }

    def _add_processors(self) -> None:
        config, consensus, bounds = self.config, self.consensus, Bounds(self.dispatcher.budget)
        self.dispatcher.add(
            RaftProcessor(consensus, config.group),
            BrokerProcessor(
                consensus, self.live, self._clock, bounds, allows_unclean=self._allows_unclean
            ),
            AdminProcessor(
                consensus, self.live, self._clock, bounds, members=self.members, group=config.group
            ),
            SettingsProcessor(self.options, self._options_writer, self.port),
            self._control,
        )

    def _allows_unclean(self) -> bool:
        # Read at each election, because the option may change at run time.
        return self.options.current(ControllerConfig).enable_elect_unclean_master

    def _channel_closed(self, channel: Channel) -> None:
        if not self._is_stopping:
            self._elections.channel_closed(channel)

    def _leads(self) -> None:
        log.info("controller.leads", id=self.config.self_id, term=self.consensus.raft.term)
        # Scan now: masters may have died before this leader began (D-43).
        self._elections.wakeup()
        if self._events.is_on:
            term = self.consensus.raft.term
            stamp = self._events.stamp()
            self._events.emit(LeaderElected(*stamp, controller=self.config.name, term=term))

    def _decided(self, outcome: Outcome) -> None:
        """A command was applied; after an election the leader tells the brokers."""
        group = self.consensus.replicas.get(outcome.elected) if outcome.elected else None
        # Only the leader notifies brokers: another controller might announce an older election.
        if group is None or not self.consensus.raft.is_leader:
            return
        why = self._elections.why_lost(outcome.elected) if outcome.why == "lost" else outcome.why
        log.info(
            "master.elected", broker=outcome.elected, broker_id=group.master_id, why=why,
            epoch=group.master_epoch, address=group.address_of(group.master_id),
        )  # fmt: skip
        if self._events.is_on:
            self._events.emit(
                MasterElected(
                    *self._events.stamp(),
                    broker=outcome.elected,
                    broker_id=group.master_id,
                    epoch=group.master_epoch,
                    in_sync=sorted(group.in_sync),
                    why=why,
                )
            )
        if not self.options.current(ControllerConfig).notify_broker_role_changed:
            return
        header = NotifyBrokerRoleChangedRequestHeader(
            master_address=group.address_of(group.master_id),
            master_epoch=group.master_epoch,
            sync_state_set_epoch=group.set_epoch,
            master_broker_id=group.master_id,
        )
        now = self._clock.monotonic()
        for each in group.replicas:
            broker = self.live.get(LiveKey(outcome.elected, each))
            if broker is not None and not broker.is_dead(now, self.live.close_grace_s):
                self._notices.send(broker, header, group.sync_state_set())


def _only_logged(task: str, error: BaseException) -> None:
    log.error("controller.failed", task=task, reason=str(error))
