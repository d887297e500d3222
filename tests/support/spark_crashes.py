"""Streams into Parquet and Delta while drivers, executors, brokers and name servers are killed, and
while retention removes what they have read, or have not read yet.

In the end both tables have every message exactly once, but for those that were removed unread, and
these were counted. `scripts/spark_crashes.py` runs it at any size,
tests/pipeline/test_spark_crashes.py at a small one.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pocketmq.client import Message, MessageQueue
from pocketmq.runtime.clock import SystemClock
from support.forgetful import forget
from support.spark_cluster import SparkCluster
from support.spark_crash_process import Drivers
from support.spark_crash_tables import TABLES, bodies, check, stand
from support.spark_home import use_spark_home

TOPIC = "Crashes"
EVENTS = ("driver", "broker", "nameservers", "grow", "executor", "retention", "overtaken")
"""What may happen.

driver       kill -9 of the process group of both streams' drivers; started again
broker       kill -9 of one of them; started again
nameservers  kill -9 of all; started again after `away_s`
grow         4 queues on each broker become 8
executor     kill -9 of one of each stream; Spark starts another one
retention    all is read, and removed as far as brokers remove it
overtaken    the drivers are killed, and messages that they have not read are removed: started
             again, they stop; started with failOnDataLoss=false, they count them and go on
"""


@dataclass
class Crashes:
    """One run.

    Args:
        cluster: Two brokers; for `retention` and `overtaken`, `forgetful` ones.
        folder: Where the tables and checkpoints go.
        messages: How many in all.
        events: What happens, in order; of `EVENTS`.
        master: Where Spark runs; `executor` needs `local-cluster[...]`.
        away_s: How long name servers stay away.
        batches: How many there are at least.
        body_bytes: How long a body is at least. What is sent between two events must fill more
            than a file of each broker's log, or retention has nothing to remove.
        seed: Chooses the moments.
        tell: Gets a line for each step.
    """

    cluster: SparkCluster
    folder: Path
    messages: int
    events: Sequence[str]
    master: str = "local[2]"
    away_s: float = 0.0
    batches: int = 20
    body_bytes: int = 1
    seed: int = 1
    tell: Callable[[str], None] = lambda _: None
    _stored: dict[int, tuple[MessageQueue, int]] = field(default_factory=dict, init=False)
    """Where each message is, or was: its queue and offset."""
    _firsts: Mapping[MessageQueue, int] = field(default_factory=dict, init=False)
    """First offsets of the queues after the last retention."""
    _lost: dict[str, set[int]] = field(default_factory=dict, init=False)
    """By table."""

    def run(self) -> None:
        """Let it happen.

        Raises:
            AssertionError: A table lacks a message, or has one twice, or a query has ended, or has
                not ended where it had to, or has counted other losses than there were.
        """
        use_spark_home(self.folder)
        rng = random.Random(self.seed)
        self.cluster.create_topic(TOPIC, queues=4)
        self._lost = {table: set() for table in TABLES}
        parts = len(self.events) + 1
        cuts = [self.messages * number // parts for number in range(parts + 1)]
        drivers = self._drivers()
        try:
            for number, event in enumerate(self.events):
                begin, end = cuts[number], cuts[number + 1]
                sent = (begin + end) // 2 if event == "overtaken" else end
                self._send(begin, sent)
                drivers.wait_for(sent if event == "retention" else rng.randint(begin + 1, sent))
                self.tell(f"{event} at {drivers.at} of {sent} rows")
                if event == "overtaken":
                    drivers.kill()
                    self._send(sent, end)
                    drivers = self._overtake(end)
                else:
                    drivers = self._do(event, drivers, rng)
            self._send(cuts[-2], cuts[-1])
            read = drivers.finish(self.messages)["parquet"]
        finally:
            drivers.kill()
        check("Parquet, read by Spark", read, self.messages, self._lost["parquet"])
        found = bodies(self.folder, "delta")
        check("Delta, read by deltalake", found, self.messages, self._lost["delta"])

    def _drivers(self, *, fails: bool = True) -> Drivers:
        script = str(Path(__file__).with_name("spark_crash_driver.py"))
        rows = str(max(1, self.messages // self.batches))
        where = (self.cluster.nameservers, TOPIC, str(self.folder), self.master, rows)
        arguments = (*where, str(fails).lower())
        return Drivers({table: [sys.executable, script, table, *arguments] for table in TABLES})

    def _send(self, begin: int, end: int) -> None:
        numbers = range(begin, end)
        messages = [Message(TOPIC, str(each).encode().rjust(self.body_bytes)) for each in numbers]
        for number, sent in zip(numbers, self.cluster.deliver(messages), strict=True):
            self._stored[number] = sent.queue, sent.queue_offset

    def _do(self, event: str, drivers: Drivers, rng: random.Random) -> Drivers:
        cluster = self.cluster
        match event:
            case "driver":
                drivers.kill()
                return self._drivers()
            case "broker":
                name = rng.choice(["broker-a", "broker-b"])
                cluster.kill(name)
                cluster.restart(name)
            case "nameservers":
                names = [each.name for each in cluster.supervisor.of_role("nameserver")]
                for name in names:
                    cluster.kill(name)
                cluster.run(SystemClock().sleep(self.away_s))
                for name in names:
                    cluster.run(cluster.supervisor.restart(name))
                cluster.wait_until_known(TOPIC)
            case "grow":
                cluster.shape_topic(TOPIC, 8)
            case "executor":
                for executors in drivers.executors().values():
                    rng.choice(executors).kill()
            case "retention":
                self._forget()
            case _:
                raise ValueError(event)
        return drivers

    def _forget(self) -> None:
        """Remove what brokers remove: all of their logs but the last file."""
        before, self._firsts = self._firsts, forget(self.cluster, TOPIC)
        removed = sum(self._firsts.values()) - sum(before.values())
        self.tell(f"  {removed} messages are removed")
        assert removed, "nothing was removed"

    def _overtake(self, end: int) -> Drivers:
        """Remove messages that were not read, and let the queries find that out.

        Args:
            end: How many messages there are.

        Returns:
            Drivers that have gone on without them.
        """
        self._forget()
        strict = self._drivers()
        try:
            deaths = strict.deaths(end)
        finally:
            strict.kill()
        counts = {}
        for table in TABLES:
            at, had = stand(self.folder, table).offsets, set(bodies(self.folder, table))
            unread = [
                (number, queue)
                for number, (queue, offset) in self._stored.items()
                if at.get(queue, 0) <= offset < self._firsts[queue]
            ]
            # A batch may be in the table and not in the checkpoint: it is planned again, and what
            # was removed of it is counted, though it is there.
            lost = {number for number, _ in unread} - had
            assert lost, f"{table}: it had read all that was removed"
            places = [f"{queue}" for queue in {queue for _, queue in unread}]
            why = deaths.get(table, "it went on")
            assert any(place in why for place in places), f"{table}: {why} names none of {places}"
            self._lost[table] |= lost
            counts[table] = len(unread)
            self.tell(f"  {table}: stopped; {len(lost)} messages are lost")
        drivers = self._drivers(fails=False)
        try:
            drivers.wait_for(end)
            drivers.wait_for_losses(counts)
        except BaseException:
            drivers.kill()
            raise
        return drivers
