"""The sink `pocketmq`: data frames and streams as messages, at least once.

    df.write.format("pocketmq").option("nameServer", ...).option("topic", "T").mode("append").save()

Each message has a property that identifies its row (`repeats`): a reader with `dedupe=true` yields
it once.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from pocketmq.pipeline.options.options import Options
from pocketmq.pipeline.sending.sink_columns import SinkColumns
from pocketmq.pipeline.spark.plainly import plainly
from pocketmq.pipeline.topics.settings import NAME, WRITE, access_of
from pocketmq.runtime.errors import CallerError

if TYPE_CHECKING:
    from pocketmq.pipeline.sending.bad_rows import BadRows
    from pocketmq.pipeline.sending.sender import Sender

QUERY_ID_PROPERTY = "sql.streaming.queryId"
BATCH_ID_PROPERTY = "streaming.sql.batchId"
"""Spark's local properties that identify the query and the micro-batch of a task."""


@dataclass
class TaskSent(WriterCommitMessage):
    """Counts of what one task sent."""

    task: int
    rows: int
    batches: int
    bytes: int
    repeated: int
    """Sends that had to be repeated; their messages may be stored twice."""
    bad: int = 0
    """Rows that could not be sent, and are kept where the options say."""


class WriteSettings:
    """The options of one write, checked against the data frame's columns.

    Raises:
        OptionError: An option has an unknown name or a wrong value.
        ColumnsError: A column has an unknown name or the wrong type, or is missing.
    """

    def __init__(self, given: Mapping[str, str], schema: Any, *, streaming: bool = False) -> None:
        options = Options(NAME, given, WRITE)
        self.access = access_of(options, is_patient=streaming)
        self.topic = options.text("topic")
        self.group = options.text("producerGroup")
        self.in_flight = options.number("inFlight", least=1)
        self.batch_rows = options.number("batchRows", least=1)
        self.batch_bytes = options.number("batchBytes", least=1)
        self.wait_store_ok = options.flag("waitStoreOk")
        self.columns = SinkColumns.of(
            {field.name: field.dataType.simpleString() for field in schema.fields},
            topic=self.topic,
            tag_column=options.text("tagColumn"),
            key_columns=options.words("keyColumns"),
        )
        self.bad_path = options.text("badRowsPath")
        self.bad_topic = options.text("badRowsTopic")
        if self.bad_path and self.bad_topic:
            raise options.error("badRowsTopic", "cannot be given together with badRowsPath")
        # Checked on the driver, so that a wrong name is reported before any task starts.
        for topic in (self.topic, self.bad_topic):
            if topic:
                from pocketmq.protocol.messages.validation import check_send_topic

                check_send_topic(topic)


class TopicWriter(DataSourceArrowWriter):
    """Writes a data frame."""

    def __init__(self, settings: WriteSettings) -> None:
        self.settings = settings
        # Made on the driver, so that all attempts of a task have the same id.
        self.write_id = uuid.uuid4().hex[:12]

    @plainly
    def write(self, iterator: Iterator[Any]) -> TaskSent:
        """Send one task's rows."""
        context = task_context()
        return send_rows(self.settings, iterator, self.write_id, 0, context.partitionId())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Spark calls this when all tasks have sent their rows."""
        tell(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Spark calls this when a task failed for good. What others sent stays sent."""
        tell(messages, aborted=True)


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """Writes a stream. Spark makes one to plan a batch, which travels to the tasks, and another to
    commit it."""

    def __init__(self, settings: WriteSettings) -> None:
        from pocketmq.pipeline.workers.worker_memory import keep_planner_loaded

        self.settings = settings
        keep_planner_loaded()

    @plainly
    def write(self, iterator: Iterator[Any]) -> TaskSent:
        """Send one task's rows of a micro-batch."""
        context = task_context()
        query = context.getLocalProperty(QUERY_ID_PROPERTY) or ""
        batch = int(context.getLocalProperty(BATCH_ID_PROPERTY) or 0)
        # The query's id stays in the checkpoint, so a batch that is repeated after a restart has
        # the same ids.
        write_id = query.replace("-", "")[:12]
        return send_rows(self.settings, iterator, write_id, batch, context.partitionId())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Spark calls this when all tasks of the micro-batch have sent their rows."""
        tell(messages, batch=batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Spark calls this when a task failed for good; it will run the whole micro-batch again."""
        tell(messages, batch=batchId, aborted=True)


