"""The options of the data source `pocketmq`, read side and write side, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pocketmq.pipeline import offsets, schema
from pocketmq.pipeline.cluster_client import Access
from pocketmq.pipeline.offsets import EARLIEST, LATEST, Position
from pocketmq.pipeline.options import Option, Options
from pocketmq.pipeline.pull_range import PullOptions
from pocketmq.protocol.message import MessageQueue
from pocketmq.protocol.subscription import SUB_ALL

NAME: Final = "pocketmq"
GROUP_PREFIX: Final = "spark-pocketmq"

COMMON: Final = (
    Option(
        "nameServer",
        "Name servers as `host:port;host:port`.",
        "",
        ("namesrvAddr", "nameServers", "kafka.bootstrap.servers"),
    ),
    Option("encoding", "`msgpack`; `json` or `rocketmq` for a real RocketMQ.", "msgpack"),
    Option("timeoutMs", "How long to wait for an answer.", "10000", ("pullTimeoutMs",)),
    Option("retries", "How often a request that was not answered is repeated.", "5"),
)

WHAT: Final = (
    Option("topic", "Topics to read, separated by commas.", "", ("subscribe",)),
    Option("subscribePattern", "A regular expression that whole topic names match."),
    Option("assign", f"Queues to read, as `{offsets.ASSIGN_EXAMPLE}`."),
)
WHAT_NAMES: Final = ("topic", "subscribePattern", "assign")

READ: Final = (
    *COMMON,
    *WHAT,
    Option(
        "startingOffsets",
        "`earliest`, `latest`, `group:NAME` (where a group goes on), or "
        f"`{offsets.EXAMPLE}`; -2 is the earliest, -1 the end. Batches begin with the earliest, "
        "streams with the latest.",
    ),
    Option("endingOffsets", "The same for a batch's end, without `earliest`.", "latest"),
    Option("startingTimestamp", "Begin with the first message stored at this epoch ms or later."),
    Option("endingTimestamp", "End before the first message stored at this epoch ms or later."),
    Option("startingOffsetsByTimestamp", "The same by queue, in the shape of `startingOffsets`."),
    Option("endingOffsetsByTimestamp", "The same by queue, in the shape of `endingOffsets`."),
    Option(
        "startingOffsetsByTimestampStrategy",
        "`error` or `latest`: what if no message is that young.",
        "error",
    ),
    Option("failOnDataLoss", "Whether to fail when offsets are not stored any more.", "true"),
    Option("minPartitions", "At least so many tasks; queues are split for it.", "1"),
    Option("tags", "Tags to read, as in a subscription: `TagA || TagB`.", "", ("subExpression",)),
    Option("columns", "Columns to make, separated by commas; others cost nothing."),
    Option("includeProperties", "Whether column `properties` is there.", "true"),
    Option("kafkaCompatible", "Columns as the Kafka connector's.", "false"),
    Option("includeHeaders", "Whether `kafkaCompatible` has column `headers`.", "false"),
    Option("mode", "`FAILFAST`, or `PERMISSIVE` to skip and count broken bodies.", "FAILFAST"),
    Option("maxBodyBytes", "How far a compressed body may grow.", "4194304"),
    Option("dedupe", "Drop what our sink sent a second time.", "false"),
    Option(
        "dedupeWindow",
        "Streams: messages before a batch that are read again for what they say of repeats.",
        "10000",
    ),
    Option("groupId", "Group to pull as; it is not joined.", "", ("group", "kafka.group.id")),
    Option("groupIdPrefix", "The same, with a name of ours behind it.", "", ()),
    Option("commitGroup", "Streams: group under which progress is committed to the brokers."),
    Option("maxOffsetsPerTrigger", "Streams: most messages of a batch.", "", ("maxRows",)),
    Option("minOffsetsPerTrigger", "Streams: wait for so many messages.", "", ("minRows",)),
    Option("maxTriggerDelay", "Streams: but no longer than this.", "15m"),
    Option("pullBatchSize", "Messages to ask for in one request.", "256"),
    Option("maxRecordsPerBatch", "Most rows of an Arrow record batch.", "16384"),
)

WRITE: Final = (
    *COMMON,
    Option("topic", "Where to send; without it column `topic` says it."),
    Option("tagColumn", "Column with the tag.", "tags"),
    Option("keyColumns", "Columns with keys, separated by commas.", "keys"),
    Option("batchRows", "Most messages of one send.", "256", ("batchSize",)),
    Option("batchBytes", "Most bytes of one send.", "1048576"),
    Option("inFlight", "Sends under way at a time, for a task.", "8"),
    Option("producerGroup", "Group to send as.", GROUP_PREFIX, ("groupId", "group")),
    Option("waitStoreOk", "Whether an answer waits for what the flush mode promises.", "true"),
)


def access_of_text(source: str, name_servers: str) -> Access:
    """How to reach a cluster that is given as text.

    Raises:
        OptionError: A name server's address is none.
    """
    return access_of(Options(source, {"nameServer": name_servers}, COMMON))


def access_of(options: Options) -> Access:
    """How to reach the cluster.

    Raises:
        OptionError: A name server's address is none.
    """
    text = options.required("nameServer", "127.0.0.1:9876")
    addresses = tuple(part.strip() for part in text.replace(",", ";").split(";") if part.strip())
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise options.error("nameServer", f"{address!r} is not written as host:port")
    return Access(
        options.source,
        addresses,
        options.choice("encoding", ("msgpack", "json", "rocketmq")),
        options.number("timeoutMs", least=1) / 1000,
    )


class ReadSettings:
    """The options of one read.

    Raises:
        OptionError: One of them is wrong.
    """

    def __init__(self, given: Mapping[str, str], *, streaming: bool = False) -> None:
        options = self.options = Options(NAME, given, READ)
        self.access = access_of(options)
        self.what = options.exactly_one(WHAT_NAMES)
        self.topics = options.words("topic")
        self.pattern = options.text("subscribePattern")
        self.assigned: list[MessageQueue] = []
        if self.what == "assign":
            self.assigned = offsets.parse_assignment(options, "assign")
        if options.flag("kafkaCompatible"):
            known = dict(schema.KAFKA)
            if not options.flag("includeHeaders"):
                known.pop("headers")
        else:
            known = dict(schema.MESSAGE)
            if not options.flag("includeProperties"):
                known.pop("properties")
        self.known_columns = known
        self.columns = schema.chosen(options, known)
        self.permissive = options.choice("mode", ("FAILFAST", "PERMISSIVE")) == "PERMISSIVE"
        self.max_body_bytes = options.number("maxBodyBytes", least=1)
        self.least_parts = options.number("minPartitions", least=1)
        self.batch_rows = options.number("maxRecordsPerBatch", least=1)
        self.dedupe = options.flag("dedupe")
        self.dedupe_window = options.number("dedupeWindow") if streaming else 0
        self.commit_group = options.text("commitGroup")
        self.max_rows = options.number_or_none("maxOffsetsPerTrigger", least=1)
        self.min_rows = options.number_or_none("minOffsetsPerTrigger", least=1)
        self.max_delay_ms = options.duration_ms("maxTriggerDelay")
        self.start = self._start(LATEST if streaming else EARLIEST)
        self.end = self._end()
        tags = [tag for part in options.text("tags").split("||") if (tag := part.strip())]
        self.tags = [] if tags == [SUB_ALL] else tags
        group = options.text("groupId") or self.commit_group
        prefix = options.text("groupIdPrefix")
        self.pull = PullOptions(
            group=group or (f"{prefix}-{GROUP_PREFIX}" if prefix else GROUP_PREFIX),
            batch=options.number("pullBatchSize", least=1),
            timeout_s=self.access.timeout_s,
            retries=options.number("retries"),
            expression=" || ".join(self.tags) or SUB_ALL,
            fail_on_data_loss=options.flag("failOnDataLoss"),
        )

    def _start(self, default: int) -> Position:
        options = self.options
        must_exist = options.choice("startingOffsetsByTimestampStrategy", ("error", "latest")) == (
            "error"
        )
        if "startingTimestamp" in options:
            moment = options.number("startingTimestamp")
            return Position("startingTimestamp", moment_ms=moment, must_exist=must_exist)
        if "startingOffsetsByTimestamp" in options:
            moments = offsets.parse(options, "startingOffsetsByTimestamp")
            return Position(
                "startingOffsetsByTimestamp", default, moments_ms=moments, must_exist=must_exist
            )
        return self._offsets("startingOffsets", default, EARLIEST)

    def _end(self) -> Position:
        options = self.options
        if "endingTimestamp" in options:
            moment = options.number("endingTimestamp")
            return Position("endingTimestamp", LATEST, moment_ms=moment, must_exist=False)
        if "endingOffsetsByTimestamp" in options:
            moments = offsets.parse(options, "endingOffsetsByTimestamp")
            return Position(
                "endingOffsetsByTimestamp", LATEST, moments_ms=moments, must_exist=False
            )
        end = self._offsets("endingOffsets", LATEST, LATEST)
        if end.default == EARLIEST or EARLIEST in end.offsets.values():
            raise options.error("endingOffsets", "a read cannot end with the earliest message")
        return end

    def _offsets(self, name: str, default: int, unnamed: int) -> Position:
        text = self.options.text(name)
        if not text:
            return Position(name, default)
        word = text.lower()
        if word in ("earliest", "latest"):
            return Position(name, EARLIEST if word == "earliest" else LATEST)
        if word.startswith("group:"):
            group = text[len("group:") :].strip()
            if not group:
                raise self.options.error(name, "names no group; it looks like 'group:NAME'")
            return Position(name, default, group=group)
        if not text.startswith("{"):
            found = near_position(text)
            problem = f"{text!r} is neither earliest, latest, group:NAME nor JSON such as "
            raise self.options.error(name, problem + offsets.EXAMPLE, near=found)
        return Position(name, unnamed, offsets=offsets.parse(self.options, name))


def near_position(text: str) -> list[str]:
    """The word that was perhaps meant."""
    from pocketmq.pipeline.errors import near

    return near(text, ("earliest", "latest"))
