"""Declares and checks the options of the data source `pocketmq`, for reads and writes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from pocketmq.client.config import NAMESRV_ADDR, member_secret_path, trusting
from pocketmq.pipeline.options import offsets, schema
from pocketmq.pipeline.options.offsets import EARLIEST, LATEST, Position
from pocketmq.pipeline.options.options import Option, Options
from pocketmq.pipeline.topics.cluster_client import Access, Tls
from pocketmq.pipeline.topics.patience import Patience
from pocketmq.pipeline.topics.pull_range import PullOptions
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.subscription import SUB_ALL
from pocketmq.runtime.addresses import as_written, has_port
from pocketmq.runtime.errors import ConfigError

NAME: Final = "pocketmq"
NAME_SERVER: Final = "127.0.0.1:9876"
"""Where no address is given anywhere."""
GROUP_PREFIX: Final = "spark-pocketmq"

COMMON: Final = (
    Option(
        "nameServer",
        "Name servers as `host:port;host:port`. The default is the driver's "
        "`NAMESRV_ADDR`, or else `127.0.0.1:9876`.",
        "",
        ("namesrvAddr", "nameServers", "kafka.bootstrap.servers"),
    ),
    Option(
        "encoding",
        "How headers are written: `msgpack`, or `json` or `rocketmq` for a real RocketMQ.",
        "msgpack",
    ),
    Option("timeoutMs", "How long a request waits for its answer.", "10000", ("pullTimeoutMs",)),
    Option(
        "retries",
        "How often an unanswered request is repeated. A stream waits in the same way for a broker "
        "or for the name servers to come back.",
        "5",
        ("fetchOffset.numRetries",),
    ),
    Option(
        "retryIntervalMs",
        "Wait before the first repetition. Each following wait is longer by the same time.",
        "500",
        ("fetchOffset.retryIntervalMs",),
    ),
    Option(
        "advertise",
        "Other addresses of brokers, if driver and executors cannot use the registered ones: "
        "`registered=reachable,...`. Both sides are hosts, or hosts with ports.",
    ),
    Option(
        "tls",
        "Whether connections use TLS. The default is the driver's `POCKETMQ_TLS`, or `true` if "
        "`tlsCaFile` or `tlsServerName` is set.",
    ),
    Option(
        "tlsCaFile",
        "PEM file of the CA that signed the servers' certificates, on driver and executors. The "
        "default is the driver's `POCKETMQ_TLS_CA_FILE`. Without a CA, certificates are not "
        "checked.",
    ),
    Option("tlsServerName", "The name that servers' certificates must have."),
    Option(
        "memberSecretFile",
        "File with the cluster's secret, on driver and executors. You need it if members must "
        "prove who they are. The default is the driver's `POCKETMQ_MEMBER_SECRET_FILE`.",
    ),
)

WHAT: Final = (
    Option("topic", "Topics to read, separated by commas.", "", ("subscribe",)),
    Option(
        "subscribePattern",
        "Regular expression that matches whole topic names. It must contain the name of a system "
        "topic to match this topic. It must contain `%RETRY%` or `%DLQ%` to match retry or dead "
        "letter topics.",
    ),
    Option("assign", f"Queues to read, as `{offsets.ASSIGN_EXAMPLE}`."),
)
WHAT_NAMES: Final = ("topic", "subscribePattern", "assign")

READ: Final = (
    *COMMON,
    *WHAT,
    Option(
        "startingOffsets",
        "Where to begin: `earliest`, `latest`, `group:NAME` (a group's consumer offsets), or "
        f"`{offsets.EXAMPLE}`, where -2 is the earliest offset and -1 the end. The default is "
        "`earliest` for batches and `latest` for streams.",
    ),
    Option(
        "endingOffsets",
        "Where a batch ends: the values of `startingOffsets`, without `earliest`.",
        "latest",
    ),
    Option("startingTimestamp", "Begin with the first message stored at this epoch ms or later."),
    Option("endingTimestamp", "End before the first message stored at this epoch ms or later."),
    Option(
        "startingOffsetsByTimestamp",
        "A starting timestamp for each queue, as JSON like in `startingOffsets`.",
    ),
    Option(
        "endingOffsetsByTimestamp",
        "An ending timestamp for each queue, as JSON like in `endingOffsets`.",
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        "What to do if no message is stored at the starting timestamp or later: end with an "
        "`error`, or begin at the `latest` offset.",
        "error",
    ),
    Option(
        "failOnDataLoss",
        "Whether to stop when messages were deleted before they were read.",
        "true",
    ),
    Option("minPartitions", "Minimum number of tasks. Queues are split if necessary.", "1"),
    Option("maxRecordsPerPartition", "Maximum messages of a task. Queues are split if necessary."),
    Option(
        "minRecordsPerPartition",
        "Streams: queues share a task until it has about this many messages, because starting a "
        "task takes time. 1 gives each queue its own task.",
        "1000",
    ),
    Option("tags", "Tags to read, as in a subscription: `TagA || TagB`.", "", ("subExpression",)),
    Option(
        "sql",
        "SQL92 expression on properties, as in a subscription: `a > 5 AND b = 'x'`. Brokers need "
        "`enablePropertyFilter` for it. Not together with `tags`.",
    ),
    Option("columns", "The columns to read, separated by commas. Fewer columns take less time."),
    Option("includeProperties", "Whether to read the column `properties`.", "true"),
    Option("kafkaCompatible", "Whether to name columns as the Kafka connector does.", "false"),
    Option("includeHeaders", "Whether `kafkaCompatible` also reads the column `headers`.", "false"),
    Option(
        "mode",
        "`FAILFAST` stops at a broken body. `PERMISSIVE` skips and counts broken bodies.",
        "FAILFAST",
    ),
    Option("maxBodyBytes", "Maximum size of a body after decompression.", "4194304"),
    Option("dedupe", "Whether to drop messages that the sink sent a second time.", "false"),
    Option(
        "dedupeWindow",
        "Streams: how many messages before a batch are read again to recognise repeats.",
        "10000",
    ),
    Option(
        "groupId",
        "Group name in pull requests. The read does not join the group.",
        "",
        ("group", "kafka.group.id"),
    ),
    Option("groupIdPrefix", "Prefix of a generated `groupId`.", "", ()),
    Option("commitGroup", "Streams: the group for which progress is committed to the brokers."),
    Option("maxOffsetsPerTrigger", "Streams: maximum messages of a batch.", "", ("maxRows",)),
    Option(
        "minOffsetsPerTrigger",
        "Streams: a batch waits until there are this many messages.",
        "",
        ("minRows",),
    ),
    Option("maxTriggerDelay", "Streams: longest wait for `minOffsetsPerTrigger`.", "15m"),
    Option("pullBatchSize", "Maximum messages of one pull request.", "256"),
    Option("maxRecordsPerBatch", "Maximum rows of an Arrow record batch.", "16384"),
)

WRITE: Final = (
    *COMMON,
    Option("topic", "Topic to send to. The default is the row's column `topic`."),
    Option("tagColumn", "The column with the message's tag.", "tags"),
    Option("keyColumns", "The columns with the message's keys, separated by commas.", "keys"),
    Option("batchRows", "Maximum messages of one send.", "256", ("batchSize",)),
    Option("batchBytes", "Maximum bytes of one send.", "1048576"),
    Option("inFlight", "How many sends of a task may wait for their answers at a time.", "8"),
    Option("producerGroup", "Producer group of the sends.", GROUP_PREFIX, ("groupId", "group")),
    Option(
        "badRowsPath",
        "Folder of a Parquet table for rows that cannot be sent (no body, too large, unknown "
        "topic). Without `badRowsPath` and `badRowsTopic`, the first such row ends the job.",
    ),
    Option("badRowsTopic", "Topic for rows that cannot be sent, one JSON message for each."),
    Option(
        "waitStoreOk",
        "Whether a send waits until the broker has stored the message as the flush mode says.",
        "true",
    ),
)


def access_of_text(source: str, name_servers: str) -> Access:
    """How to reach a cluster whose name servers are given as text.

    Raises:
        OptionError: An address is malformed.
    """
    return access_of(Options(source, {"nameServer": name_servers}, COMMON))


def access_of(options: Options, *, is_patient: bool = False) -> Access:
    """How to reach the cluster.

    Args:
        options: Where it is.
        is_patient: Whether unknown topics and silent name servers are waited for.

    Raises:
        OptionError: An address is malformed.
    """
    # Read on the driver: executors have another environment, and use what was found here.
    text = options.text("nameServer") or os.environ.get(NAMESRV_ADDR, "") or NAME_SERVER
    parts = (part.strip() for part in text.replace(",", ";").split(";"))
    try:
        addresses = tuple(as_written(part) for part in parts if part)
    except ValueError as exc:
        raise options.error("nameServer", str(exc)) from None
    advertised: list[tuple[str, str]] = []
    for pair in options.words("advertise"):
        told, sign, reached = pair.partition("=")
        if not told.strip() or not sign or not reached.strip():
            raise options.error("advertise", f"{pair!r} is not written as registered=reachable")
        # A host alone keeps the broker's own port, so neither side may have one.
        if has_port(told.strip()) != has_port(reached.strip()):
            raise options.error("advertise", f"{pair!r} has a port on one side only")
        advertised.append((told.strip(), reached.strip()))
    return Access(
        options.source,
        addresses,
        options.choice("encoding", ("msgpack", "json", "rocketmq")),
        options.number("timeoutMs", least=1) / 1000,
        Patience(options.number("retries"), options.number("retryIntervalMs") / 1000),
        tuple(advertised),
        is_patient,
        _tls(options),
        str(member_secret_path(options.text("memberSecretFile"), os.environ) or ""),
    )


def _tls(options: Options) -> Tls | None:
    """How connections are encrypted, by options or the environment; None if they are not."""
    name = options.text("tlsServerName")
    said = options.choice("tls", ("true", "false")) == "true" if "tls" in options else None
    try:
        speaks, ca_file = trusting(os.environ, said, options.text("tlsCaFile"), name)
    except ConfigError as exc:
        where = f" ({exc.origin})" if exc.origin else ""
        raise options.error("tls", f"{exc.problem}{where}") from None
    return Tls(str(ca_file or ""), name) if speaks else None


class ReadSettings:
    """The options of one read.

    Raises:
        OptionError: One of them is wrong.
    """

    def __init__(self, given: Mapping[str, str], *, streaming: bool = False) -> None:
        options = self.options = Options(NAME, given, READ)
        self.access = access_of(options, is_patient=streaming)
        self.what = options.exactly_one(WHAT_NAMES)
        self.topics = options.words("topic")
        self.pattern = options.text("subscribePattern")
        self.assigned: list[MessageQueue] = []
        if self.what == "assign":
            self.assigned = offsets.parse_assignment(options, "assign")
        if options.flag("kafkaCompatible"):
            known = dict(schema.KAFKA)
            # The Kafka connector has headers only on demand.
            if not options.flag("includeHeaders"):
                known.pop("headers")
        else:
            known = dict(schema.MESSAGE)
            if not options.flag("includeProperties"):
                known.pop("properties")
        self.kafka_compatible = options.flag("kafkaCompatible")
        self.known_columns = known
        self.columns = schema.chosen(options, known)
        self.permissive = options.choice("mode", ("FAILFAST", "PERMISSIVE")) == "PERMISSIVE"
        self.max_body_bytes = options.number("maxBodyBytes", least=1, most=schema.MOST_BODY_BYTES)
        self.least_parts = options.number("minPartitions", least=1)
        self.most_part_rows = options.number_or_none("maxRecordsPerPartition", least=1)
        self.least_part_rows = options.number("minRecordsPerPartition", least=1)
        self.batch_rows = options.number("maxRecordsPerBatch", least=1)
        self.dedupe = options.flag("dedupe")
        # A batch query has all repeats in one task, so it need not look back.
        self.dedupe_window = options.number("dedupeWindow") if streaming else 0
        self.commit_group = options.text("commitGroup")
        self.max_rows = options.number_or_none("maxOffsetsPerTrigger", least=1)
        self.min_rows = options.number_or_none("minOffsetsPerTrigger", least=1)
        self.max_delay_ms = options.duration_ms("maxTriggerDelay")
        self.start = self._start(LATEST if streaming else EARLIEST)
        self.end = self._end()
        tags = [tag for part in options.text("tags").split("||") if (tag := part.strip())]
        # `*` means all messages, which is no filter.
        self.tags = [] if tags == [SUB_ALL] else tags
        sql = options.text("sql")
        if sql and self.tags:
            raise options.error("sql", "cannot be given together with tags")
        group = options.text("groupId") or self.commit_group
        prefix = options.text("groupIdPrefix")
        self.pull = PullOptions(
            group=group or (f"{prefix}-{GROUP_PREFIX}" if prefix else GROUP_PREFIX),
            batch=options.number("pullBatchSize", least=1),
            timeout_s=self.access.timeout_s,
            patience=self.access.patience,
            expression=sql or " || ".join(self.tags) or SUB_ALL,
            expression_type="SQL92" if sql else "TAG",
            fail_on_data_loss=options.flag("failOnDataLoss"),
        )

    def _start(self, default: int) -> Position:
        options = self.options
        must_exist = options.choice("startingOffsetsByTimestampStrategy", ("error", "latest")) == (
            "error"
        )
        # The first option given counts, in the Kafka connector's order.
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
            # A time after the last message means the queue's end.
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
    """Words similar to the value, for the error message."""
    from pocketmq.pipeline.errors import near

    return near(text, ("earliest", "latest"))
