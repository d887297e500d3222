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
        "Name servers as `host:port;host:port`; by default the ones in the driver's "
        "`NAMESRV_ADDR`, or else `127.0.0.1:9876`.",
        "",
        ("namesrvAddr", "nameServers", "kafka.bootstrap.servers"),
    ),
    Option("encoding", "`msgpack`; `json` or `rocketmq` for a real RocketMQ.", "msgpack"),
    Option("timeoutMs", "How long to wait for an answer.", "10000", ("pullTimeoutMs",)),
    Option(
        "retries",
        "How often a request that was not answered is repeated; streams wait as long "
        "for a broker or for all name servers to come back.",
        "5",
        ("fetchOffset.numRetries",),
    ),
    Option(
        "retryIntervalMs",
        "Wait before the first repetition; each next wait is longer by the same time.",
        "500",
        ("fetchOffset.retryIntervalMs",),
    ),
    Option(
        "advertise",
        "Addresses at which driver and executors reach brokers, if the registered ones "
        "do not work there: `told=reached,...`, hosts or hosts with ports.",
    ),
    Option(
        "tls",
        "Whether connections speak TLS. By default the driver's `POCKETMQ_TLS` "
        "decides; with `tlsCaFile` or `tlsServerName` it is `true`.",
    ),
    Option(
        "tlsCaFile",
        "PEM file of the CA of the servers' certificates, on driver and executors; by "
        "default the driver's `POCKETMQ_TLS_CA_FILE`. Without one any server is taken.",
    ),
    Option("tlsServerName", "Name that servers' certificates must be for."),
    Option(
        "memberSecretFile",
        "File with the secret of a cluster whose members must prove who they are, on driver and "
        "executors; by default the driver's `POCKETMQ_MEMBER_SECRET_FILE`.",
    ),
)

WHAT: Final = (
    Option("topic", "Topics to read, separated by commas.", "", ("subscribe",)),
    Option(
        "subscribePattern",
        "A regular expression that whole topic names match. Topics of the cluster "
        "itself (half and delayed messages, traces, replies) are read only if the "
        "expression has their name; retries and dead letters only if it has `%RETRY%` "
        "or `%DLQ%`.",
    ),
    Option("assign", f"Queues to read, as `{offsets.ASSIGN_EXAMPLE}`."),
)
WHAT_NAMES: Final = ("topic", "subscribePattern", "assign")

READ: Final = (
    *COMMON,
    *WHAT,
    Option(
        "startingOffsets",
        "`earliest`, `latest`, `group:NAME` (a group's consumer offsets), or "
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
        "`error` or `latest`: what to do if no message is stored at that time or later.",
        "error",
    ),
    Option("failOnDataLoss", "Whether to fail when offsets are not stored any more.", "true"),
    Option("minPartitions", "Minimum number of tasks; queues are split for it.", "1"),
    Option("maxRecordsPerPartition", "Maximum messages of a task; queues are split for it."),
    Option(
        "minRecordsPerPartition",
        "Streams: queues share a task until it has about so many messages, as most of a small "
        "batch's time goes into starting tasks; 1 for a task for each queue.",
        "1000",
    ),
    Option("tags", "Tags to read, as in a subscription: `TagA || TagB`.", "", ("subExpression",)),
    Option(
        "sql",
        "An SQL92 expression on properties, as in a subscription: `a > 5 AND b = 'x'`. Brokers "
        "filter by it, if they have `enablePropertyFilter`; not together with `tags`.",
    ),
    Option("columns", "Columns to make, separated by commas; others take no time."),
    Option("includeProperties", "Whether column `properties` is there.", "true"),
    Option("kafkaCompatible", "Whether columns are those of the Kafka connector.", "false"),
    Option("includeHeaders", "Whether `kafkaCompatible` has column `headers`.", "false"),
    Option("mode", "`FAILFAST`, or `PERMISSIVE` to skip and count broken bodies.", "FAILFAST"),
    Option("maxBodyBytes", "Maximum size of a compressed body once decompressed.", "4194304"),
    Option("dedupe", "Whether to drop messages that the sink sent a second time.", "false"),
    Option(
        "dedupeWindow",
        "Streams: messages before a batch that are read again to recognise repeats.",
        "10000",
    ),
    Option("groupId", "Group to pull as, without joining it.", "", ("group", "kafka.group.id")),
    Option("groupIdPrefix", "The same, with a generated suffix.", "", ()),
    Option("commitGroup", "Streams: group under which progress is committed to the brokers."),
    Option("maxOffsetsPerTrigger", "Streams: maximum messages of a batch.", "", ("maxRows",)),
    Option("minOffsetsPerTrigger", "Streams: wait for this many messages.", "", ("minRows",)),
    Option("maxTriggerDelay", "Streams: longest wait for `minOffsetsPerTrigger`.", "15m"),
    Option("pullBatchSize", "Maximum messages of one request.", "256"),
    Option("maxRecordsPerBatch", "Maximum rows of an Arrow record batch.", "16384"),
)

WRITE: Final = (
    *COMMON,
    Option("topic", "Topic to send to; without it, the row's column `topic`."),
    Option("tagColumn", "Column with the tag.", "tags"),
    Option("keyColumns", "Columns with keys, separated by commas.", "keys"),
    Option("batchRows", "Maximum messages of one send.", "256", ("batchSize",)),
    Option("batchBytes", "Maximum bytes of one send.", "1048576"),
    Option("inFlight", "Sends of a task that may be unanswered at a time.", "8"),
    Option("producerGroup", "Group to send as.", GROUP_PREFIX, ("groupId", "group")),
    Option(
        "badRowsPath",
        "Folder of a Parquet table for rows that cannot be sent (no body, too large, unknown "
        "topic); without it and `badRowsTopic` the first of them ends the job.",
    ),
    Option("badRowsTopic", "Topic for them instead: a JSON message each."),
    Option("waitStoreOk", "Whether an answer waits for what the flush mode guarantees.", "true"),
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
            raise options.error("advertise", f"{pair!r} is not written as told=reached")
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
