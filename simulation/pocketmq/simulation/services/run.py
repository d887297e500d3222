"""The services of one run: starts their clients, reads their topics, tells their ledgers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Protocol

from pocketmq.broker.store import MessageStore
from pocketmq.client import Admin
from pocketmq.protocol.stored.record import decode_records
from pocketmq.simulation.invariants.services import (
    PopLedger,
    RequestLedger,
    TimerLedger,
    TransactionLedger,
)
from pocketmq.simulation.invariants.services.base import ServiceLedger
from pocketmq.simulation.loop import SimProcess
from pocketmq.simulation.machines import BrokerMachine, Setting
from pocketmq.simulation.scenario import ServicePlan
from pocketmq.simulation.services import pops, requests, timers, transactions
from pocketmq.simulation.services.client import ServiceClient, Stage
from pocketmq.simulation.services.plan import (
    POP_CLIENTS,
    TIMER_CLIENTS,
    TRANSACTION_CLIENTS,
    is_fair,
    pop_clients,
)

QUEUES = 2
PRODUCER = "poppers"


class LogLedger(Protocol):
    """A ledger that is told what lies in a topic."""

    def found(self, key: str, broker: str, now_ms: int, /) -> None: ...

    def told_anew(self, key: str) -> None: ...


@dataclass(slots=True)
class _Topic:
    name: str
    ledger: LogLedger
    read_to: dict[tuple[str, int], int] = field(default_factory=dict)
    told: dict[str, list[str]] = field(default_factory=dict)
    """Broker -> keys."""


class Services:
    """What a run has beside its push groups.

    Args:
        plan: Which there are.
        setting: What processes need.
        brokers: Whose stores are read.
        violations: Gets one line for each.
    """

    def __init__(
        self,
        plan: ServicePlan,
        setting: Setting,
        brokers: Mapping[str, BrokerMachine],
        violations: list[str],
    ) -> None:
        self.is_sending = True
        self.is_calm = False
        self.ledgers: list[ServiceLedger] = []
        self.deaths: Counter[str] = Counter()
        self._setting = setting
        self._brokers = brokers
        self._clients: dict[str, ServiceClient] = {}
        self._kept: list[object] = []
        self._topics: list[_Topic] = []
        self._names: list[str] = []
        self._plan = plan
        stage = Stage(
            setting,
            plan,
            Random(f"service clients {setting.plan.seed}"),
            lambda: self.is_sending,
            lambda: self.is_calm,
            count(),
            is_fair(setting.plan),
        )
        if plan.transactions:
            self._add_transactions(stage, TransactionLedger(violations))
        if plan.pops:
            self._add_pops(stage, PopLedger(violations))
        if plan.timers:
            self._add_timers(stage, TimerLedger(violations))
        if plan.requests:
            self._add_requests(stage, RequestLedger(violations))

    def _add_transactions(self, stage: Stage, ledger: TransactionLedger) -> None:
        self.ledgers.append(ledger)
        self._topics.append(_Topic(transactions.TOPIC, ledger))
        self._names.append(transactions.TOPIC)
        for name in TRANSACTION_CLIENTS:
            self._clients[name] = transactions.TransactionClient(name, stage, ledger)

    def _add_pops(self, stage: Stage, ledger: PopLedger) -> None:
        self.ledgers.append(ledger)
        self._names.append(pops.TOPIC)
        self._clients[PRODUCER] = pops.PopProducer(PRODUCER, stage, ledger)
        for name in pop_clients(self._plan):
            listens = name == POP_CLIENTS[2]
            member = pops.PopListener if listens else pops.PopMember
            self._clients[name] = member(name, stage, ledger)

    def _add_timers(self, stage: Stage, ledger: TimerLedger) -> None:
        self.ledgers.append(ledger)
        self._topics.append(_Topic(timers.TOPIC, ledger))
        self._names.append(timers.TOPIC)
        for name in TIMER_CLIENTS:
            self._clients[name] = timers.TimerClient(name, stage, ledger)

    def _add_requests(self, stage: Stage, ledger: RequestLedger) -> None:
        self.ledgers.append(ledger)
        self._names.append(requests.TOPIC)
        self._clients["asker"] = requests.Asker("asker", stage, ledger)
        self._clients["answerer"] = requests.Answerer("answerer", stage, ledger)

    # -- life -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Make the topics, and start every client."""
        process = SimProcess(self._setting.loop, "services")
        await process.start(self._prepare(process), "prepare services")
        for client in self._clients.values():
            client.start()

    async def _prepare(self, process: SimProcess) -> None:
        async with Admin(**self._setting.client_options(process)) as admin:
            for name in self._names:
                await admin.create_topic(name, queues=QUEUES)
            if self._plan.pops:
                await admin.set_request_mode(pops.GROUP, pops.TOPIC, "POP")

    def crash(self, name: str, away_s: float) -> None:
        """A client dies, and comes back."""
        client = self._clients[name]
        if not client.process.alive:
            return
        self.deaths["pop members died"] += name in POP_CLIENTS
        self._kept.append(client.crash())
        client.clock.call_at(client.clock.monotonic() + away_s, client.start)

    def broker_ended(self, machine: BrokerMachine) -> None:
        """A broker's process is gone; what it did not save is lost, if it was killed or
        stopped while its disk hung or failed."""
        if not self._noted_killed(machine):
            return
        for topic in self._topics:
            for key in topic.told.pop(machine.name, ()):
                topic.ledger.told_anew(key)
            for at in [at for at in topic.read_to if at[0] == machine.name]:
                del topic.read_to[at]

    def broker_started(self, machine: BrokerMachine) -> None:
        """Its process runs again; what the last one did not save comes back from now on."""
        self._noted_killed(machine)

    def _noted_killed(self, machine: BrokerMachine) -> bool:
        if not (machine.crashed or machine.saved_no_pops):
            return False
        now_ms = machine.process.clock.time_ms()
        for ledger in self.ledgers:
            ledger.killed(machine.name, now_ms)
        return True

    # -- looking --------------------------------------------------------------------------------

    def look(self) -> None:
        """Read on in the topics whose log says what happened."""
        for topic in self._topics:
            for machine in self._brokers.values():
                if machine.broker is not None:
                    for queue_id in range(QUEUES):
                        self._read(topic, machine.name, machine.broker.store, queue_id)

    def _read(self, topic: _Topic, broker: str, store: MessageStore, queue_id: int) -> None:
        at = topic.read_to.get((broker, queue_id), 0)
        while True:
            found = store.reads.get_message(topic.name, queue_id, at, 32)
            records = decode_records(b"".join(found.records)) if found.count else []
            if not records:
                break
            for record in records:
                key = bytes(record.body).decode()
                topic.told.setdefault(broker, []).append(key)
                topic.ledger.found(key, broker, record.store_timestamp_ms)
            at = records[-1].queue_offset + 1
        topic.read_to[broker, queue_id] = at

    def open(self) -> list[str]:
        """What must still happen."""
        self.look()
        found: list[str] = []
        for ledger in self.ledgers:
            found += ledger.open()
        return found

    def seen(self) -> Counter[str]:
        """What came up."""
        seen: Counter[str] = Counter(self.deaths)
        for ledger in self.ledgers:
            ledger.close()
            seen.update(ledger.seen)
        return seen
