"""Lets the happenings of a plan happen to a `ReplicaCluster`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pocketmq.protocol.errors import BrokerError, RemotingError
from pocketmq.protocol.headers.controller import ElectMasterRequestHeader
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.simulation.loop import SimProcess
from pocketmq.simulation.network_faults import Pair
from pocketmq.simulation.replicas.cluster import ReplicaCluster
from pocketmq.simulation.replicas.machines import (
    BROKER,
    CONTROLLER_PORTS,
    ControllerMachine,
    ReplicaMachine,
)
from pocketmq.simulation.replicas.plan import (
    CONSUMER,
    MASTER,
    NAMESERVER,
    PRODUCER,
    REPLICAS,
    B,
    C,
    Happening,
    Trouble,
)

JUMP_MS = 60_000


class Troubles:
    """Applies happenings to one cluster.

    Args:
        cluster: The cluster.
    """

    def __init__(self, cluster: ReplicaCluster) -> None:
        self._cluster = cluster
        self._parts: dict[str, str] = {}
        """Of a scripted history: part -> name."""

    def apply(self, event: Happening) -> None:
        """Let it happen, and end by itself."""
        if not self._parts:
            self._cast()
        event = replace(event, who=self._named(event.who), other=self._named(event.other))
        self._cluster.trace.note(
            "happens", event.trouble.value, event.who, event.other, event.lasts_s
        )
        self._cluster.own_events.trouble(event.trouble, event.who, event.other, event.lasts_s)
        if self._act(event):
            self._cluster.counts[event.trouble.value] += 1
            if event.trouble is not Trouble.PAUSE:  # silence is no trouble
                now = self._cluster.loop.time()
                self._cluster.watch.troubled(now, now + event.lasts_s)

    def _named(self, who: str) -> str:
        """The machine that plays a part of a scripted history; other names stay as they are."""
        return self._parts.get(who, who)

    def _cast(self) -> None:
        master = self._master() or REPLICAS[0]
        others = [each for each in REPLICAS if each != master]
        self._parts = dict(zip((MASTER, B, C), (master, *others), strict=True))

    def lose(self, who: str) -> str | None:
        """Lose the machine of `MASTER` or `B` as of now; its name, if it was there."""
        self._cast()
        name = self._named(who)
        self._cluster.trace.note("lost for good", name)
        if self._cluster.plan.ends_with_failing_disk:
            trouble = self._cluster.replicas[name].trouble
            assert trouble is not None, "a plan with SYNC_FLUSH"
            trouble.failing_share = 1.0
            return name
        return name if self._kill(name, None, silently=True) else None

    def _act(self, event: Happening) -> bool:
        who, lasts_s = event.who, event.lasts_s
        match event.trouble:
            case Trouble.KILL | Trouble.KILL_CONTROLLER:
                return self._kill(who, lasts_s)
            case Trouble.KILL_MASTER:
                return self._kill(self._master(), lasts_s)
            case Trouble.KILL_LEADER:
                return self._kill(self._leader(), lasts_s)
            case Trouble.VANISH:
                return self._kill(who, lasts_s, silently=True)
            case Trouble.POWER_CUT | Trouble.CONTROLLER_POWER_CUT:
                return self._kill(who, lasts_s, silently=True, cuts_power=True)
            case Trouble.ALL_DOWN:
                return sum(self._kill(name, lasts_s) for name in REPLICAS) > 0
            case Trouble.RESTART:
                return self._restart(self._cluster.replicas[who], lasts_s)
            case Trouble.FREEZE | Trouble.FREEZE_CONTROLLER:
                return self._freeze(who, lasts_s)
            case Trouble.CLOCK_JUMP:
                clock = self._cluster.replicas[who].process.clock
                clock.wall_offset_ms += self._cluster.chance.randint(-JUMP_MS, JUMP_MS)
                return True
            case Trouble.KILL_CONSUMER:
                return self._kill_consumer(lasts_s)
            case Trouble.DESIGNATE:
                return self._designate()
            case Trouble.SLOW_DISK | Trouble.HUNG_DISK:
                return self._disturb_disk(event)
            case Trouble.PART_MASTER:
                return self._part(self._master(), lasts_s)
            case Trouble.WIPE:
                return self._kill(who, lasts_s, wipes=True)
            case Trouble.PAUSE:
                self._cluster.pause_until(self._cluster.loop.time() + lasts_s)
                return True
            case Trouble.CUT | Trouble.ISOLATE | Trouble.ONE_WAY | Trouble.RESET | Trouble.DELAY:
                return self._disturb_network(event)

    def _later(self, delay_s: float, action: Callable[[], object]) -> None:
        def act() -> None:
            action()

        self._cluster.clock.call_at(self._cluster.clock.monotonic() + delay_s, act)

    def _kill(
        self,
        name: str | None,
        away_s: float | None,
        *,
        silently: bool = False,
        cuts_power: bool = False,
        wipes: bool = False,
    ) -> bool:
        """End a process; None: it stays away."""
        machine = self._cluster.machines.get(name or "")
        if machine is None or not machine.is_up:
            return False
        self._cluster.kept.append(
            machine.controller if isinstance(machine, ControllerMachine) else machine.broker
        )
        process = machine.process
        machine.end()
        self._cluster.own_events.stopped(machine.name)
        self._cluster.network.process_died(process, silently=silently)
        if wipes and isinstance(machine, ReplicaMachine):
            machine.wipe()
        if cuts_power:
            if isinstance(machine, ControllerMachine):
                machine.files.cut_power()
            else:
                machine.disk.cut_power(self._cluster.chance)
        if away_s is not None:
            self._later(away_s, lambda: self._cluster.bring_up(machine))
        return True

    def _restart(self, machine: ReplicaMachine, away_s: float) -> bool:
        broker, process = machine.broker, machine.process
        if broker is None or not machine.is_up or not broker.core.role.epoch:
            return False
        machine.is_stopping = True

        async def stop() -> None:
            await process.start(broker.stop(), f"stop {machine.name}")
            self._cluster.kept.append(broker)
            machine.end()
            self._cluster.own_events.stopped(machine.name)
            self._cluster.network.process_died(process, silently=False)
            self._later(away_s, lambda: self._cluster.bring_up(machine))

        task = self._cluster.loop.create_task(stop(), name=f"restart {machine.name}")
        self._cluster.kept.append(task)
        return True

    def _freeze(self, name: str, lasts_s: float) -> bool:
        machine = self._cluster.machines.get(name)
        if machine is None or not machine.is_up:
            return False
        process = machine.process
        process.freeze()
        self._cluster.own_events.stopped(name, "frozen")

        def thaw() -> None:
            process.thaw()
            if machine.process is process and process.alive:
                self._cluster.own_events.started(name, machine.kind)

        self._later(lasts_s, thaw)
        return True

    def _kill_consumer(self, away_s: float) -> bool:
        if not self._cluster.consumer.alive:
            return False
        process = self._cluster.consumer
        process.kill()
        self._cluster.network.process_died(process, silently=False)
        self._later(away_s, self._cluster.revive_consumer)
        return True

    def _designate(self) -> bool:
        leader = self._leader()
        if leader is None:
            return False
        tool = SimProcess(self._cluster.loop, "tool")
        address = f"127.0.0.1:{CONTROLLER_PORTS[leader]}"
        header = ElectMasterRequestHeader(
            broker_name=BROKER, broker_id=self._cluster.chance.randint(1, 3), designate_elect=True
        )

        async def designate() -> None:
            client = RemotingClient(self._cluster.network)
            try:
                await client.call(address, header)
            except (BrokerError, RemotingError) as exc:
                self._cluster.trace.note("not designated", str(exc))
            await client.close()

        self._cluster.kept.append(tool.start(designate(), "designate"))
        return True

    def _disturb_disk(self, event: Happening) -> bool:
        trouble = self._cluster.replicas[event.who].trouble
        if trouble is None:
            return False
        if event.trouble is Trouble.SLOW_DISK:
            trouble.slow_s = 2.0

            def clear() -> None:
                trouble.slow_s = 0.0

            self._later(event.lasts_s, clear)
        else:
            trouble.hung_until = self._cluster.loop.time() + event.lasts_s
        return True

    def _disturb_network(self, event: Happening) -> bool:
        faults, one, other = self._cluster.network.faults, event.who, event.other
        if event.trouble is Trouble.ISOLATE:
            everybody = (*self._cluster.machines, NAMESERVER, PRODUCER, CONSUMER)
            for each in everybody:
                if each != one:
                    self._cut(Pair((one, each)), event.lasts_s)
            return True
        pair = Pair((one, other))
        if event.trouble is Trouble.CUT:
            self._cut(pair, event.lasts_s)
        elif event.trouble is Trouble.ONE_WAY:
            faults.one_way.add((one, other))
            self._later(event.lasts_s, lambda: self._cluster.network.heal_one_way(one, other))
        elif event.trouble is Trouble.RESET:
            self._cluster.network.reset(pair)
        else:
            faults.delays_s[pair] = min(1.5, event.lasts_s / 4)
            self._later(event.lasts_s, lambda: faults.clear_delay(pair))
        return True

    def _part(self, name: str | None, lasts_s: float) -> bool:
        """Cut a machine off from all others, but not from clients and the nameserver."""
        if name is None:
            return False
        for each in self._cluster.machines:
            if each != name:
                self._cut(Pair((name, each)), lasts_s)
        return True

    def _cut(self, pair: Pair, lasts_s: float) -> None:
        self._cluster.network.faults.partitions.add(pair)
        self._later(lasts_s, lambda: self._cluster.network.heal(pair))

    def _master(self) -> str | None:
        leading = [
            (each.broker.core.role.epoch, each.name)
            for each in self._cluster.replicas.values()
            if each.is_up and each.broker is not None and each.broker.core.role.leads
        ]
        return max(leading)[1] if leading else None

    def _leader(self) -> str | None:
        for machine in self._cluster.controllers.values():
            controller = machine.controller if machine.is_up else None
            if controller is not None and controller.consensus.serves:
                return machine.name
        return None
