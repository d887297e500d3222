"""The sink `pocketmq`: data frames and streams as messages, at least once.

    df.write.format("pocketmq").option("nameServer", ...).option("topic", "T").mode("append").save()

Each message has a property that identifies its row (`repeats`): a reader with `dedupe=true` yields
it once.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from pocketmq.pipeline.options import Options
from pocketmq.pipeline.plainly import plainly
from pocketmq.pipeline.settings import NAME, WRITE, access_of
from pocketmq.pipeline.sink_rows import SinkColumns
from pocketmq.runtime.errors import CallerError

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
    """How often a send was repeated; its messages may be stored twice."""


class WriteSettings:
    """The options of one write, checked against the data frame's columns.

    Raises:
        OptionError: An option has an unknown name or a wrong value.
        ColumnsError: A column has an unknown name or the wrong type, or is missing.
    """

    def __init__(self, given: Mapping[str, str], schema: Any) -> None:
        options = Options(NAME, given, WRITE)
        self.access = access_of(options)
        self.topic = options.text("topic")
        self.group = options.text("producerGroup")
        self.retries = options.number("retries")
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
        if self.topic:
            from pocketmq.protocol.validation import check_send_topic

            check_send_topic(self.topic)


class TopicWriter(DataSourceArrowWriter):
    """Writes a data frame."""

    def __init__(self, settings: WriteSettings) -> None:
        self.settings = settings
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
    """Writes a stream."""

    def __init__(self, settings: WriteSettings) -> None:
        self.settings = settings

    @plainly
    def write(self, iterator: Iterator[Any]) -> TaskSent:
        """Send one task's rows of a micro-batch."""
        context = task_context()
        query = context.getLocalProperty(QUERY_ID_PROPERTY) or ""
        batch = int(context.getLocalProperty(BATCH_ID_PROPERTY) or 0)
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
    from pocketmq.pipeline.repeats import row_prefix
    from pocketmq.pipeline.sender import Sender
    from pocketmq.pipeline.sink_rows import RowEncoder

    sender = Sender(settings.access, settings.group, settings.retries, settings.in_flight)
    encoder = RowEncoder(
        settings.columns,
        settings.topic,
        row_prefix(write_id, batch, task),
        task,
        sender.queues_of,
        sender.uniq_keys(),
        settings.batch_rows,
        settings.batch_bytes,
        settings.wait_store_ok,
    )
    try:
        for record_batch in iterator:
            for full in encoder.encode(record_batch):
                sender.send(full)
        for rest in encoder.rest():
            sender.send(rest)
        sender.finish()
    except BaseException:
        sender.cancel()
        raise
    return TaskSent(task, sender.sent_rows, sender.sent_batches, sender.sent_bytes, sender.repeated)


def tell(messages: list[WriterCommitMessage | None], **facts: Any) -> None:
    """Log one line about a finished write."""
    from pocketmq.pipeline.worker_log import log

    sent = [message for message in messages if isinstance(message, TaskSent)]
    log.info(
        "rows.sent",
        rows=sum(each.rows for each in sent),
        batches=sum(each.batches for each in sent),
        bytes=sum(each.bytes for each in sent),
        repeated=sum(each.repeated for each in sent),
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
