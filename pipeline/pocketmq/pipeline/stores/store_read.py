"""Which parts a read of store directories has, and the rows of one: no broker, no Spark."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pocketmq.pipeline.errors import OptionError, StoreAwayError
from pocketmq.pipeline.options import schema
from pocketmq.pipeline.options.options import Option, Options
from pocketmq.pipeline.options.row_filter import RowFilter

if TYPE_CHECKING:
    from pocketmq.pipeline.stores.places import Place
    from pocketmq.pipeline.stores.store_roots import Root

NAME: Final = "pocketmq-store"

OPTIONS: Final = (
    Option(
        "path",
        "Store directories, separated by commas. You can also pass them to `load()`.",
        "",
        ("paths",),
    ),
    Option(
        "storageOptions",
        "For paths such as `s3://bucket/broker-a`: options of fsspec's file system, as JSON.",
    ),
    Option("table", "What to read: `messages`, `consumequeue`, `index` or `offsets`.", "messages"),
    Option("topic", "Topics to read, separated by commas. The default is all.", "", ("topics",)),
    Option("tags", "Tags to read, as in a subscription: `TagA || TagB`.", "", ("subExpression",)),
    Option(
        "mode",
        "`FAILFAST` stops at a broken record and names its file and position. `PERMISSIVE` skips "
        "and counts broken records.",
        "FAILFAST",
    ),
    Option("columns", "The columns to read, separated by commas. Fewer columns take less time."),
    Option("includeProperties", "Whether to read the column `properties`.", "true"),
    Option(
        "brokerName", "Value of the column `brokerName` for each path. The default is the path."
    ),
    Option(
        "verifyCrc",
        "Whether to check the CRC of each body. A record with a wrong CRC counts as a broken "
        "record (see `mode`).",
        "false",
    ),
    Option("maxBodyBytes", "Maximum size of a body after decompression.", "4194304"),
    Option(
        "scan",
        "`consumequeue` reads the messages that consumers can see. `commitlog` reads "
        "all messages of the log. `auto` means `consumequeue`, or `commitlog` if the "
        "store has no queues.",
        "auto",
    ),
    Option("minPartitions", "Minimum number of tasks.", "1"),
    Option("partitionBytes", "Number of bytes of the log that one task reads.", "134217728"),
    Option("startingOffsets", "Streams: where to begin, `earliest` or `latest`.", "earliest"),
    Option(
        "streamBy",
        "Streams: `files` reads a file of the log only after the file is full. "
        "`queues` also reads the newest messages.",
        "files",
    ),
    Option(
        "maxFilesPerTrigger", "Streams with `streamBy=files`: maximum number of files in a batch."
    ),
    Option(
        "maxOffsetsPerTrigger",
        "Streams with `streamBy=queues`: maximum number of messages in a batch.",
    ),
    Option(
        "failOnDataLoss",
        "Streams: whether to stop when files or messages were deleted before they were read.",
        "true",
    ),
    Option(
        "indexSlots",
        "Number of hash slots in an index file. The default is a quarter of the number of entries.",
    ),
)

TABLES: Final = {
    "messages": schema.MESSAGE,
    "consumequeue": schema.CONSUME_QUEUE,
    "index": schema.INDEX,
    "offsets": schema.OFFSETS,
}


class StoreSettings:
    """The options of one read, checked.

    Raises:
        OptionError: An option has an unknown name or a wrong value.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        options = Options(NAME, given, OPTIONS)
        self.table = options.choice("table", tuple(TABLES))
        self.mode = options.choice("mode", ("FAILFAST", "PERMISSIVE"))
        self.scan = options.choice("scan", ("auto", "consumequeue", "commitlog"))
        self.paths = options.words("path")
        self.storage: tuple[tuple[str, str], ...] = ()
        if "storageOptions" in options:
            given_storage = options.json_object("storageOptions", '{"anon":true}')
            self.storage = tuple((name, json.dumps(each)) for name, each in given_storage.items())
        self.broker_names = options.words("brokerName")
        self.topics = options.words("topic")
        self.tags = [tag for part in options.text("tags").split("||") if (tag := part.strip())]
        self.verify_crc = options.flag("verifyCrc")
        self.max_body_bytes = options.number("maxBodyBytes", least=1, most=schema.MOST_BODY_BYTES)
        self.least_parts = options.number("minPartitions", least=1)
        self.part_bytes = options.number("partitionBytes", least=1)
        self.index_slots = options.number_or_none("indexSlots", least=1)
        starts = options.choice("startingOffsets", ("earliest", "latest"))
        self.starts_earliest = starts == "earliest"
        self.stream_by = options.choice("streamBy", ("files", "queues"))
        self.max_files = options.number_or_none("maxFilesPerTrigger", least=1)
        self.max_rows = options.number_or_none("maxOffsetsPerTrigger", least=1)
        self.fail_on_data_loss = options.flag("failOnDataLoss")
        self.columns = schema.chosen(options, TABLES[self.table])
        if not options.flag("includeProperties"):
            self.columns.pop("properties", None)
        if self.tags == ["*"]:
            self.tags = []
        self.options = options


