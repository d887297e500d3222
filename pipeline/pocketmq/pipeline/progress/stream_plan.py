"""What a stream reads next: asked of the cluster before each batch, without Spark around it.

Each trigger asks the name servers anew, so new queues and new brokers are found while the query
runs; a new queue is read from its beginning. Brokers that are away are waited for as long as the
options allow, and what would be lost is told (`stream_losses`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from pocketmq.pipeline.errors import BrokerAwayError
from pocketmq.pipeline.options.offsets import Offsets, gathered, split_ranges
from pocketmq.pipeline.progress import plan_reads
from pocketmq.pipeline.progress.checkpoint import Checkpoint, Early
from pocketmq.pipeline.progress.cut_short import cuts
from pocketmq.pipeline.progress.marks import read_marks
from pocketmq.pipeline.progress.missing_queues import look_for, tell_away
from pocketmq.pipeline.progress.renamed import find_renamed, under_names
from pocketmq.pipeline.progress.stream_losses import (
    Begins,
    Kind,
    LossPolicy,
    StreamLoss,
    begins,
    cut_unread,
    deleted,
    remade,
    short,
    unreadable,
)
from pocketmq.pipeline.topics.cluster_client import ClusterClient
from pocketmq.pipeline.topics.partition_numbers import numbers_by_place, partition_numbers
from pocketmq.pipeline.topics.settings import ReadSettings
from pocketmq.pipeline.topics.wire_read import PullPart
from pocketmq.pipeline.workers.worker_log import log
from pocketmq.protocol.messages.message import MessageQueue

Limit = Callable[[Offsets, Offsets], Offsets | None]
"""Makes an end of a begin and an end; None if there is too little for a batch."""


class StreamPlan:
    """One query's state on the driver; its coroutines run on the shared loop only."""

    def __init__(self, client: ClusterClient, settings: ReadSettings) -> None:
        self.client = client
        self.settings = settings
        self.policy = LossPolicy(fails=settings.pull.fail_on_data_loss)
        self._target: Offsets | None = None
        self._judged: tuple[Checkpoint, Begins] | None = None
        self._initial: tuple[Checkpoint, list[StreamLoss]] | None = None
        """Where a new query begins, and what it would lose by that: told when it does begin there,
        for Spark also asks a query whose first batch has failed, and that begins elsewhere."""
        self._seen: Offsets = {}
        """Ends of queues when they were last looked at, for what is lost with a queue."""
        self._planned = 0
        self._was_compared = False
        self._away: set[str] = set()
        self._left_out: set[str] = set()

    @property
    def is_bounded(self) -> bool:
        """Whether the query reads what there is and ends."""
        return self._target is not None

    def counts(self) -> dict[str, int | None]:
        """What this process has counted since the query started, and the size of the batch.

        `planned` are the rows that the last planned batch is to have; None if the options leave out
        messages on the way, so that nobody knows.
        """
        settings = self.settings
        # Each of these drops rows on the workers, so the driver does not know the number.
        leaves_out = settings.pull.is_filtered or settings.dedupe or settings.permissive
        return {
            "repeated": self.client.repeated,
            "lost": self.policy.lost,
            "remade": self.policy.remade,
            "cut": self.policy.cut,
            "planned": None if leaves_out else self._planned,
        }

    async def initial(self) -> Checkpoint:
        """Where a new query begins."""
        client, settings = self.client, self.settings
        queues = await plan_reads.find_queues(client, settings, may_be_none=True)
        bounds = await client.bounds(queues)
        start = await plan_reads.resolve(client, settings, settings.start, bounds)
        # The starts are moved to stored messages; losses are reported when the query really begins
        # here.
        start, losses = plan_reads.stored(start, bounds)
        self._seen = {queue: bounds[queue].high for queue in queues}
        if self._target is not None:  # what came since then is not read by this run
            self._target = {**start, **self._target}
        # There is no message before a queue's first one.
        behind = {queue: at - 1 for queue, at in start.items() if at > bounds[queue].low}
        group = settings.pull.group
        firsts = {queue: low for queue, (low, high) in bounds.items() if low < high}
        begin = Checkpoint(
            start,
            await read_marks(client, group, behind),
            early=await self._early(firsts),
            partitions=partition_numbers(start) if settings.kafka_compatible else {},
        )
        self._initial = (begin, losses)
        return begin

    async def ends(self) -> Offsets:
        """The present end of every queue that there is."""
        return await self.client.ends(await plan_reads.present_queues(self.client, self.settings))

    async def set_target(self) -> None:
        """Read up to the present ends and no further; a queue that comes later is not read."""
        queues = await plan_reads.find_queues(self.client, self.settings, may_be_none=True)
        self._target = await self.client.ends(queues)

    async def latest(self, start: Checkpoint, limit: Limit) -> Checkpoint:
        """Where the next batch ends; `start` while there is nothing to read, or too little.

        Raises:
            DataLossError: Messages were lost, and that is to fail.
            BrokerAwayError, TopicAwayError: Brokers did not come back in time.
        """
        self._planned = 0
        # Reported only now: a query whose first batch failed asks for its begin too, but starts
        # elsewhere.
        if self._initial is not None and start == self._initial[0]:
            self.policy.judge(self._initial[1])
        asked = start
        start, present = await self._present(start)
        ends = await self.client.ends(present)
        # The brokers of these queues are back, so the queues are not lost.
        self.policy.take_back(ends)
        moved = [queue for queue, end in ends.items() if start.offsets.get(queue) != end]
        found = await begins(
            self.client,
            self.settings.pull.group,
            start,
            ends,
            # At first every queue, since anything may have happened since the checkpoint; later
            # only those that have changed.
            moved if self._was_compared else list(ends),
            seen=self._seen,
        )
        self.policy.judge(found.losses)
        self._was_compared = True
        self._judged = (asked, found)
        self._see(ends, found)
        begin = {**start.offsets, **found.offsets}  # where a broker is away, it stays where it is
        end = limit(begin, self._up_to_target(start, begin, ends))
        # The tree as Spark gave it, without renamings: Spark compares it with its own.
        if end is None:
            return asked
        self._planned = sum(end[queue] - begin[queue] for queue in end)
        # Queues made anew are noted now, since the stream continues from them with this batch.
        self._seen |= ends
        return await self._marked(asked, start, end, begin, found)

    def _see(self, ends: Offsets, found: Begins) -> None:
        """Remember the ends. A queue made anew or cut short is met again until the stream has gone
        on from it, and until then the end of the former one is what counts."""
        anew = {loss.queue for loss in found.losses if loss.kind.moves_back}
        self._seen |= {queue: end for queue, end in ends.items() if queue not in anew}

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

    async def _marked(
        self, asked: Checkpoint, start: Checkpoint, end: Offsets, begin: Offsets, found: Begins
    ) -> Checkpoint:
        anew = {
            queue
            for queue, at in start.offsets.items()
            if queue in begin and begin[queue] != at  # made anew, or cut short
        }
        moved = [
            queue for queue, at in end.items() if queue in anew or start.offsets.get(queue) != at
        ]
        if not moved:
            return start
        # A queue that did not move keeps its mark; one made anew needs the mark of its new last
        # message.
        behind = {
            queue: end[queue] - 1 for queue in moved if queue in anew or end[queue] > begin[queue]
        }
        marks = {queue: mark for queue, mark in start.marks.items() if queue not in moved}
        marks |= await read_marks(self.client, self.settings.pull.group, behind)
        early = await self._early_of(start, moved, found)
        renamed = {} if start is asked else start.renamed
        return Checkpoint(
            end, marks, early=early, partitions=self._numbers(start, end), renamed=renamed
        )

    def _numbers(
        self, stand: Checkpoint, queues: Collection[MessageQueue]
    ) -> dict[MessageQueue, int]:
        """Partition numbers of queues; those that the stream has numbered keep theirs."""
        if not self.settings.kafka_compatible:
            return {}
        known = stand.partitions
        # Earlier versions numbered the queues by the order of their names, and these numbers must
        # stay.
        if not known and not stand.early:  # written by an earlier version
            known = numbers_by_place(stand.offsets)
        return partition_numbers(queues, known)

    async def _early_of(
        self, start: Checkpoint, moved: Collection[MessageQueue], found: Begins
    ) -> dict[MessageQueue, Early]:
        """Early messages after a batch. One that is not stored any more is followed by the last
        message before the batch, which stays stored for longest."""
        anew = {loss.queue for loss in found.losses if loss.kind is Kind.REMADE}
        back = {loss.queue for loss in found.losses if loss.kind.moves_back}
        early = {queue: each for queue, each in start.early.items() if queue not in anew}
        firsts: Offsets = {}
        for queue in moved:
            low = found.lows.get(queue)
            # An early message that is still stored stays: the older it is, the longer it can show a
            # cut.
            if low is None or (queue in early and early[queue].offset >= low):
                continue
            early.pop(queue, None)
            before = start.offsets.get(queue, 0) - 1
            # Its mark is known, which saves a request.
            if queue in start.marks and queue not in back and low <= before:
                early[queue] = Early(before, start.marks[queue])
            else:
                firsts[queue] = low
        return early | await self._early(firsts)

    async def _early(self, offsets: Offsets) -> dict[MessageQueue, Early]:
        marks = await read_marks(self.client, self.settings.pull.group, offsets)
        return {queue: Early(offsets[queue], mark) for queue, mark in marks.items()}

    # -- queues that are away -------------------------------------------------------------------

    async def _present(self, start: Checkpoint) -> tuple[Checkpoint, list[MessageQueue]]:
        """The queues that there are; waits for those that are needed and away.

        With the start under the names that brokers have now.
        """
        patience = self.settings.access.patience
        # Asked again in each round: a broker may come back under another name.
        for attempt in range(patience.retries + 1):
            present = await plan_reads.present_queues(self.client, self.settings)
            start = await self._followed(start, present)
            own = await plan_reads.own_topics(self.client, self.settings)
            chosen = {
                queue for queue in start.offsets if plan_reads.is_chosen(self.settings, queue, own)
            }
            self._tell_left_out(start.offsets.keys() - chosen)
            missing = sorted(chosen - set(present))
            if not missing:
                self._away.clear()
                return start, present
            # An endless stream reads the other queues meanwhile; a bounded one would never read
            # these.
            needed = self.is_bounded or not chosen & set(present)
            away, losses = await self._why(start, missing)
            if away and needed and attempt < patience.retries:
                # Counted, so that the wait shows in the query's figures.
                self.client.count_repeat()
                await patience.wait(self.client.clock, attempt)
                continue
            # After the waits, since a broker that came back has lost nothing.
            self.policy.judge(losses)
            if away and needed:
                raise self._gave_up(away)
            self._tell(away)
            return start, present
        raise AssertionError("the loop returns or raises")

    async def _followed(self, stand: Checkpoint, present: Collection[MessageQueue]) -> Checkpoint:
        """The stand with the names that brokers have now."""
        names = await find_renamed(self.client, self.settings.pull.group, stand, present)
        if not names:
            return stand
        if self.settings.kafka_compatible:
            stand = replace(stand, partitions=self._numbers(stand, stand.offsets))
        return under_names(stand, names)

    async def _why(
        self, start: Checkpoint, missing: Collection[MessageQueue]
    ) -> tuple[list[MessageQueue], list[StreamLoss]]:
        """Queues whose brokers are away; and what of the others is lost."""
        found = await look_for(self.client, missing)
        losses: list[StreamLoss] = []
        for queue in sorted(missing):
            at, mark = start.offsets[queue], start.marks.get(queue)
            end = found.ends.get(queue, at)
            # A queue that ends before what was read was made anew, and has none of the former
            # messages.
            if queue in found.deleted or end < at:
                losses.append(deleted(queue, at, seen=self._seen.get(queue), mark=mark))
            elif end > at:
                losses.append(unreadable(queue, at, end, mark))
        return found.away, losses

    def _gave_up(self, away: list[MessageQueue]) -> BrokerAwayError:
        names = ", ".join(sorted({queue.broker_name for queue in away}))
        topics = ", ".join(sorted({repr(queue.topic) for queue in away}))
        return BrokerAwayError(
            f"pocketmq: {names} is not registered with any name server, and the stream reads "
            f"queues of topic {topics} there{self.client.waited()}"
        )

    def _tell_left_out(self, queues: Collection[MessageQueue]) -> None:
        """Log which topics the options do not name any more."""
        topics = {queue.topic for queue in queues}
        for topic in sorted(topics - self._left_out):
            reason = "the options do not name all of its queues that were read; they stay where "
            reason += "they are, and are read on when they are named again"
            log.warning("topic.left_out", topic=topic, reason=reason)
        self._left_out = topics

    def _tell(self, away: list[MessageQueue]) -> None:
        names = {queue.broker_name for queue in away}
        # Each broker is logged once, not with every batch.
        tell_away(names - self._away)
        self._away = names

    # -- batches --------------------------------------------------------------------------------

    async def parts(self, start: Checkpoint, end: Checkpoint) -> list[tuple[PullPart, ...]]:
        """What each task reads: a queue that has something new, a part of it, or several queues."""
        settings, client = self.settings, self.client
        # After a restart Spark repeats a batch that another process has planned.
        is_repeated = self._judged is None or self._judged[0] != start
        asked, start = start, under_names(start, end.renamed)
        if is_repeated:
            # A broker may have been renamed since the batch was planned.
            present = await plan_reads.present_queues(client, settings)
            followed = await self._followed(end, present)
            if followed is not end:
                start, end = under_names(start, followed.renamed), followed
        moved = [queue for queue in end.offsets if end.has_moved(queue, start)]
        ends = await client.ends(moved)
        found = await self._begins(asked, start, end, ends)
        cut: Offsets = {}
        others: dict[MessageQueue, StreamLoss] = {}
        if is_repeated:
            cut, others = await self._changed(end, moved, found, ends)
        ranges: dict[MessageQueue, tuple[int, int]] = {}
        losses = []
        told = {loss.queue for loss in found.losses if loss.kind.moves_back}
        for queue in found.offsets.keys() & ends.keys():
            # Up to the planned end, as far as it is still stored.
            high = min(end.offsets[queue], ends[queue], cut.get(queue, ends[queue]))
            low = min(found.offsets[queue], high)
            wanted, mark = end.offsets[queue], end.marks.get(queue)
            if queue in others:
                high = low
            # `begins` has reported the losses of these queues already.
            if high < wanted and queue not in told:
                count = max(0, wanted - max(high, found.offsets[queue]))
                if queue in others:
                    losses.append(others[queue])
                elif queue in cut:
                    losses.append(cut_unread(queue, wanted, high, count, mark))
                else:
                    losses.append(short(queue, wanted, high, count, mark))
            ranges[queue] = (low, high)
        self.policy.judge(losses)
        numbers = self._numbers(end, end.offsets)
        # Repeats are found within a task, so a queue must not be split.
        least = 1 if settings.dedupe else settings.least_parts
        most = None if settings.dedupe else settings.most_part_rows

        def part(queue: MessageQueue, low: int, high: int) -> PullPart:
            seen_from = -1
            if settings.dedupe and settings.dedupe_window:
                seen_from = max(found.lows[queue], low - settings.dedupe_window)
            return PullPart(queue, low, high, numbers.get(queue, 0), seen_from)

        # Long queues are split, then short ones are put together: a task costs more than a queue.
        pieces = split_ranges(ranges, least, most)
        groups = gathered(pieces, settings.least_part_rows, settings.least_parts)
        return [tuple(part(*piece) for piece in group) for group in groups]

    async def _changed(
        self,
        end: Checkpoint,
        moved: Collection[MessageQueue],
        found: Begins,
        ends: Offsets,
    ) -> tuple[Offsets, dict[MessageQueue, StreamLoss]]:
        """Queues that are not as they were when a batch was planned, which is repeated now.

        Those that were cut short, and where; and those that were made anew, of which this batch
        reads nothing, as the next one notices them too and reads them from their beginning.
        """
        group = self.settings.pull.group
        places = {
            queue: end.offsets[queue] - 1
            for queue in moved
            if queue in end.marks and queue in found.lows
        }
        now = await read_marks(
            self.client, group, {queue: at for queue, at in places.items() if at < ends[queue]}
        )
        others = [queue for queue in places if now.get(queue) != end.marks[queue]]
        cut = await cuts(self.client, group, end, others, found.lows, ends)
        anew = {}
        for queue in others:
            wanted, low = end.offsets[queue], found.lows[queue]
            # Neither cut short nor unchanged: these offsets now belong to other messages.
            if queue not in cut and (queue in now or ends[queue] < wanted):
                is_now, unread = now.get(queue), max(0, wanted - found.offsets[queue])
                loss = remade(
                    *(queue, wanted, ends[queue], end.marks[queue], is_now),
                    seen=None,
                    done="planned",
                )
                anew[queue] = replace(loss, count=unread + low)
        return cut, anew

    async def _begins(
        self, asked: Checkpoint, start: Checkpoint, end: Checkpoint, ends: Offsets
    ) -> Begins:
        """Where the batch begins in each queue; found again for a batch that is repeated."""
        # Planned just now with the same begin, and its losses were reported then.
        if self._judged is not None and self._judged[0] == asked:
            return self._judged[1]
        found = await begins(
            self.client,
            self.settings.pull.group,
            start,
            ends,
            list(ends),
            seen=end.offsets,
            until=end.offsets,
        )
        self.policy.judge(found.losses)
        return found
