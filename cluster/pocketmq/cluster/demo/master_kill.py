"""Kills the master of a replicated broker name, and measures how long until another one leads."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.cluster.replica_sets import replicas, replicas_at
from pocketmq.cluster.supervisor import Supervisor
from pocketmq.protocol.bodies.controller import ReplicasInfo
from pocketmq.protocol.errors import BrokerError, RemotingError
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import PeerError

LIMIT_S = 60.0
"""Real seconds for an election, and for replicas to come into sync."""

_LOOK_S = 0.005


@dataclass(slots=True)
class MasterKill:
    """What came of it."""

    killed: str = ""
    """Process."""
    elected: str = ""
    """Process that is master since."""
    epoch: int = 0
    """Its epoch."""
    election_ms: float = 0.0
    """Real time from the kill until the controllers had agreed on another master."""
    silence_ms: float = 0.0
    """Longest real time in which a producer got no acknowledgement."""
    is_whole: bool = False
    """Whether the killed one came back and is in sync again."""

    def notes(self) -> list[str]:
        """Lines for the report."""
        if not self.killed:
            return []
        back = "came back and is in sync again" if self.is_whole else "is not in sync again"
        return [
            f"{self.killed} was master and was killed with SIGKILL; {self.election_ms:.0f} ms later"
            f" {self.elected} was elected, in epoch {self.epoch}; {self.killed} {back}",
            f"the longest time without an acknowledgement was {self.silence_ms:.0f} ms",
        ]

    def complaints(self) -> list[str]:
        """What went wrong."""
        if not self.killed:
            return ["no master was killed"]
        return [] if self.is_whole else [f"{self.killed} did not come into sync again"]


async def all_in_sync(cluster: Supervisor, name: str, count: int) -> None:
    """Return when so many replicas of a broker name are in sync.

    Raises:
        PeerError: it took longer than `LIMIT_S`.
    """
    clock = SystemClock()
    found = ReplicasInfo()
    try:
        async with clock.timeout(LIMIT_S):
            while len(found.in_sync_replicas) < count:
                found = await replicas(cluster, name)
                await clock.sleep(_LOOK_S * 10)
    except TimeoutError:
        ids = sorted(each.broker_id for each in found.in_sync_replicas)
        raise PeerError(
            f"{count} replicas of {name} must be in sync, but after {LIMIT_S:g} s only the "
            f"replicas {ids} are in sync; see the logs in {cluster.spec.logs}"
        ) from None


async def kill_master(cluster: Supervisor, name: str) -> MasterKill:
    """Kill the master of a broker name; returns when the controllers have elected another one.

    Raises:
        PeerError: nobody was elected within `LIMIT_S`.
    """
    clock = SystemClock()
    before = await replicas(cluster, name)
    # Looked up before the kill, so that it does not count as part of the outage.
    leader = await cluster.leading_controller()
    assert leader is not None, "replicas are in sync, so a controller leads"
    victim = _process_at(cluster, before.master_address)
    began_at = clock.monotonic()
    await cluster[victim].kill()
    try:
        async with clock.timeout(LIMIT_S):
            while True:
                try:
                    after = await replicas_at(cluster.remoting, leader.address, name)
                except (RemotingError, BrokerError):
                    # It may no longer lead, so any controller is asked for the present leader.
                    after = await replicas(cluster, name)
                # Before the election there is no master, or still the old one.
                if after is not None and after.master_broker_id not in (
                    None,
                    before.master_broker_id,
                ):
                    break
                await clock.sleep(_LOOK_S)
    except TimeoutError:
        raise PeerError(
            f"no other replica of {name} became master within {LIMIT_S:g} s; see the "
            f"controllers' logs in {cluster.spec.logs}"
        ) from None
    return MasterKill(
        victim,
        _process_at(cluster, after.master_address),
        after.master_epoch or 0,
        (clock.monotonic() - began_at) * 1000,
    )


def _process_at(cluster: Supervisor, address: str | None) -> str:
    [name] = [each.name for each in cluster.of_role("broker") if each.address == address]
    return name
