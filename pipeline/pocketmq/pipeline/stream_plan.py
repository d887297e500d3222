"""What a stream reads next: asked of the cluster before each batch, without Spark around it.

Each trigger asks the name servers anew, so new queues and new brokers are found while the query
runs; a new queue is read from its beginning. Brokers that are away are waited for as long as the
options allow, and what would be lost is told (`stream_losses`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from pocketmq.pipeline import plan_reads
from pocketmq.pipeline.checkpoint import Checkpoint
from pocketmq.pipeline.cluster_client import ClusterClient
from pocketmq.pipeline.errors import BrokerAwayError
from pocketmq.pipeline.marks import read_marks
from pocketmq.pipeline.offsets import Offsets, gathered, split_ranges
from pocketmq.pipeline.settings import ReadSettings
from pocketmq.pipeline.stream_losses import Loss, LossPolicy, begins, deleted, unreadable
from pocketmq.pipeline.wire_read import PullPart
from pocketmq.pipeline.worker_log import log
from pocketmq.protocol.message import MessageQueue

Limit = Callable[[Offsets, Offsets], Offsets | None]
"""Makes an end of a begin and an end; None if there is too little for a batch."""


class StreamPlan:
    """One query's state on the driver; its coroutines run on the shared loop only."""

    def __init__(self, client: ClusterClient, settings: ReadSettings) -> None:
        self.client = client
        self.settings = settings
        self.policy = LossPolicy(fails=settings.pull.fail_on_data_loss)
        self._target: Offsets | None = None
        self._judged: tuple[Checkpoint, Offsets] | None = None
        self._was_compared = False
        self._away: set[str] = set()

    @property
    def is_bounded(self) -> bool:
        """Whether the query reads what there is and ends."""
        return self._target is not None

    def counts(self) -> dict[str, int]:
        """What this process has counted since the query started."""
        return {"repeated": self.client.repeated, "lost": self.policy.lost}

    async def initial(self) -> Checkpoint:
        """Where a new query begins."""
        client, settings = self.client, self.settings
        queues = await plan_reads.find_queues(client, settings, may_be_none=True)
        bounds = await client.bounds(queues)
        start = await plan_reads.resolve(client, settings, settings.start, bounds)
        start = plan_reads.checked(settings, start, bounds)
        if self._target is not None:  # what came since then is not read by this run
            self._target = {**start, **self._target}
        behind = {queue: at - 1 for queue, at in start.items() if at > bounds[queue].low}
        return Checkpoint(start, await read_marks(client, settings.pull.group, behind))

    async def ends(self) -> Offsets:
        """The present end of every queue."""
        queues = await plan_reads.find_queues(self.client, self.settings, may_be_none=True)
        return await self.client.ends(queues)

    async def set_target(self) -> None:
        """Read up to the present ends and no further; a queue that comes later is not read."""
        self._target = await self.ends()

    async def latest(self, start: Checkpoint, limit: Limit) -> Checkpoint:
        """Where the next batch ends; `start` while there is nothing to read, or too little.

        Raises:
            DataLossError: Messages were lost, and that is to fail.
            BrokerAwayError, TopicAwayError: Brokers did not come back in time.
        """
        client = self.client
        ends = await client.ends(await self._present(start))
        moved = [queue for queue, end in ends.items() if start.offsets.get(queue) != end]
        begin, losses = await begins(
            client,
            self.settings.pull.group,
            start,
            ends,
            moved if self._was_compared else list(ends),
        )
        self.policy.judge(losses)
        self._was_compared = True
        self._judged = (start, begin)
        begin = {**start.offsets, **begin}  # a queue whose broker is away stays where it is
        end = limit(begin, self._up_to_target(start, begin, ends))
        return start if end is None else await self._marked(start, end, begin)

    def _up_to_target(self, start: Checkpoint, begin: Offsets, ends: Offsets) -> Offsets:
        found = {}
        for queue, offset in begin.items():
            end = ends.get(queue, offset)
            if self._target is not None:
                # The broker of a queue that was read before may have been away until now.
                known = self._target.setdefault(queue, end if queue in start.offsets else 0)
                end = min(end, known)
            found[queue] = max(offset, end)
        return found

    async def _marked(self, start: Checkpoint, end: Offsets, begin: Offsets) -> Checkpoint:
        anew = {
            queue
            for queue, at in start.offsets.items()
            if queue in begin and begin[queue] != at  # made anew
        }
        moved = [
            queue for queue, at in end.items() if queue in anew or start.offsets.get(queue) != at
        ]
        if not moved:
            return start
        behind = {queue: end[queue] - 1 for queue in moved if end[queue] > begin[queue]}
        marks = {queue: mark for queue, mark in start.marks.items() if queue not in moved}
        marks |= await read_marks(self.client, self.settings.pull.group, behind)
        return Checkpoint(end, marks)

    # -- queues that are away -------------------------------------------------------------------

    async def _present(self, start: Checkpoint) -> list[MessageQueue]:
        """The queues that there are; waits for those that are needed and away."""
        patience = self.settings.access.patience
        for attempt in range(patience.retries + 1):
            present = await plan_reads.present_queues(self.client, self.settings)
            missing = sorted(start.offsets.keys() - set(present))
            if not missing:
                self._away.clear()
                return present
            needed = self.is_bounded or not start.offsets.keys() & set(present)
            away, losses = await self._why(start, missing)
            if away and needed and attempt < patience.retries:
                self.client.count_repeat()
                await patience.wait(self.client.clock, attempt)
                continue
            self.policy.judge(losses)
            if away and needed:
                raise self._gave_up(away)
            self._tell(away)
            return present
        raise AssertionError("the loop returns or raises")

    async def _why(
        self, start: Checkpoint, missing: Collection[MessageQueue]
    ) -> tuple[list[MessageQueue], list[Loss]]:
        """Queues whose brokers are away; and what of the others is lost."""
        client = self.client
        running = await client.brokers()
        away = [queue for queue in missing if queue.broker_name not in running]
        losses: list[Loss] = []
        routes = {topic: await client.route_now(topic) for topic in {q.topic for q in missing}}
        for queue in missing:
            if queue.broker_name not in running:
                continue
            at = start.offsets[queue]
            route = routes[queue.topic]
            names = {data.broker_name for data in route.broker_datas} if route is not None else ()
            if queue.broker_name not in names:
                losses.append(deleted(queue, at))
                continue
            end = (await client.ends([queue]))[queue]
            if end > at:
                losses.append(unreadable(queue, at, end))
        return away, losses

    def _gave_up(self, away: list[MessageQueue]) -> BrokerAwayError:
        names = ", ".join(sorted({queue.broker_name for queue in away}))
        topics = ", ".join(sorted({repr(queue.topic) for queue in away}))
        return BrokerAwayError(
            f"pocketmq: {names} is not registered with any name server, and the stream reads "
            f"queues of topic {topics} there{self.client.waited()}"
        )

    def _tell(self, away: list[MessageQueue]) -> None:
        names = {queue.broker_name for queue in away}
        for name in sorted(names - self._away):
            log.warning("broker.missed", broker=name, reason="its queues stay where they are")
        self._away = names

    # -- batches --------------------------------------------------------------------------------

    async def parts(self, start: Checkpoint, end: Checkpoint) -> list[tuple[PullPart, ...]]:
        """What each task reads: a queue that has something new, a part of it, or several queues."""
        settings, client = self.settings, self.client
        moved = [queue for queue in end.offsets if end.has_moved(queue, start)]
        bounds = await client.bounds(moved)
        begin = await self._begin(start, {queue: bounds[queue].high for queue in moved})
        begin = plan_reads.checked(settings, begin, bounds)
        ends = plan_reads.checked(settings, {queue: end.offsets[queue] for queue in moved}, bounds)
        ranges = {queue: (begin[queue], ends[queue]) for queue in begin}
        numbers = plan_reads.kafka_partitions(list(end.offsets))
        least = 1 if settings.dedupe else settings.least_parts
        most = None if settings.dedupe else settings.most_part_rows

        def part(queue: MessageQueue, low: int, high: int) -> PullPart:
            seen_from = -1
            if settings.dedupe and settings.dedupe_window:
                seen_from = max(bounds[queue].low, low - settings.dedupe_window)
            return PullPart(queue, low, high, numbers[queue], seen_from)

        pieces = split_ranges(ranges, least, most)
        groups = gathered(pieces, settings.least_part_rows, settings.least_parts)
        return [tuple(part(*piece) for piece in group) for group in groups]

    async def _begin(self, start: Checkpoint, ends: Offsets) -> Offsets:
        """Where the batch begins in each queue; found again for a batch that is repeated."""
        if self._judged is not None and self._judged[0] == start:
            known = self._judged[1]
            return {queue: known[queue] for queue in ends if queue in known}
        group = self.settings.pull.group
        begin, losses = await begins(self.client, group, start, ends, list(ends))
        self.policy.judge(losses)
        return begin
