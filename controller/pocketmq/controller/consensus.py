"""`Consensus`: carries out what `Raft` decides: timer, journal, messages, and who waits for what.

Start reading at `_pump`: every event ends there. Nothing that follows from a write leaves before
the write is on the disk, which `outlet.py` holds; writes that come while one is under way share the
next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Protocol

import msgspec
import structlog

from pocketmq.controller import commands
from pocketmq.controller.errors import ForeignLogError, NotLeadingError, UndecidedError
from pocketmq.controller.outlet import Outlet, Written
from pocketmq.controller.raft import journal
from pocketmq.controller.raft.core import Raft
from pocketmq.controller.raft.group import Group, Role
from pocketmq.controller.raft.messages import Entry, Envelope, Message, Snapshot, Stored, Write
from pocketmq.controller.replicas import Outcome, Replicas
from pocketmq.protocol.codes import ResponseCode
from pocketmq.runtime.clock import Clock, Latch, Timer
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.tasks import TaskOwner

COMPACT_EVERY = 256
"""So many applied entries are replaced by a snapshot."""

DECISION_LIMIT_S = 3.0
"""So long a command waits for a majority; its requester waits no longer either."""

log = structlog.get_logger()


class Storage(Protocol):
    """Where term, vote and log are kept."""

    async def load(self) -> Stored:
        """What is there."""

    async def write(self, write: Write) -> Written:
        """Return, with the proof, when it survives a power cut."""


class Consensus:
    """One controller's part in the group.

    Args:
        group: Who it is, and with whom.
        storage: Its journal.
        clock: Of elections and heartbeats.
        send: Gives messages to the network; they may be lost.
        on_outcome: Told of each command that was decided here, leader or not.
        on_leading: Called when this controller begins to serve.
        on_failure: The process has to stop: its disk failed, or its log contradicts the group's.
        seed: Of the election time-outs.
    """

    def __init__(
        self,
        group: Group,
        storage: Storage,
        clock: Clock,
        *,
        send: Callable[[Envelope], None],
        on_outcome: Callable[[Outcome], None],
        on_leading: Callable[[], None],
        on_failure: Callable[[str, BaseException], None],
        seed: int | None = None,
    ) -> None:
        self.group = group
        self.replicas = Replicas()
        self.applied_index = 0
        self._storage = storage
        self._clock = clock
        self._outlet = Outlet(send)
        self._written: Written | None = None
        """Of the last write that ended."""
        self._on_outcome = on_outcome
        self._on_leading = on_leading
        self._random = Random(seed)
        self._raft: Raft | None = None
        self._latch = Latch()
        self._tasks = TaskOwner("consensus", on_failure=on_failure)
        self._on_failure = on_failure
        self._timer: Timer | None = None
        self._waiting: dict[int, tuple[int, asyncio.Future[Outcome]]] = {}
        """Index -> term and future of a command proposed here."""
        self._was_serving = False
        self._told: tuple[Role, int, str] | None = None
        self._is_stopping = False

    # -- reading --------------------------------------------------------------------------------

    @property
    def raft(self) -> Raft:
        """The state machine, once started."""
        assert self._raft is not None, "start() comes first"
        return self._raft

    @property
    def is_started(self) -> bool:
        """Whether its journal is loaded."""
        return self._raft is not None

    @property
    def serves(self) -> bool:
        """Whether `replicas` is the present truth and this controller may decide."""
        return self._raft is not None and self._raft.serves(self._clock.monotonic())

    def check_serving(self) -> None:
        """Raise `NotLeadingError` unless this controller serves."""
        if not self.serves:
            # A leader that does not serve yet does not name itself: clients would ask it again at
            # once.
            leader = "" if self._raft is None or self._raft.is_leader else self._raft.leader
            raise NotLeadingError(leader)

    # -- life -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Load the journal and take part.

        Raises:
            DiskError: the journal cannot be used.
        """
        stored = await self._storage.load()
        self._raft = Raft(self.group, stored, self._random, self._clock.monotonic())
        # A task of its own: a write takes as long as the disk, and messages wait for it.
        self._tasks.start(self._write_on(), name="journal")
        self._pump()

    async def stop(self) -> None:
        """Leave without a word; who waits for a decision is told that there is none."""
        self._is_stopping = True
        # A timer that fires now would begin an election in a controller that stops.
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.stop()
        for _, future in self._waiting.values():
            if not future.done():
                future.set_exception(NotLeadingError(""))
        self._waiting.clear()

    # -- events ---------------------------------------------------------------------------------

    def decide(self, command: commands.Command) -> asyncio.Future[Outcome]:
        """Have the group decide a command; the future's result is the outcome.

        Raises:
            NotLeadingError: another controller leads, or none.
            TooManyProposalsError: too many commands wait already.
        """
        self.check_serving()
        entry = self.raft.propose(commands.encode(command), self._clock.monotonic())
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting[entry.index] = (entry.term, future)
        timer = self._clock.call_at(
            self._clock.monotonic() + DECISION_LIMIT_S, lambda: _give_up(future)
        )
        future.add_done_callback(lambda _: timer.cancel())
        self._pump()
        return future

    def receive(self, sender: str, message: Message) -> None:
        """A message of another controller.

        Raises:
            RaftMessageError: no controller of this group sends that.
        """
        # Before the journal is loaded this member knows no term, and could vote twice in one.
        if self._raft is None or self._is_stopping:
            return
        try:
            self._raft.receive(sender, message, self._clock.monotonic())
        except ForeignLogError as exc:
            # The leader has another history: going on would overwrite what was committed here.
            log.error("controller.diverged", leader=exc.leader, index=exc.index, reason=str(exc))
            self._on_failure("consensus", exc)
            return
        self._pump()

    # -- inside ---------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Take what the state machine wants: apply, note for the disk, set the timer."""
        step = self.raft.take()
        # Apply before anything is sent, because answers may come at once.
        for each in step.applied:
            self._apply(each)
        # A snapshot replaces thousands of commands, so that the journal does not grow for ever.
        if self.applied_index - self.raft.log.snapshot.index >= COMPACT_EVERY:
            self.raft.compact(self.applied_index, self.replicas.snapshot())
        if step.write is not None or step.messages:
            self._outlet.put(step)
            self._latch.wakeup()
        self._tell_role()
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._is_stopping:
            self._timer = self._clock.call_at(self.raft.next_deadline, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if not self._is_stopping:
            self.raft.tick(self._clock.monotonic())
            self._pump()

    async def _write_on(self) -> None:
        """Write, then send, for ever; a disk that fails ends it, and with it the process."""
        while True:
            await self._clock.wait(self._latch, None)
            while writes := self._outlet.to_write():
                # One write for all that waits: a slow disk makes larger writes, not a longer queue.
                self._written = await self._storage.write(journal.merged(writes))
                # Send only messages that depend on writes which are on the disk by now.
                self._outlet.let_go(self._written)
                self.raft.stored(self._written.number)
                self._pump()
            # Nothing is left to write; messages that depend on no write, such as heartbeats, leave
            # at once.
            self._outlet.let_go(self._written)

    def _apply(self, each: Entry | Snapshot) -> None:
        self.applied_index = each.index
        if isinstance(each, Snapshot):
            self.replicas.restore(each.state)
            # Whether the snapshot includes the commands that wait here is unknown.
            for index in [index for index in self._waiting if index <= each.index]:
                self._lost(index)
            return
        outcome = Outcome()
        # A leader begins its term with an empty entry.
        if each.command:
            try:
                outcome = self.replicas.apply(commands.decode(each.command))
            except PocketMQError as exc:  # the same on each controller of this version
                log.error("command.unreadable", index=each.index, reason=str(exc))
                outcome = Outcome(ResponseCode.CONTROLLER_INVALID_REQUEST, str(exc))
        waiting = self._waiting.pop(each.index, None)
        if waiting is not None:
            term, future = waiting
            if not future.done():
                # In another term, another leader has put a different command at this place.
                if term == each.term:
                    future.set_result(outcome)
                else:
                    future.set_exception(NotLeadingError(self.raft.leader))
        # Even if no request waits: whoever leads notifies brokers of an election.
        self._on_outcome(outcome)

    def _lost(self, index: int) -> None:
        _, future = self._waiting.pop(index)
        if not future.done():
            future.set_exception(NotLeadingError(self.raft.leader))

    def _tell_role(self) -> None:
        raft = self.raft
        now = (raft.role, raft.term, raft.leader)
        if now != self._told:
            before, self._told = self._told, now
            if before is None or raft.role is Role.LEADER or raft.leader != before[2]:
                log.info(
                    "controller.role_changed", raft_role=raft.role.value, term=raft.term,
                    leader=raft.leader or None,
                )  # fmt: skip
        was, self._was_serving = self._was_serving, self.serves
        # It serves only now, when it has applied everything from before its term (D-53).
        if self._was_serving and not was:
            self._on_leading()


def encode(message: Message) -> bytes:
    """A message for the network."""
    return _ENCODER.encode(message)


def decode(body: bytes | bytearray | memoryview) -> Message:
    """A message from the network.

    Raises:
        msgspec.MsgspecError: it is none.
    """
    return _DECODER.decode(body)


def _give_up(future: asyncio.Future[Outcome]) -> None:
    if not future.done():
        future.set_exception(UndecidedError(DECISION_LIMIT_S))


_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