def task_context() -> Any:
    """Spark's context of the task that runs here."""
    from pyspark import TaskContext

    return TaskContext.get()


def send_rows(
    settings: WriteSettings, iterator: Iterator[Any], write_id: str, batch: int, task: int
) -> TaskSent:
    """Send rows; returns when every one is acknowledged."""
    from pocketmq.pipeline.columns.repeats import row_prefix
    from pocketmq.pipeline.sending.sender import Sender
    from pocketmq.pipeline.sending.sink_rows import RowEncoder
    from pocketmq.pipeline.workers.worker_memory import keep_loaded

    prefix = row_prefix(write_id, batch, task)
    sender = Sender(settings.access, settings.group, settings.in_flight)
    bad = _bad_rows(settings, sender, write_id, batch, task)
    encoder = RowEncoder(
        settings.columns,
        settings.topic,
        prefix,
        task,
        sender.queues_of,
        sender.uniq_keys(),
        settings.batch_rows,
        settings.batch_bytes,
        settings.wait_store_ok,
        bad.add if bad is not None else None,
    )
    sender.may_refuse = bad is not None
    bad_rows = 0
    try:
        for record_batch in iterator:
            for full in encoder.encode(record_batch):
                sender.send(full)
            # After each record batch, so that refused rows do not pile up in memory.
            if bad is not None:
                _take_refused(sender, bad)
        for rest in encoder.rest():
            sender.send(rest)
        # Awaits all acknowledgements: Spark commits when this function returns.
        sender.finish()
        if bad is not None:
            _take_refused(sender, bad)
            # After the good rows, since the bad rows' file appears only when the task is done.
            bad.finish()
            bad_rows = bad.count
    except BaseException:
        # Spark runs a failed task again as a whole.
        sender.cancel()
        if bad is not None:
            bad.cancel()
        raise
    keep_loaded()
    return TaskSent(
        task, sender.sent_rows, sender.sent_batches, sender.sent_bytes, sender.repeated, bad_rows
    )


def _bad_rows(
    settings: WriteSettings, sender: Sender, write_id: str, batch: int, task: int
) -> BadRows | None:
    """Where a task's bad rows go; None if they are errors."""
    from pocketmq.pipeline.columns.repeats import row_prefix
    from pocketmq.pipeline.sending.bad_rows import BadRowTable
    from pocketmq.pipeline.sending.bad_rows_topic import BadRowTopic

    if settings.bad_path:
        return BadRowTable(settings.bad_path, write_id, batch, task)
    if settings.bad_topic:
        prefix = row_prefix(write_id, batch, task)
        return BadRowTopic(sender, settings.bad_topic, prefix, task)
    return None


def _take_refused(sender: Sender, bad: BadRows) -> None:
    for row in sender.take_refused():
        bad.add(row)


def tell(messages: list[WriterCommitMessage | None], **facts: Any) -> None:
    """Log one line about a finished write."""
    from pocketmq.pipeline.workers.worker_log import log

    sent = [message for message in messages if isinstance(message, TaskSent)]
    log.info(
        "rows.sent",
        rows=sum(each.rows for each in sent),
        batches=sum(each.batches for each in sent),
        bytes=sum(each.bytes for each in sent),
        repeated=sum(each.repeated for each in sent),
        bad=sum(each.bad for each in sent),
        tasks=len(sent),
        **facts,
    )


def refuse_overwrite(overwrite: bool) -> None:
    """Refuse to overwrite: messages that are stored cannot be removed.

    Raises:
        CallerError: The write's mode is overwrite, or a stream's output mode complete.
    """
    if overwrite:
        raise CallerError(
            'pocketmq: messages cannot be overwritten; use mode("append") or outputMode("append")'
        )
