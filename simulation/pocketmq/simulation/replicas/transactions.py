"""Transactions beside the other messages of a replicated broker name (I-1 for halves, F-22).

Two producers of one group: halves whose local transactions take seconds, so that their outcome
comes to another master, to one that may not store it, or never.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any, Final

from pocketmq.broker.store import MessageStore
from pocketmq.client import Message
from pocketmq.client.producer.transaction import TransactionState
from pocketmq.simulation.invariants.services import TransactionLedger
from pocketmq.simulation.loop import START_MS, SimProcess, VirtualLoop
from pocketmq.simulation.nameserver_and_clients import NameServerAndClients
from pocketmq.simulation.network import SimNetwork
from pocketmq.simulation.replicas.log_reader import log_records
from pocketmq.simulation.replicas.plan import TRANSACTION_CLIENTS, ReplicaPlan
from pocketmq.simulation.replicas.watch import ReplicaWatch
from pocketmq.simulation.scenario import ServicePlan
from pocketmq.simulation.services import transactions as alone
from pocketmq.simulation.services.client import ServiceClient, Stage
from pocketmq.simulation.trace import Trace

BROKER: Final = "the broker name"
QUEUES: Final = 2
LONGEST_S: Final = 4.0
"""A local transaction takes so long at most."""
AT_ONCE: Final = 3
"""Transactions of one client that are under way."""


@dataclass(frozen=True, slots=True)
class Around:
    """What the clients need of their cluster."""

    loop: VirtualLoop
    network: SimNetwork
    trace: Trace
    clients: NameServerAndClients

    def client_options(self, process: SimProcess) -> dict[str, Any]:
        """Keyword arguments of every client in a process."""
        return self.clients.client_options(process)


class SlowTransactionClient(alone.TransactionClient):
    """Some of its local transactions take seconds.

    Args:
        name: Its own.
        stage: What it lives in.
        ledger: Is told.
        watch: Is told which halves were acknowledged.
        look: Called now and then.
    """

    def __init__(
        self,
        name: str,
        stage: Stage,
        ledger: TransactionLedger,
        watch: ReplicaWatch,
        look: Callable[[], None],
    ) -> None:
        super().__init__(name, stage, ledger)
        self._watch = watch
        self._look = look

    async def live(self) -> None:
        async with asyncio.TaskGroup() as group:
            await self.start_producer()
            for _ in range(AT_ONCE):
                group.create_task(self.send_on())

    async def execute_local_transaction(
        self, message: Message, argument: object
    ) -> TransactionState:
        """The half message is stored, and was acknowledged."""
        state = await super().execute_local_transaction(message, argument)
        self._watch.half_acknowledged(bytes(message.body).decode())
        self._look()
        await self.clock.sleep(self.stage.chance.choice([0.0, 0.1, LONGEST_S])
                               * self.stage.chance.random())  # fmt: skip
        return state


class ReplicatedTransactions:
    """The clients of one run, and what lies in the log of the newest master.

    Args:
        plan: The run.
        around: Its cluster.
        watch: Knows the newest master.
    """

    def __init__(self, plan: ReplicaPlan, around: Around, watch: ReplicaWatch) -> None:
        self.is_sending = True
        self.ledger = TransactionLedger(watch.violations)
        self._watch = watch
        self._around = around
        self._looked: tuple[MessageStore, int] | None = None
        """Whose log was read, and in which epoch it led."""
        self._read_to = 0
        self._told: list[str] = []
        stage = Stage(
            around,
            ServicePlan(transactions=True, gap_s=3 * plan.gap_s),
            Random(f"replicated transactions {plan.seed}"),
            lambda: self.is_sending,
            lambda: False,
            count(),
            is_fair=False,
        )
        self._clients: list[ServiceClient] = [
            SlowTransactionClient(name, stage, self.ledger, watch, self.look)
            for name in TRANSACTION_CLIENTS
        ]

    async def start(self) -> None:
        """Make the topic, and begin to send."""
        await self._around.clients.create_topic(alone.TOPIC, QUEUES)
        for client in self._clients:
            client.start()

    def look(self) -> None:
        """Read on in the log of the newest master; from its beginning if it is another one."""
        machine = self._watch.master
        broker = None if machine is None or not machine.process.alive else machine.broker
        if broker is None or not broker.core.role.leads:
            return
        looks_at = broker.store, broker.core.role.epoch
        if looks_at != self._looked:
            if self._looked is not None:  # who led before forgot what it had decided last
                self.ledger.killed(BROKER, START_MS)
            for key in self._told:
                self.ledger.told_anew(key)
            self._told.clear()
            self._looked, self._read_to = looks_at, 0
        now_ms = START_MS + round(self._watch.now * 1000)
        for record in log_records(broker.store, self._read_to):
            self._read_to = record.offset + record.size
            if record.topic == alone.TOPIC:
                self._told.append(record.key)
                self.ledger.found(record.key, BROKER, now_ms)

    def open(self) -> list[str]:
        """What must still happen."""
        self.look()
        return self.ledger.open()
