"""Applies the events of a scenario to a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from pocketmq.simulation.cluster import SimCluster
from pocketmq.simulation.machines import BrokerMachine
from pocketmq.simulation.network_faults import Pair
from pocketmq.simulation.scenario import LOG, NAMESERVER, Event, Kind


class AppliedEvents:
    """Applies events to one cluster.

    Args:
        cluster: The cluster.
    """

    def __init__(self, cluster: SimCluster) -> None:
        self.kinds: Counter[Kind] = Counter()
        """How often each kind of event was applied."""
        self._cluster = cluster
        self._loop = cluster.loop
        self._faults = cluster.network.faults
        self._watch = cluster.watch

    def apply(self, event: Event) -> None:
        """Apply an event, unless the process that it is about does not run, or stops already."""
        cluster, who = self._cluster, event.who
        if who.startswith("c") and (who in cluster.consumers) == (event.kind is Kind.JOIN):
            return
        if who in cluster.brokers and cluster.brokers[who].broker is None:
            return
        if event.kind is Kind.BROKER_RESTART and cluster.brokers[who].is_stopping:
            return  # asked again, a real process would end at once and save nothing more
        if who == NAMESERVER and cluster.nameserver.server is None:
            return
        self.kinds[event.kind] += 1
        cluster.trace.note("event", event)
        cluster.own_events.trouble(event.kind, who, event.other, event.lasts_s)
        match event.kind:
            case Kind.JOIN:
                cluster.join(who)
            case Kind.LEAVE:
                self._loop.create_task(cluster.leave(who))
            case Kind.CLIENT_CRASH:
                assert cluster.services is not None
                cluster.services.crash(who, event.lasts_s)
            case Kind.CRASH | Kind.VANISH:
                cluster.crash(who, silently=event.kind is Kind.VANISH)
            case Kind.NAMESERVER_CRASH:
                self._crash_nameserver(event)
            case Kind.OFFSET_RESET:
                self._loop.create_task(cluster.reset_offsets(event.other, event.amount))
            case Kind.GROWTH:
                self._loop.create_task(cluster.grow_topic(round(event.amount)))
            case Kind.CLOCK_JUMP:
                machine = cluster.brokers.get(who) or cluster.consumers[who]
                machine.process.clock.wall_offset_ms += round(event.amount * 1000)
            case Kind.PARTITION | Kind.DELAY | Kind.RESET:
                self._between(event)
            case _ if who in cluster.brokers:
                self._to_broker(event, cluster.brokers[who])
            case _:
                self._to_consumer(event)

    def _to_broker(self, event: Event, machine: BrokerMachine) -> None:
        cluster, broker = self._cluster, machine.broker
        assert broker is not None
        if event.kind is Kind.RETENTION:
            machine.process.run(broker.store.delete_expired_files)
            return
        self._watch.trouble(self._loop.time() + event.lasts_s)
        if event.kind in (Kind.SLOW_DISK, Kind.HUNG_DISK, Kind.FAILING_DISK):
            self._to_disk(event, machine)
            return
        if event.kind is Kind.BROKER_RESTART:
            self._loop.create_task(self._restart(machine, event.lasts_s))
            return
        is_cut = event.kind is Kind.POWER_CUT
        process, machine.crashed = machine.process, True
        cluster.end_broker(machine)
        cluster.network.process_died(process, silently=is_cut)
        if is_cut:
            machine.disk.cut_power(cluster.setting.chance)
            if machine.durability is not None:
                machine.durability.power_was_cut()
        self._later(event.lasts_s, lambda: self._start_soon(machine))

    def _to_disk(self, event: Event, machine: BrokerMachine) -> None:
        trouble = machine.trouble
        assert trouble is not None
        until = self._loop.time() + event.lasts_s
        trouble.log_only = event.other == LOG
        match event.kind:
            case Kind.SLOW_DISK:
                trouble.slow_s = event.amount
                self._later(event.lasts_s, lambda: setattr(trouble, "slow_s", 0.0))
            case Kind.HUNG_DISK:
                trouble.hung_until = max(trouble.hung_until, until)
            case _:
                trouble.failing_share = event.amount
                self._later(event.lasts_s, lambda: setattr(trouble, "failing_share", 0.0))

    async def _restart(self, machine: BrokerMachine, away_s: float) -> None:
        if await self._cluster.stop_broker(machine):
            await self._cluster.clock.sleep(away_s)
            await self._cluster.start_broker(machine)

    def _start_soon(self, machine: BrokerMachine) -> None:
        self._loop.create_task(self._cluster.start_broker(machine))

    def _crash_nameserver(self, event: Event) -> None:
        cluster = self._cluster
        self._watch.routes_wrong(self._loop.time() + event.lasts_s)
        cluster.end_nameserver()
        self._later(event.lasts_s, lambda: self._loop.create_task(cluster.start_nameserver()))

    def _between(self, event: Event) -> None:
        pair, network = Pair((event.who, event.other)), self._cluster.network
        self._watch.trouble(self._loop.time() + event.lasts_s)
        match event.kind:
            case Kind.PARTITION:
                self._faults.partitions.add(pair)
                self._later(event.lasts_s, lambda: network.heal(pair))
            case Kind.DELAY:
                self._faults.delays_s[pair] = event.amount
                self._later(event.lasts_s, lambda: self._faults.clear_delay(pair))
            case _:
                network.reset(pair)

    def _to_consumer(self, event: Event) -> None:
        who, machine, faults = event.who, self._cluster.consumers[event.who], self._faults
        match event.kind:
            case Kind.LOSE_NOTIFICATIONS:
                faults.lost_notifications.add(who)
                self._later(event.lasts_s, lambda: faults.lost_notifications.discard(who))
            case Kind.DOUBLE_NOTIFICATIONS:
                faults.doubled_notifications.add(who)
                self._later(event.lasts_s, lambda: faults.doubled_notifications.discard(who))
            case Kind.SLOW_LISTENER:
                machine.slow_s = event.amount
                self._later(event.lasts_s, lambda: setattr(machine, "slow_s", 0.0))
            case _:
                machine.fails = True
                self._later(event.lasts_s, lambda: setattr(machine, "fails", False))

    def _later(self, delay_s: float, callback: Callable[[], object]) -> None:
        self._cluster.clock.call_at(self._loop.time() + delay_s, lambda: void(callback()))


def void(_: object) -> None:
    """Ignore the result of a callback."""
