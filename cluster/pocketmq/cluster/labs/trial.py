"""What a judge has in its hands: the program, the cluster, the record."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random
from typing import Final

from pocketmq.client import Admin, MessageExt, MessageQueue, PullConsumer
from pocketmq.cluster.labs.program import Program
from pocketmq.cluster.labs.verdict import Record
from pocketmq.cluster.steering.cluster_control import ClusterControl
from pocketmq.protocol.messages.validation import retry_topic
from pocketmq.runtime.clock import SystemClock

LOOK_S: Final = 0.01
"""Real seconds between two looks at the cluster."""

_numbers = itertools.count(1)


class Trial:
    """One check.

    Args:
        command: Words of the program's command line.
        cwd: Where it runs.
        folder: For its state and its standard error; new in every check.
        record: Of the steps.
        cluster: The cluster of this lab.
        seed: Decides everything that is random.
        patience_s: Real seconds for one answer of the program.
    """

    def __init__(
        self,
        command: Sequence[str],
        cwd: Path,
        folder: Path,
        record: Record,
        cluster: ClusterControl,
        *,
        seed: int,
        patience_s: float,
    ) -> None:
        self.record = record
        self.cluster = cluster
        self.random = Random(seed)
        self.clock = SystemClock()
        """Real time; judges wait on it for what real processes do."""
        self._command = list(command)
        self._cwd = cwd
        self._folder = folder
        self._patience_s = patience_s
        self._number = next(_numbers)
        self._runs = itertools.count(1)

    def name(self, word: str) -> str:
        """A topic or group that no other check of this cluster has."""
        return f"lab-{self._number}-{word}"

    def program(self, **env: str) -> Program:
        """A run of the program, to be used in `async with`; LAB_STATE is the same for all runs."""
        # The same for all runs of a check, so that a new run finds what a killed one has written.
        state = self._folder / "state"
        state.mkdir(exist_ok=True)
        more = {"NAMESRV_ADDR": self.cluster.nameservers, "LAB_STATE": str(state), **env}
        return Program(
            self._command,
            self._cwd,
            more,
            self.record,
            stderr_path=self._folder / f"{next(self._runs):03}.stderr",
            patience_s=self._patience_s,
        )

    # -- the cluster over the wire ----------------------------------------------------------

    async def topic(self, word: str, queues: int = 1) -> str:
        """Create a topic; returns when nameservers have its route."""
        topic = self.name(word)
        await self.cluster.create_topic(topic, queues)
        return topic

    async def group(self, word: str) -> str:
        """A consumer group whose retry topic is there already.

        Else it is made by the group's first heartbeat, and clients may see it 20 s later (T-3).
        """
        group = self.name(word)
        await self.cluster.create_topic(retry_topic(group), 1)
        return group

    def admin(self) -> AbstractAsyncContextManager[Admin]:
        """An admin client on real time."""
        return self.cluster.admin()

    async def until(
        self, condition: Callable[[], Awaitable[bool]], what: str, why: str, *, wanted: str = ""
    ) -> None:
        """Wait until something can be seen on the wire, for as long as the patience lasts.

        Raises:
            WrongStepError: It cannot.
        """
        ends_at = self.clock.monotonic() + self._patience_s
        while not await condition():
            if self.clock.monotonic() > ends_at:
                self.record.wrong_step(
                    f"the judge waits: {what}",
                    wanted=wanted or what,
                    found=f"not so after {self._patience_s:g} s of real time",
                    why=why,
                )
            await self.clock.sleep(LOOK_S)

    async def stored(self, topic: str, queue_id: int = 0) -> int:
        """How many messages a queue of broker-a has; 0 when there is no such queue yet."""
        async with self.admin() as admin:
            # Without a route there are no queues to ask for; the topic may come later.
            if await admin.route(topic) is None:
                return 0
            stats = await admin.topic_stats(topic)
        found = stats.get(MessageQueue(topic, "broker-a", queue_id))
        return found.max_offset if found else 0

    async def messages(self, topic: str, queue_id: int = 0, *, begin: int = 0) -> list[MessageExt]:
        """The messages of a queue of broker-a, pulled."""
        count = await self.stored(topic, queue_id)
        found: list[MessageExt] = []
        consumer = PullConsumer(
            self.name("judge"), nameservers=self.cluster.nameservers, clock=self.clock
        )
        async with consumer:
            queue = MessageQueue(topic, "broker-a", queue_id)
            while begin + len(found) < count:
                result = await consumer.pull(queue, "*", begin + len(found))
                # Messages may have been deleted since they were counted.
                if not result.messages:
                    break
                found += result.messages
        return found
