"""When the leading controller has a master elected by itself (D-41 to D-45)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from pocketmq.controller import commands
from pocketmq.controller.consensus import Consensus
from pocketmq.controller.election import Candidate
from pocketmq.controller.errors import NotLeadingError, TooManyProposalsError
from pocketmq.controller.liveness import LiveBroker, LiveBrokers
from pocketmq.controller.replica_group import ReplicaGroup
from pocketmq.controller.replicas import BY_CONTROLLER, Outcome
from pocketmq.operation.events.roles import Elected
from pocketmq.protocol.codes import ResponseCode, response_name
from pocketmq.protocol.dispatch import Peer
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.periodic import PeriodicService

FIRST_SCAN_S = 2.0

MOST_AT_ONCE = 256
"""Elections that one scan begins; the next one follows at once."""

MOST_LINES = 100
"""Dead brokers that one scan names in the log; of the others it says how many they are."""

log = structlog.get_logger()


class Elections:
    """Finds masters that died, and proposes elections.

    Three things lead to one: the master's connection closes, a scan finds it silent, or a new
    leader finds it dead already while another replica lives (D-43). A controller that has just
    started knows nobody yet; for `settle_s` it takes nobody for dead.

    Args:
        consensus: Where elections are proposed.
        live: Who is alive, as this controller hears.
        clock: Of scans.
        allows_unclean: Whether a replica that is not in sync may be elected.
        scan_s: Between two scans.
        settle_s: See above.
    """

    def __init__(
        self,
        consensus: Consensus,
        live: LiveBrokers,
        clock: Clock,
        *,
        allows_unclean: Callable[[], bool],
        scan_s: float,
        settle_s: float,
    ) -> None:
        self._consensus = consensus
        self._live = live
        self._clock = clock
        self._settled_at = clock.monotonic() + settle_s
        self._allows_unclean = allows_unclean
        self._under_way: set[str] = set()
        self._lost: dict[str, Elected] = {}
        """Broker name -> how its master was found dead; until another one is elected."""
        self._scan = PeriodicService(
            "controller.scan", clock, scan_s, self.scan, initial_delay_s=FIRST_SCAN_S
        )

    def start(self) -> None:
        """Begin to scan."""
        self._scan.start()

    async def stop(self) -> None:
        """End."""
        await self._scan.stop()

    def channel_closed(self, channel: Peer) -> None:
        """A connection ended: brokers that spoke over it are dead, after their grace."""
        if not self._live.closed(channel, self._clock.monotonic()):
            return
        # Scan after the grace time, in which the broker may come back; without one, at once (W-11).
        if self._live.close_grace_s:
            when = self._clock.monotonic() + self._live.close_grace_s
            self._clock.call_at(when, self._scan.wakeup)
        else:
            self._scan.wakeup()

    def wakeup(self) -> None:
        """Scan as soon as possible: this controller leads now."""
        self._scan.wakeup()

    def why_lost(self, name: str) -> Elected:
        """How the master before was found dead, which has a successor now."""
        return self._lost.pop(name, "lost")

    def scan(self) -> None:
        """Forget the dead, and find masters for names whose master is among them."""
        now = self._clock.monotonic()
        if now < self._settled_at:
            return
        dead = self._live.expire(now)
        _tell(dead, now)
        for broker in dead:
            group = self._consensus.replicas.get(broker.key.name)
            # Only a lost master is noted: a dead replica changes nothing yet.
            if group is not None and group.master_id == broker.key.broker_id:
                self._lost[broker.key.name] = "silent" if broker.closed_at is None else "closed"
        for name in [each for each in self._lost if self._consensus.replicas.get(each) is None]:
            del self._lost[name]  # all of it was cleaned: nobody will be elected
        # Only the leader elects: two members would propose the same election.
        if not self._consensus.serves:
            return
        begun = 0
        for name, group in list(self._consensus.replicas.with_master()):
            if name in self._under_way or self._live.is_alive(name, group.master_id, now):
                continue
            # A scan begins only so many elections; the next scan follows at once.
            if begun == MOST_AT_ONCE:
                self._scan.wakeup()
                return
            candidates = self._live.candidates(name, set(group.replicas), now)
            # After a power cut nobody is alive yet: the master may be the first that comes back.
            if not candidates and name not in self._lost:
                continue
            try:
                self._elect(name, group, candidates)
            except (NotLeadingError, TooManyProposalsError) as exc:  # so are all others refused
                log.info("election.postponed", broker=name, reason=str(exc))
                return
            begun += 1

    def _elect(self, name: str, group: ReplicaGroup, candidates: list[Candidate]) -> None:
        command = commands.Elect(
            "",
            name,
            BY_CONTROLLER,
            False,
            candidates,
            self._allows_unclean(),
            group.master_epoch,
        )
        future = self._consensus.decide(command)
        self._under_way.add(name)
        future.add_done_callback(lambda done: self._decided(name, done))

    def _decided(self, name: str, done: asyncio.Future[Outcome]) -> None:
        # Removed whatever the outcome, or this broker name would never be tried again.
        self._under_way.discard(name)
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            log.info("election.postponed", broker=name, reason=str(error))
        elif done.result().code != ResponseCode.SUCCESS:
            # Decided, but refused: nobody in the set is alive, or another epoch has begun.
            outcome = done.result()
            log.warning(
                "election.failed", broker=name, code=response_name(outcome.code),
                reason=outcome.remark,
            )  # fmt: skip


def _tell(dead: Sequence[LiveBroker], now: float) -> None:
    for broker in dead[:MOST_LINES]:
        log.info(
            "broker.dead", broker=broker.key.name, broker_id=broker.key.broker_id,
            silent_s=round(now - broker.seen_at, 1), closed=broker.closed_at is not None,
        )  # fmt: skip
    if len(dead) > MOST_LINES:
        log.info("brokers.dead", more=len(dead) - MOST_LINES)
