"""Sends the messages of a store, a table or a topic to a topic again: `pocketmq pipeline replay`.

    replay("delta:tables/orders", "orders-again", nameservers="127.0.0.1:9876", speed=10)

Messages are sent in the order of their store times. Those with one key go to one queue, so their
order is kept; the key is `__SHARDINGKEY`, else the first of KEYS, else the queue they were in.
Bodies, flags, tags, keys and the producer's own properties are kept, and UNIQ_KEY, so a message has
its `msgId` again. What a broker sets anew is kept as properties:

    REPLAY_FROM         topic/broker/queue/offset that it was at
    REPLAY_BORN_MS      its born timestamp
    REPLAY_STORE_MS     its store timestamp

With a state file a replay goes on where it was. It stops if messages that it has not sent are gone
meanwhile, or a queue is another one than it was (`resume`). State is written after so many messages
were acknowledged. Messages that were sent after that are recognised in the target by REPLAY_FROM
and REPLAY_STORE_MS, and are not sent again; only a send that was still under way when the process
was killed may come twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pocketmq.pipeline.jobs.on_spark import Starting, job_session, plain_errors
from pocketmq.pipeline.jobs.queue_spans import QueueSpan, Source
from pocketmq.pipeline.jobs.replay_pace import Pace, ReplayState
from pocketmq.pipeline.jobs.replay_rows import Row, in_order, marked_as_sent, read_parts
from pocketmq.pipeline.jobs.sources import StoreSource, source_of
from pocketmq.pipeline.options.offsets import to_json
from pocketmq.pipeline.progress.checkpoint import Checkpoint, Mark
from pocketmq.pipeline.progress.losses import Loss
from pocketmq.pipeline.progress.resume import Losses, check_unchanged, moved_on
from pocketmq.pipeline.spark.session import check_spark
from pocketmq.protocol.java import bucket, java_hash
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.properties import encode_properties
from pocketmq.protocol.messages.validation import check_send_topic
from pocketmq.runtime.words import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pocketmq.pipeline.sending.sender import Sender
    from pocketmq.pipeline.sending.sink_rows import Batch

ADVICE: Final = (
    "run it with --no-fail-on-data-loss (ReplayOptions.fail_on_data_loss) to go on with what there "
    "is, or name another state file to begin anew"
)
STATE_ROWS: Final = 10_000
"""Messages between two states."""

_BATCH_ROWS: Final = 256
_BATCH_BYTES: Final = 1024 * 1024
_SOON_S: Final = 0.001


@dataclass(slots=True)
class Replayed:
    """What a replay has done, or with `dry_run` would do."""

    messages: int = 0
    bytes: int = 0
    """Of the bodies."""
    skipped_empty: int = 0
    """Messages without a body, which brokers refuse."""
    lost: int = 0
    """Messages that were removed before they were sent, as far as one knows."""
    already_sent: int = 0
    """Found in the target: a replay that was killed had sent them."""
    keys: int = 0
    """With `dry_run`: different keys, by which messages are ordered."""
    first_ms: int = 0
    last_ms: int = 0
    """Store times of the first and the last message."""
    lasts_s: float = 0.0
    """With `dry_run`: how long it takes at this speed and rate."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How a replay is done.

    Args:
        speed: 1.0 for the original pace, N for N times as fast, 0 for as fast as possible.
        rate: Most messages a second; 0 for no limit.
        state: File that says how far it is; without one a replay begins at the beginning.
        state_rows: Messages between two states.
        group: Producer group.
        in_flight: Sends that may be unanswered at a time.
        fail_on_data_loss: Whether to stop when messages that were not sent are gone, or a queue of
            the source was made anew. Otherwise that is counted and logged, and what there is is
            sent: of a queue made anew, all.
    """

    speed: float = 0.0
    rate: float = 0.0
    state: Path | None = None
    state_rows: int = STATE_ROWS
    group: str = "pocketmq-replay"
    in_flight: int = 8
    fail_on_data_loss: bool = True


def replay(
    source: str,
    topic: str,
    *,
    nameservers: str,
    topics: Sequence[str] = (),
    options: ReplayOptions | None = None,
    dry_run: bool = False,
    on_state: Callable[[Replayed], None] | None = None,
    master: str = "",
    starting: Starting | None = None,
) -> Replayed:
    """Send all messages of a source to a topic.

    Spark reads and sorts them, wherever it runs; they are sent from this process, one after the
    other when they are due.

    Args:
        source: As `messages` takes it; a topic is read up to its present end.
        topic: The target; it must exist.
        nameservers: Of the target, and of a source that is a topic.
        topics: Only these topics of the source.
        options: See there.
        dry_run: Send nothing, and say what would be sent.
        on_state: Called after each state, whether it is written to a file or not.
        master: Where Spark runs; two cores of this machine if nothing else is said.
        starting: Told where Spark runs before it is started.

    Raises:
        CallerError: There is no such source or topic, or the state is of another replay.
        DataLossError: The source has lost what the state says is still to be sent.
        BrokerError, RemotingError: A message could not be sent; run it again to go on.
        MissingToolError: PySpark, Java 17 or what reads such a table is not installed.
        JobError: Spark has failed.
    """
    check_spark()
    options = options or ReplayOptions()
    check_send_topic(topic)
    # Everything that may be wrong is checked before Spark starts.
    found = source_of(source, topics=topics, nameservers=nameservers)
    path = options.state
    state = None if path is None else ReplayState.load(path, source, topic)
    stand = Checkpoint({}) if state is None else state.stand
    queues = found.queues(stand)
    losses = Losses(fails=options.fail_on_data_loss, advice=ADVICE)
    # Before anything is sent, so that a gap is not found halfway through.
    losses.judge(each.loss for each in queues)
    parts = [each for each in queues if each.low < each.high]
    rows = None
    if parts:  # Spark takes seconds to start
        spark = job_session("replay", master=master, starting=starting)
        with plain_errors():
            rows = read_parts(spark, source, parts, nameservers=nameservers)
    if dry_run:
        done = _would_send(rows, options)
        done.lost = losses.count
        return done
    work = _Replay(found, state or ReplayState(source, topic), nameservers, options)
    return work.run(rows, queues, losses, is_resumed=state is not None, on_state=on_state)


def _would_send(rows: DataFrame | None, options: ReplayOptions) -> Replayed:
    if rows is None:
        return Replayed()
    from pyspark.sql import functions as f

    has_body = f.length("body") > 0
    sums = rows.agg(
        f.count_if(has_body).alias("messages"),
        f.count_if(~has_body).alias("empty"),
        f.sum(f.length("body")).alias("bytes"),
        f.count_distinct(f.when(has_body, f.col("key"))).alias("keys"),
        f.min(f.when(has_body, f.col("latest"))).alias("first"),
        f.max(f.when(has_body, f.col("latest"))).alias("last"),
    )
    with plain_errors():
        (row,) = sums.collect()
    if not row.messages:
        return Replayed(skipped_empty=row.empty)
    return Replayed(
        messages=row.messages,
        bytes=row.bytes,
        skipped_empty=row.empty,
        keys=row["keys"],
        first_ms=row["first"],
        last_ms=row["last"],
        lasts_s=Pace(options.speed, options.rate).lasts_s(row.messages, row["first"], row["last"]),
    )


def _count(done: Replayed, row: Row) -> None:
    # The first message that is sent, which is not always the first that was read.
    if not done.messages:
        done.first_ms = row.stored_ms
    done.messages += 1
    done.bytes += len(row.body)
    done.last_ms = row.stored_ms


@dataclass(slots=True)
class _Replay:
    """One run."""

    source: Source
    state: ReplayState
    nameservers: str
    options: ReplayOptions
    _done: Replayed = field(default_factory=Replayed)
    _open: dict[MessageQueue, Batch] = field(default_factory=dict)
    _next: dict[MessageQueue, tuple[int, Mark | None]] = field(default_factory=dict)
    """Of each queue of the source that has gone on since the last state, the offset behind the last
    message that was handed over, and that message's mark."""

    def run(
        self,
        rows: DataFrame | None,
        queues: Sequence[QueueSpan],
        losses: Losses,
        *,
        is_resumed: bool,
        on_state: Callable[[Replayed], None] | None,
    ) -> Replayed:
        """Send everything that is not done.

        Args:
            rows: It; None if there is nothing.
            queues: Of which queues it is.
            losses: What is lost of them.
            is_resumed: Whether there was a state.
            on_state: As `replay` takes it.
        """
        stand = self.state.stand
        self._done.lost = losses.count
        self.state.gone = (self.state.gone - {each.queue for each in queues}) | losses.gone
        # Where a queue begins is noted, so that what is removed from now on is missed.
        self._next = {each.queue: (each.low, None) for each in queues if _has_moved(each, stand)}
        # With the former queue's mark the next run would take this queue for another one again.
        for queue in self._next:
            self.state.marks.pop(queue, None)
        sender = self._sender()
        targets = sender.queues_of(self.state.topic)
        clock = sender.access.client().clock
        # A resumed run joins with the target, to find messages that were sent after the saved ends.
        if is_resumed and rows is not None:
            # The ends in the file stay as they are until all before them is done.
            rows = marked_as_sent(rows, self._target(rows.sparkSession))
        # A first run saves the target's ends now: whatever is before them was sent by somebody
        # else.
        elif not is_resumed:
            self._save(targets, sender)
        # A store's files may be removed between this look and Spark's read.
        is_store = isinstance(self.source, StoreSource)
        begins = {each.queue: each for each in queues if is_store and each.low < each.high}
        count = sum(each.high - each.low for each in queues)
        pace = Pace(self.options.speed, self.options.rate)
        start_s: float | None = None
        since = 0
        try:
            for row in () if rows is None else in_order(rows, count):
                if start_s is None:
                    start_s = clock.monotonic()  # Spark has taken its time
                # The offset of each queue's first message shows whether its first files were still
                # there.
                if (part := begins.pop(row.queue, None)) is not None:
                    self._miss(losses, part, row.offset)
                # Before the `continue` below, since skipped messages are done as well.
                self._next[row.queue] = (row.offset + 1, row.mark)
                if not row.body:
                    self._done.skipped_empty += 1
                    continue
                if row.was_sent:
                    self._done.already_sent += 1
                    continue
                wait_s = start_s + pace.due_s(row.stored_ms) - clock.monotonic()
                # Shorter waits are below a timer's precision, and not worth sending a batch that is
                # not full.
                if wait_s > _SOON_S:
                    # Messages that are due are sent before the wait, even if their batch is not
                    # full.
                    self._flush(sender)
                    _wait(sender, wait_s)
                self._add(sender, targets, row)
                since += 1
                if since >= self.options.state_rows:
                    since = 0
                    self._save(targets, sender)
                    if on_state is not None:
                        on_state(self._done)
            # No message came of these queues: all that was to be read was removed.
            for part in begins.values():
                self._miss(losses, part, part.high)
            self._save(targets, sender)
        except BaseException:
            # Sends under way are not awaited: the state does not include them, and the next run
            # finds them in the target.
            sender.cancel()
            raise
        if on_state is not None:
            on_state(self._done)
        return self._done

    def _miss(self, losses: Losses, part: QueueSpan, at: int) -> None:
        """Stop at, or count, what is gone of a queue whose first message is at that offset."""
        if at > part.low:
            count = counted(at - part.low, "message")
            what = f"offsets {part.low} to {at - 1} ({count}) were removed before they were read"
            losses.judge([Loss(part.queue, part.low, at, at - part.low, what)])
            self._done.lost = losses.count

    def _sender(self) -> Sender:
        from pocketmq.pipeline.sending.sender import Sender
        from pocketmq.pipeline.topics.settings import access_of_text

        access = access_of_text("replay", self.nameservers)
        return Sender(access, self.options.group, self.options.in_flight)

    def _add(self, sender: Sender, queues: list[MessageQueue], row: Row) -> None:
        from pocketmq.pipeline.sending.sink_rows import Batch

        # Chosen by the key alone, so that a second run uses the same queue.
        queue = queues[bucket(java_hash(row.key), len(queues))]
        text = encode_properties(row.properties).encode()
        batch = self._open.get(queue)
        if batch is not None and batch.size + len(row.body) + len(text) > _BATCH_BYTES:
            sender.send(self._open.pop(queue))
            batch = None
        if batch is None:
            batch = self._open[queue] = Batch(queue)
        batch.append(row.body, text, row.flag)
        # could be better: counted when it is handed over, though its send may fail.
        _count(self._done, row)
        if batch.rows >= _BATCH_ROWS:
            sender.send(self._open.pop(queue))

    def _flush(self, sender: Sender) -> None:
        for batch in self._open.values():
            sender.send(batch)
        self._open.clear()

    def _save(self, queues: list[MessageQueue], sender: Sender) -> None:
        """Wait for all acknowledgements, and write down what is done with that."""
        from pocketmq.pipeline.workers.loop import shared_loop

        # All sends are acknowledged before the state is saved: the other way round a kill would
        # lose messages.
        self._flush(sender)
        sender.finish()
        stand = self.state.stand
        before = {queue: stand.offsets[queue] - 1 for queue in stand.marks if queue in self._next}
        # Checked before the state moves on: a topic made anew meanwhile has other messages at these
        # offsets.
        if before:
            check_unchanged(stand, self.source.marks(before))
        now = moved_on(stand, self._next)
        self.state.done.update(now.offsets)
        self.state.marks = dict(now.marks)
        self._next.clear()
        if self.options.state is not None:
            # Asked after all acknowledgements: all later messages are stored after these ends.
            self.state.ends = shared_loop().result(sender.access.client().ends(queues))
            self.state.save(self.options.state)

    def _target(self, spark: SparkSession) -> DataFrame:
        """What stands in the target behind the ends that the state knows."""
        read = spark.read.format("pocketmq").options(
            nameServer=self.nameservers,
            topic=self.state.topic,
            columns="properties",
            startingOffsets=to_json(self.state.ends),
            # The target may have removed old messages meanwhile; only those that are left can be
            # found.
            failOnDataLoss="false",
        )
        return read.load()


def _has_moved(queue: QueueSpan, stand: Checkpoint) -> bool:
    """Whether a queue is not read on where the stand is: it is new, or what follows is lost."""
    at = stand.offsets.get(queue.queue)
    return at is None or (queue.loss is not None and queue.low != at)


def _wait(sender: Sender, wait_s: float) -> None:
    from pocketmq.pipeline.workers.loop import shared_loop

    shared_loop().result(sender.access.client().clock.sleep(wait_s))
