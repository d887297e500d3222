"""Which offsets a replay's source has: a store, a table that was exported, or a topic.

    source_of("store:cluster/broker-a")         a broker's files, several separated by commas
    source_of("parquet:tables/orders")          also delta:TABLE, iceberg:FOLDER/NAMESPACE.NAME
    source_of("topic:orders", nameservers=...)  asked of the brokers

`on_spark.messages` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pocketmq.pipeline.errors import OptionError
from pocketmq.pipeline.jobs.on_spark import chosen_topics, kind_of
from pocketmq.pipeline.jobs.queue_spans import QueueSpan, Source, gone_queues
from pocketmq.pipeline.jobs.table_source import TableSource
from pocketmq.pipeline.options.offsets import Offsets
from pocketmq.pipeline.options.row_filter import RowFilter
from pocketmq.pipeline.progress.checkpoint import Checkpoint, Mark
from pocketmq.pipeline.progress.resume import marked_places, others, resume
from pocketmq.protocol.messages.message import MessageQueue

if TYPE_CHECKING:
    from pocketmq.pipeline.topics.settings import ReadSettings


def source_of(text: str, *, topics: Sequence[str] = (), nameservers: str = "") -> Source:
    """The source that `KIND:WHERE` names; without a kind, a directory is a store, else a topic.

    Args:
        text: See the module.
        topics: Only these topics; see `chosen_topics`.
        nameservers: For topics.

    Raises:
        CallerError: There is no such source, or it has other topics.
    """
    kind, where = kind_of(text)
    topics = chosen_topics(text, topics)
    if kind == "store":
        return StoreSource(where.split(","), topics)
    if kind == "topic":
        return TopicSource(where, {"nameServer": nameservers or "127.0.0.1:9876"})
    return TableSource(kind, where, topics)


def is_topic(text: str) -> bool:
    """Whether a source is read from a cluster, so that nameservers are needed."""
    return kind_of(text)[0] == "topic"


# -- stores ---------------------------------------------------------------------------------------


class StoreSource:
    """Store directories; a broker's name is that of its directory.

    Raises:
        OptionError: A path is no store, or its messages have no queues.
    """

    def __init__(self, paths: Sequence[str], topics: Sequence[str] = ()) -> None:
        from pocketmq.pipeline.stores.store_plan import check_queues
        from pocketmq.pipeline.stores.store_roots import roots_of_job

        self.roots = roots_of_job(paths)
        check_queues(self.roots, lambda problem: OptionError("store", "path", problem))
        self.topics = tuple(topics)

    def queues(self, stand: Checkpoint) -> list[QueueSpan]:
        """What is stored now."""
        from pocketmq.pipeline.progress.cut_short import cuts_by
        from pocketmq.pipeline.progress.marks import stored_mark
        from pocketmq.pipeline.stores import store_plan
        from pocketmq.pipeline.stores.store_files import log_files

        found = []
        for root in self.roots:
            chosen = store_plan.choose_queues(root, self.topics, RowFilter())
            with log_files(root.path) as log:
                slices, _ = store_plan.snapshot(root, chosen, log)
                for files, low, high in slices:
                    queue = MessageQueue(files.topic, root.broker_name, files.queue_id)
                    place = marked_places(stand, {queue: (low, high)}).get(queue, -1)
                    now = stored_mark(files, place, log)
                    # Closed at once: a store may have thousands of queues, each with a file.
                    files.row.close()
                    suspects = others(
                        stand, {queue: (low, high)}, {queue: now} if now is not None else {}
                    )
                    # Only queues that differ from the saved state are searched.
                    cut = cuts_by(self.marks, stand, suspects, {queue: low}, {queue: high})
                    begin, loss = resume(queue, stand, (low, high), now, cut.get(queue))
                    # The queue is read on even after a loss: the caller decides whether the loss is
                    # an error.
                    found.append(QueueSpan(queue, begin, high, loss))
        return found + gone_queues(found, stand, self.topics)

    def marks(self, offsets: Offsets) -> dict[MessageQueue, Mark]:
        """Read from the files."""
        from pocketmq.pipeline.progress.marks import stored_marks

        found: dict[MessageQueue, Mark] = {}
        for root in self.roots:
            here = {
                queue: at for queue, at in offsets.items() if queue.broker_name == root.broker_name
            }
            found |= stored_marks(root.path, here)
        return found


# -- topics ---------------------------------------------------------------------------------------


class TopicSource:
    """A topic, or several separated by commas, up to their present ends."""

    def __init__(self, topic: str, options: Mapping[str, str]) -> None:
        self.topic = topic
        self.options = dict(options)

    def queues(self, stand: Checkpoint) -> list[QueueSpan]:
        """Up to the present ends. A queue whose broker is away stays where it is."""
        from pocketmq.pipeline.topics.settings import ReadSettings
        from pocketmq.pipeline.workers.loop import shared_loop

        settings = ReadSettings({"topic": self.topic, **self.options})
        return shared_loop().result(_topic_queues(settings, stand))

    def marks(self, offsets: Offsets) -> dict[MessageQueue, Mark]:
        """Asked of the brokers."""
        from pocketmq.pipeline.progress.marks import read_marks
        from pocketmq.pipeline.topics.settings import ReadSettings
        from pocketmq.pipeline.workers.loop import shared_loop

        settings = ReadSettings({"topic": self.topic, **self.options})
        client = settings.access.client()
        return shared_loop().result(read_marks(client, settings.pull.group, offsets))


async def _topic_queues(settings: ReadSettings, stand: Checkpoint) -> list[QueueSpan]:
    """Each queue with the offsets that are to be read, and what is lost. On the shared loop."""
    from pocketmq.pipeline.progress import plan_reads
    from pocketmq.pipeline.progress.cut_short import cuts
    from pocketmq.pipeline.progress.marks import read_marks
    from pocketmq.pipeline.progress.missing_queues import missing_losses
    from pocketmq.pipeline.topics.cluster_client import client_on_loop

    client = client_on_loop(settings.access)
    queues = await plan_reads.find_queues(client, settings)
    bounds = await client.bounds(queues)
    # One message of each queue, however long the queue is.
    now = await read_marks(client, settings.pull.group, marked_places(stand, bounds))
    found = []
    lows = {queue: each.low for queue, each in bounds.items()}
    ends = {queue: each.high for queue, each in bounds.items()}
    suspects = others(stand, bounds, now)
    cut = await cuts(client, settings.pull.group, stand, suspects, lows, ends)
    for queue, (low, high) in bounds.items():
        begin, loss = resume(queue, stand, (low, high), now.get(queue), cut.get(queue))
        found.append(QueueSpan(queue, begin, high, loss))
    # Only of topics that are read: the saved state may know others from another run.
    missing = [
        queue for queue in stand.offsets if queue not in bounds and queue.topic in settings.topics
    ]
    lost = await missing_losses(client, stand, missing)
    return found + [QueueSpan(loss.queue, loss.wanted, loss.wanted, loss) for loss in lost]
