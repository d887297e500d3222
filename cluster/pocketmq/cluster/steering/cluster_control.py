"""Steers one running cluster; every way to steer a cluster uses this class.

The roles are those of `pocketmq up`, where the control address turns HTTP requests into calls of a
`ClusterControl`, or those of a test, where `pocketmq.testing` calls it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import structlog

from pocketmq.client import Admin, MessageExt
from pocketmq.client.instances import running
from pocketmq.client.joined_clocks import register, unregister
from pocketmq.cluster import group_changes
from pocketmq.cluster.folder import USER_FILE
from pocketmq.cluster.limits import ROUTE_LIMIT_S
from pocketmq.cluster.steering.access import ClusterAccess
from pocketmq.cluster.steering.asking import ask_connected, ask_group_state
from pocketmq.cluster.steering.client_clocks import ClientClocks
from pocketmq.cluster.steering.clock_runner import ClockRunner
from pocketmq.cluster.steering.cluster_view import ClusterView
from pocketmq.cluster.steering.errors import TooFarError, WrongClusterError
from pocketmq.cluster.steering.event_stream import EventStream
from pocketmq.cluster.steering.faults import ClusterFaults
from pocketmq.cluster.steering.group_state import GroupState
from pocketmq.cluster.steering.pending import held_back, held_back_text
from pocketmq.cluster.steering.roles import Roles, addresses_of
from pocketmq.cluster.steering.shape import MAX_ADVANCE_S, ClockKind
from pocketmq.cluster.steering.snapshots import SnapshotInfo, Snapshots
from pocketmq.cluster.steering.timeline import Act
from pocketmq.cluster.steering.waiting import Missing, standing_clock, until_nothing_is_missing
from pocketmq.cluster.topic_changes import check_message_type, check_queues, create_or_change
from pocketmq.operation.control.requests import RoleStatusRequestHeader
from pocketmq.operation.faults.rule import FaultRule
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import BrokerError, RemotingError
from pocketmq.protocol.messages.validation import dlq_topic
from pocketmq.protocol.scalars import MessageType
from pocketmq.protocol.signing import Credentials
from pocketmq.protocol.transport.remoting import expect
from pocketmq.protocol.transport.traffic import TRAFFIC
from pocketmq.runtime.errors import ClockMemberError, PeerError, PocketMQError
from pocketmq.runtime.files.replaced_together import finish_together
from pocketmq.runtime.logs import configure_if_unset
from pocketmq.runtime.manual_time import lock_step
from pocketmq.runtime.manual_time.clock_members import ClockMember, Deadline
from pocketmq.runtime.manual_time.lock_step import OnDeadline, Until
from pocketmq.runtime.words import counted

log = structlog.get_logger()


class ClusterControl:
    """One cluster. Its coroutines must run in the loop in which it was started.

    Args:
        roles: The cluster's roles.
        clock: Whether they run on real or manual time.
        events_from_start: The roles keep events from their start on.
        on_stop: Called when somebody at the control address asks the whole cluster to stop.
        access: Users and rules that brokers get when they start without them.
    """

    def __init__(
        self,
        roles: Roles,
        clock: ClockKind,
        *,
        events_from_start: bool = False,
        on_stop: Callable[[], None] | None = None,
        access: ClusterAccess | None = None,
    ) -> None:
        self._access = access
        self.roles = roles
        self.view = ClusterView(roles, clock)
        self.clock: ClockKind = clock
        self.timeline: list[Act] = []
        """What was done to it so far, for the report of a failed test."""
        self.killed: set[str] = set()
        """Roles that were ended on purpose and not started again."""
        self.faults = ClusterFaults(roles)
        self.events = EventStream(self.view, from_start=events_from_start)
        self.runner = ClockRunner(self.advance)
        self.snapshots = Snapshots(roles, self._start_again)
        self.unfinished: list[str] = []
        """What is being done before clients shall begin, as sentences; see `before_ready`."""
        self._on_stop = on_stop
        self._clocks = ClientClocks(self.time_ms)
        self._warned: set[str] = set()
        self._moving = asyncio.Lock()
        self.resources = contextlib.AsyncExitStack()
        """Exited before the roles are stopped; for things like an HTTP port."""

    # -- life -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the roles and return when every nameserver knows every broker."""
        for line in finish_together(self.roles.data):
            configure_if_unset()  # unconfigured, structlog prints to standard output
            log.warning("data.restored", what=line)
        await self.roles.start()
        try:
            # Noted before any move: otherwise a manual clock would seem to stand at 1970.
            self.view.note_time(self.roles.time_ms())
            # A broker is usable once every nameserver knows it, which is later than its READY line.
            await self._until_registered(self.roles.running_brokers)
            await self._make_users(
                each for each in self.roles.names if self.roles.role(each) == "broker"
            )
        except BaseException:  # nobody stops a cluster that did not start
            await self.roles.stop()
            raise
        # An election of controllers has moved the clocks since the time was noted.
        await self.refresh_time()
        if self.clock == "manual":
            # Clients of this process that use these nameservers get clocks that move with the
            # roles'.
            register(self.roles.nameserver_addresses, self._clocks.make)

    async def stop(self) -> None:
        """Stop the roles."""
        # First, so that nobody moves clocks or reads events of roles that are stopping.
        await self.runner.stop()
        await self.events.close()
        await self.resources.aclose()
        with contextlib.suppress(AssertionError):  # raised if it was never started
            unregister(self.roles.nameserver_addresses)
        await self.roles.stop()

    @contextlib.contextmanager
    def before_ready(self, what: str) -> Iterator[None]:
        """Let nobody take the cluster for ready during a block.

        Args:
            what: A sentence for `/readyz`, such as "seeding is not done".
        """
        self.unfinished.append(what)
        try:
            yield
        finally:
            self.unfinished.remove(what)

    def request_stop(self) -> None:
        """Ask whoever runs the cluster to stop it.

        Raises:
            WrongClusterError: Nobody but a test may do that.
        """
        if self._on_stop is None:
            raise WrongClusterError(
                "this cluster cannot be stopped here: it ends with the test that started it"
            )
        self._note("stop")
        self._on_stop()

    @property
    def nameservers(self) -> str:
        """`host:port;host:port`."""
        return self.view.nameservers

    def admin(self, nameservers: str | None = None) -> Admin:
        """An admin client on real time, of one nameserver or of all that run."""
        return self.view.admin(nameservers)

    async def missing_registrations(self, brokers: Sequence[str] | None = None) -> str:
        """Which nameserver does not know which broker, as text; empty when each knows all."""
        # One by one: a client of all nameservers would hide one that lacks a broker.
        wanted = set(self.roles.running_brokers if brokers is None else brokers)
        for address in self.roles.nameserver_addresses:
            async with self.admin(address) as admin:
                if lacking := _lacking(wanted - set(await admin.brokers())):
                    return f"{address}: {lacking}"
        return ""

    # -- roles ------------------------------------------------------------------------------

    def known(self, name: str) -> str:
        """Check that a role exists; returns its name.

        Raises:
            WrongClusterError: There is none of this name.
        """
        if name not in self.roles.names:
            raise WrongClusterError(
                f"this cluster has no role {name!r}; its roles are {', '.join(self.roles.names)}"
            )
        return name

    async def freeze(self, name: str) -> None:
        """Stop a role's reading and timers; its connections stay up."""
        # Noted before, so that the timeline shows it even if it hangs or fails.
        self._note(f"freeze {self.known(name)}")
        with self.events.acting(name, "frozen"):
            await self.roles.freeze(name)

    async def thaw(self, name: str) -> None:
        """Resume a frozen role; on manual time its clock is moved to the cluster's time."""
        self._note(f"thaw {self.known(name)}")
        with self.events.acting(name, "running"):
            await self.roles.thaw(name)
        # Rules may have been added or cleared while the role was frozen.
        await self.faults.tell(name, is_new=False)
        if self.clock == "manual":
            # The other roles' clocks have moved while this one stood still.
            await lock_step.advance_to(await self._members(), self.time_ms())

    async def kill(self, name: str) -> None:
        """End a role at once, so that it cannot save anything."""
        self.killed.add(self.known(name))
        self._note(f"kill {self.known(name)}")
        with self.events.acting(name, "ended"):
            await self.roles.kill(name)

    async def restart(self, name: str) -> None:
        """Start a role that has ended again; returns when the nameservers know it."""
        self._note(f"restart {self.known(name)}")
        self.killed.discard(name)
        await self._start_again(name)

    async def _start_again(self, name: str) -> None:
        with self.events.acting(name, "running"):
            await self.roles.restart(name)
        # Before anybody finds the role, so that the rules apply from its first frame on.
        await self.faults.tell(name, is_new=True)
        broker = self.roles.broker_name(name)  # a replica's process has a name of its own
        if broker in self.roles.running_brokers:
            await self._until_registered([broker])
            await self._make_users([name])

    async def _make_users(self, names: Iterable[str]) -> None:
        """Give brokers that have just started the users that they lack; slaves copy none."""
        if self._access is not None:
            async with self.view.remoting(self._access.steering) as remoting:
                await self._access.make(
                    remoting, {each: self.roles.addresses[each] for each in names}
                )

    async def is_super_user(self, given: Credentials) -> bool:
        """Whether brokers know a super user with this key; also where they check no request.

        Raises:
            PeerError: No master answers, and it is not the cluster's own super user.
        """
        own = self.roles.credentials
        if own is None:
            return True
        if given.access_key == own.access_key:
            # The cluster's own user is checked here, so that it can be steered even if all masters
            # are down.
            return hmac.compare_digest(given.secret_key.encode(), own.secret_key.encode())
        # Only masters: passwords are changed and users removed there, and slaves copy neither.
        masters: list[str] = []
        with contextlib.suppress(PocketMQError):  # no nameserver answers: the error below
            async with self.admin() as admin:
                masters = [each[0] for each in (await admin.brokers()).values() if 0 in each]
        async with self.view.remoting(given) as remoting:
            for address in masters:
                try:  # PocketMQ's own requests need a super user
                    expect(await remoting.call(address, RoleStatusRequestHeader()))
                except BrokerError as exc:
                    if exc.code == ResponseCode.NO_PERMISSION:
                        return False
                except RemotingError:
                    continue
                else:
                    return True
        raise PeerError(
            f"no master answers, so user {given.access_key} cannot be checked; to restart a "
            f"master, give the name and key of {own.access_key} from {self.roles.data / USER_FILE}"
        )

    # -- faults -----------------------------------------------------------------------------

    async def add_fault(self, rule: FaultRule) -> FaultRule:
        """Let a fault rule hold from now on; see `ClusterFaults.add`."""
        named = await self.faults.add(rule)
        self.events.fault_began(named)
        self._note(f"fault {named.id}: {named.do} at {named.role or 'every role'}")
        return named

    async def clear_faults(self, rule_id: str | None = None) -> int:
        """Take a fault rule back, or all; how many there were."""
        # Noted before, since cleared rules cannot be asked for afterwards.
        held = {each.id for each in self.faults.rules}
        cleared = await self.faults.clear(rule_id)
        for ended in sorted(held.difference(each.id for each in self.faults.rules)):
            self.events.fault_ended(ended)
        self._note(f"clear fault {rule_id or 'rules, all of them'}")
        return cleared

    # -- data -------------------------------------------------------------------------------

    async def save_snapshot(self, folder: Path, *, with_secrets: bool = False) -> SnapshotInfo:
        """Copy stores and KV configuration into a folder; see `Snapshots.save`."""
        self._note(f"save snapshot {folder}")
        # Refreshed, as somebody else may have moved the clocks, and the snapshot contains this
        # time.
        time_ms = await self.refresh_time()
        return await self.snapshots.save(folder, time_ms, with_secrets=with_secrets)

    async def load_snapshot(self, folder: Path) -> SnapshotInfo:
        """Put a snapshot in place of what is there; see `Snapshots.load`."""
        self._note(f"load snapshot {folder}")
        found = await self.snapshots.load(folder)
        await self._until_led(self.roles.running_brokers)
        return found

    async def reset(self) -> None:
        """Start all roles anew, without topics, messages, offsets and KV configuration."""
        self._note("reset")
        await self.snapshots.reset()
        await self._until_led(self.roles.running_brokers)

    # -- topics -----------------------------------------------------------------------------

    async def create_topic(
        self, topic: str, queues: int, message_type: MessageType | None = None
    ) -> dict[str, int]:
        """Create a topic on every running broker; returns when every nameserver has the routes.

        Returns:
            By broker, how many queues it had before, if it had another number.

        Raises:
            ConfigError: A topic cannot have so many queues, or be for such messages.
        """
        check_queues(queues)
        check_message_type(message_type)
        self._note(f"create topic {topic}, {counted(queues, 'queue')} on each broker")
        brokers = self.roles.running_brokers
        async with self.admin() as admin:
            before = await create_or_change(admin, topic, queues, brokers, message_type)
        # One by one, since producers and consumers may ask any nameserver.
        for address in self.roles.nameserver_addresses:
            async with self.admin(address) as admin:

                async def missing(admin: Admin = admin) -> str:
                    route = await admin.route(topic)
                    known = {each.broker_name for each in route.queue_datas} if route else set()
                    return _lacking(set(brokers) - known)

                await self._wait(f"the route of {topic} at {address}", missing, ROUTE_LIMIT_S)
        return before

    # -- groups -----------------------------------------------------------------------------

    async def create_group(self, group: str, changes: dict[str, Any]) -> None:
        """Create a group on every running broker, or change it; see `group_changes`.

        Raises:
            CallerError: The group is built in.
        """
        self._note(f"create group {group}")
        async with self.admin() as admin:
            await group_changes.create_or_change(admin, group, changes, self.roles.running_brokers)

    async def group_state(self, group: str) -> GroupState:
        """Members, queues and offsets of a group, asked from brokers and members."""
        return await self.view.group_state(group)

    async def assigned(self, group: str, members: int | None, limit_s: float) -> None:
        """Wait until each queue of the group's topics has an owner.

        Raises:
            NotReachedError: It took longer than `limit_s` real seconds.
        """
        async with self.admin() as admin:

            async def missing() -> str:
                return (await ask_group_state(admin, group)).missing_queues(members)

            await self._wait(f"group {group} to have its queues", missing, limit_s)

    async def consumed_all(self, group: str, limit_s: float) -> None:
        """Wait until the members have consumed all messages of the topics they subscribe to.

        Raises:
            NotReachedError: It took longer than `limit_s` real seconds.
        """
        async with self.admin() as admin:

            async def missing() -> str:
                return (await ask_group_state(admin, group)).missing_messages()

            await self._wait(f"group {group} to consume all", missing, limit_s)

    # -- time -------------------------------------------------------------------------------

    def time_ms(self) -> int:
        """The cluster's time in epoch ms."""
        return self.view.time_ms()

    async def refresh_time(self) -> int:
        """The cluster's time as roles report it: another process may have moved their clocks."""
        return await self.view.refresh_time()

    async def advance(self, seconds: float) -> None:
        """Move all clocks in lock step, those of clients in this process included.

        Raises:
            WrongClusterError: The cluster runs on real time.
            TooFarError: Time does not go back, nor further than `MAX_ADVANCE_S` at once.
            PeerError: A role could not move its clock.
        """
        self._needs_manual_clock()
        if not 0 <= seconds <= MAX_ADVANCE_S:
            raise TooFarError(seconds)
        # From the time that roles report: the command line may have moved them.
        await self.advance_to(await self.refresh_time() + round(seconds * 1000))

    async def advance_to(self, time_ms: int, on_deadline: OnDeadline | None = None) -> None:
        """Move all clocks to a time in lock step; does nothing if it has passed.

        Args:
            time_ms: Epoch ms.
            on_deadline: Called with each deadline up to that time.

        Raises:
            WrongClusterError: The cluster runs on real time.
            TooFarError: That is more than `MAX_ADVANCE_S` ahead.
        """
        self._needs_manual_clock()
        if time_ms - self.time_ms() > MAX_ADVANCE_S * 1000:
            raise TooFarError((time_ms - self.time_ms()) / 1000)
        # Noted before the move, by which `advance_until` sees that somebody else has moved the
        # time.
        self._note(f"advance {(time_ms - self.time_ms()) / 1000:g} s")
        await self._advance_to(time_ms, on_deadline)

    async def run_clock(self, speed: float) -> None:
        """Let a manual clock run by itself; 0: let it stand still.

        Args:
            speed: Protocol seconds for one real second.

        Raises:
            WrongClusterError: The cluster runs on real time.
        """
        self._needs_manual_clock()
        self._note(f"run the clock at x{speed:g}")
        await (self.runner.run(speed) if speed else self.runner.stop())

    async def deadlines(self) -> list[Deadline]:
        """Epoch ms of the earliest timer of each role and client, with its name; earliest first."""
        self._needs_manual_clock()
        return await lock_step.deadlines(await self._members())

    async def advance_until(self, holds: Callable[[], Awaitable[bool]], until_ms: int) -> bool:
        """Move from deadline to deadline until something holds, at most to `until_ms`.

        `holds` is asked before anything moves, and at each deadline when all have come to rest. It
        may do what a test does: start clients, kill roles, move time.

        Returns:
            Whether it held.
        """
        self._needs_manual_clock()
        # Asked before the lock is taken: if it holds already, no move is needed.
        is_reached = await holds()

        async def stop_at(now_ms: int) -> bool:
            nonlocal is_reached
            self.view.note_time(now_ms)
            # Released, since `holds` may itself move the time, restart roles or start clients.
            self._moving.release()
            try:
                is_reached = await holds()
            finally:
                await self._moving.acquire()
            # If anything has changed, this move's members and deadlines are out of date.
            return is_reached or self.time_ms() != now_ms or self._scene() != scene

        while not is_reached and self.time_ms() < until_ms:
            # Looked up for each move: a change ends a move, and the next one has all members.
            scene = self._scene()
            await self._advance_to(until_ms, until=stop_at)
        return is_reached

    async def hint(self) -> str:
        """The end of a sentence about a failed wait: roles that do not run, a clock that stands."""
        states = {name: self.roles.state(name) for name in self.roles.names}
        said = "".join(f"; {name} is {s}" for name, s in states.items() if s != "running")
        said += await self.pending()
        # A clock that runs by itself does not stand still.
        if self.clock != "manual" or self.runner.speed:
            return said
        try:
            return said + standing_clock(self.time_ms(), await self.deadlines())
        except PocketMQError:  # a role does not answer, which the wait itself has noticed
            return said + standing_clock(self.time_ms(), ())

    async def pending(self) -> str:
        """The end of a sentence about a failed wait: messages that brokers deliver later."""
        async with self.admin() as admin:
            held = await held_back(admin, self.roles.running_brokers, self.time_ms())
        return held_back_text(held, self.time_ms())

    async def dead_letters(self, group: str) -> list[MessageExt]:
        """The messages in a group's dead letter topic, from the oldest on."""
        found: list[MessageExt] = []
        async with self.admin() as admin:
            topic = dlq_topic(group)
            if await admin.route(topic) is None:
                return []
            for queue, bounds in (await admin.topic_stats(topic)).items():
                offset = bounds.min_offset
                while offset < bounds.max_offset:
                    read = await admin.read(queue, offset)
                    found += read.messages
                    # At least one further: a broker without a next offset would be asked for ever.
                    offset = max(offset + 1, read.next_begin_offset)
        return sorted(found, key=lambda each: each.store_timestamp_ms)

    async def reset_group(self, group: str, topic: str, time_ms: int) -> None:
        """Move a group's offsets of a topic to what was stored at a moment; -1: to the end."""
        self._note(f"reset group {group} at {topic} to {time_ms}")
        async with self.admin() as admin:
            await admin.reset_offset(group, topic, time_ms)

    async def real_time_clients(self) -> list[str]:
        """Ids of clients on real time beside a manual clock; each id is returned only once."""
        # Collected before and after the request, as clients of this process come and go in other
        # threads.
        joined = self._joined()
        async with self.admin() as admin:
            connected = await ask_connected(admin, self.roles.running_brokers)
        joined |= self._joined()  # one may have started in another thread since
        found = set(connected) - joined - self._warned
        self._warned |= found
        return sorted(found)

    # -- inside -----------------------------------------------------------------------------

    def _joined(self) -> set[str]:
        """Ids of the clients of this process that are on the cluster's manual time."""
        return {each.client_id for each in running() if self._clocks.made(each.config.clock)}

    def _needs_manual_clock(self) -> None:
        if self.clock != "manual":
            raise WrongClusterError(
                "this cluster's clock shows real time and cannot be moved; start the cluster "
                "with `pocketmq up --clock manual`, or in a test use the fixture pocketmq_clock "
                'or start_cluster(clock="manual")'
            )

    def _note(self, what: str) -> None:
        self.timeline.append(Act.now(self.time_ms(), what))

    def _scene(self) -> tuple[int, Collection[object]]:
        """Differs when roles may have begun or ended, or clients whose clocks move with theirs."""
        return len(self.timeline), self._clocks.known()

    async def _advance_to(
        self, time_ms: int, on_deadline: OnDeadline | None = None, until: Until | None = None
    ) -> None:
        async with self._moving:
            # The time may have passed the target while another move held the lock.
            target_ms = max(time_ms, self.time_ms())
            # Under the lock, so that new roles and clients are included.
            members = await self._members()
            with self.roles.moving():
                await lock_step.advance_to(
                    members,
                    target_ms,
                    on_lost=_unless_closed,
                    on_deadline=on_deadline,
                    traffic=TRAFFIC,
                    until=until,
                )
            if until is None:  # else it has noted each moment
                self.view.note_time(target_ms)

    async def _members(self) -> list[ClockMember]:
        frozen = addresses_of(self.roles, "frozen")
        return [*await self.roles.clock_members(), *self._clocks.members(frozen)]

    async def _until_registered(self, brokers: Sequence[str]) -> None:
        async def missing() -> str:
            return await self.missing_registrations(brokers)

        await self._wait("the nameservers to know the brokers", missing, ROUTE_LIMIT_S)

    async def _until_led(self, brokers: Sequence[str]) -> None:
        """Wait until each nameserver knows each broker's master, after all roles were started.

        Replicas register before their controllers have chosen one, and routes come with the master:
        whoever asked earlier would be told that no topic exists.
        """

        async def missing() -> str:
            for address in self.roles.nameserver_addresses:
                async with self.admin(address) as admin:
                    led = {name for name, masters in (await admin.brokers()).items() if masters}
                    if lacking := _lacking(set(brokers) - led):
                        return f"{address}: {lacking}"
            return ""

        await self._wait("the nameservers to know the masters", missing, ROUTE_LIMIT_S)

    async def _wait(self, what: str, missing: Missing, limit_s: float) -> None:
        await until_nothing_is_missing(what, missing, limit_s, self.view.real_time, self.hint)


def _lacking(brokers: set[str]) -> str:
    return f"it lacks {', '.join(sorted(brokers))}" if brokers else ""


def _unless_closed(member: ClockMember, error: ClockMemberError) -> None:
    """Raise the error of a role; ignore that of a client whose loop was closed meanwhile."""
    if member.name != ClientClocks.MEMBER_NAME:
        raise error