def find_stores(settings: StoreSettings) -> list[Root]:
    """The stores that the options name.

    Raises:
        OptionError: A path is no store, or there are not as many names as paths.
    """
    from pocketmq.pipeline.stores.store_roots import find_roots

    return find_roots(settings.paths, settings.broker_names, NAME, settings.storage)


def plan(settings: StoreSettings, row_filter: RowFilter) -> list[Any]:
    """Sections of the log, or of the table's files."""
    from pocketmq.pipeline.stores import store_plan, store_tables

    roots = find_stores(settings)

    def wrong_topic(problem: str, **more: Any) -> OptionError:
        return settings.options.error("topic", problem, **more)

    parts: list[Any] = []
    # The other tables have no topics.
    if settings.table in ("messages", "consumequeue"):
        store_plan.check_topics(roots, settings.topics, wrong_topic)
    for root in roots:
        if settings.table == "index":
            parts += store_tables.plan_index(root, slots=settings.index_slots, part_rows=2_000_000)
        elif settings.table == "offsets":
            parts.append(root)
        # A store without queues, for example when only the log is left.
        elif settings.table == "messages" and _walks(settings, root):
            parts += store_plan.plan_log(root)
        else:
            parts += store_plan.plan_queues(
                root,
                store_plan.choose_queues(root, settings.topics, row_filter),
                row_filter,
                part_bytes=settings.part_bytes,
                least_parts=settings.least_parts,
                slots=settings.index_slots,
            )
    return parts


def check_here(root: Place) -> None:
    """Make sure, on a worker, that a store which the driver found is here too.

    Raises:
        StoreAwayError: It is not.
    """
    # Otherwise an executor that lacks the folder would read an empty store and report nothing.
    if not root.is_folder():
        advice = (
            "a local path must be on every executor: mount or copy it there"
            if str(root).startswith("/")
            else "each process has its own memory"
        )
        raise StoreAwayError(
            NAME,
            "path",
            f"{root} does not exist on {socket.gethostname()}, where this task runs, but exists "
            f"on the driver; {advice}, or use a path such as s3://",
        )


def _walks(settings: StoreSettings, root: Any) -> bool:
    from pocketmq.pipeline.stores.store_files import queues_of

    if settings.scan == "auto":
        # The first queue is enough to know; a store may have thousands.
        return next(queues_of(root.path), None) is None
    return settings.scan == "commitlog"


def batches(
    settings: StoreSettings, columns: dict[str, str], row_filter: RowFilter, part: Any
) -> Iterator[Any]:
    """The rows of one part as Arrow record batches.

    Raises:
        StoreAwayError: The store is not on this machine.
    """
    check_here(part.path if settings.table == "offsets" else part.root)
    from pocketmq.pipeline.columns.arrow import Shape
    from pocketmq.pipeline.stores import store_tables
    from pocketmq.pipeline.stores.store_scan import Scan

    if settings.table == "consumequeue":
        return store_tables.queue_batches(part, columns)
    if settings.table == "index":
        return store_tables.index_batches(part, columns)
    if settings.table == "offsets":
        return store_tables.offset_batches(part.path, part.broker_name, columns)
    shape = Shape(columns, settings.max_body_bytes, settings.verify_crc)
    permissive = settings.mode == "PERMISSIVE"
    return Scan(shape, row_filter, permissive, settings.topics).batches(part)
