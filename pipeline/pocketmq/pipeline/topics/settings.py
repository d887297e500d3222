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
        "Addresses of the name servers, as `host:port;host:port`. The default is the "
        "value of `NAMESRV_ADDR` on the driver, or else `127.0.0.1:9876`.",
        "",
        ("namesrvAddr", "nameServers", "kafka.bootstrap.servers"),
    ),
    Option(
        "encoding",
        "Encoding of requests' headers: `msgpack` for PocketMQ, `json` or `rocketmq` "
        "for a real RocketMQ.",
        "msgpack",
    ),
    Option(
        "timeoutMs",
        "Maximum time that a request waits for its answer.",
        "10000",
        ("pullTimeoutMs",),
    ),
    Option(
        "retries",
        "Maximum number of times that a request without an answer is repeated. So a "
        "stream can wait until a broker or a name server is back.",
        "5",
        ("fetchOffset.numRetries",),
    ),
    Option(
        "retryIntervalMs",
        "Time before a request is repeated for the first time. Each further wait is longer "
        "by the same time. With `500`, the waits are 500, 1000, 1500 ms and so on.",
        "500",
        ("fetchOffset.retryIntervalMs",),
    ),
    Option(
        "advertise",
        "Use this if driver and executors cannot reach brokers at their registered "
        "addresses. It is a list of pairs `registered=reachable,...`. In a pair, both "
        "addresses are hosts, or both are hosts with ports.",
    ),
    Option(
        "tls",
        "Whether connections use TLS. The default is `true` if `tlsCaFile` or "
        "`tlsServerName` is set, or else the value of `POCKETMQ_TLS` on the driver.",
    ),
    Option(
        "tlsCaFile",
        "PEM file of the CA that signed the servers' certificates. The file must be on "
        "the driver and on executors. The default is the value of "
        "`POCKETMQ_TLS_CA_FILE` on the driver. Without a CA file and without "
        "`tlsServerName`, certificates are not checked.",
    ),
    Option("tlsServerName", "The name that the certificate of each server must have."),
    Option(
        "memberSecretFile",
        "File with the cluster's secret. Set it if the cluster accepts only clients that "
        "prove that they know this secret. The file must be on the driver and on executors. The "
        "default is the value of `POCKETMQ_MEMBER_SECRET_FILE` on the driver.",
    ),
)

WHAT: Final = (
    Option("topic", "Topics to read, separated by commas.", "", ("subscribe",)),
    Option(
        "subscribePattern",
        "Regular expression that must match the whole topic name. Retry topics match only if the "
        "expression contains `%RETRY%`, and dead letter topics only if it contains `%DLQ%`. A "
        "system topic matches only if the expression contains its name.",
    ),
    Option("assign", f"Queues to read, as `{offsets.ASSIGN_EXAMPLE}`."),
)
WHAT_NAMES: Final = ("topic", "subscribePattern", "assign")

READ: Final = (
    *COMMON,
    *WHAT,
    Option(
        "startingOffsets",
        "Where to begin: `earliest`, `latest`, `group:NAME` (the offsets of this consumer group), "
        f"or an offset for each queue, as `{offsets.EXAMPLE}`. In this form, -2 means the earliest "
        "offset, and -1 means the end. The default is `earliest` for batches and `latest` for "
        "streams.",
    ),
    Option(
        "endingOffsets",
        "Where a batch ends. The possible values are the same as for "
        "`startingOffsets`, without `earliest`.",
        "latest",
    ),
    Option("startingTimestamp", "Begin with the first message stored at this epoch ms or later."),
    Option("endingTimestamp", "End before the first message stored at this epoch ms or later."),
    Option(
        "startingOffsetsByTimestamp",
        "A starting timestamp for each queue, as JSON in the form of `startingOffsets`.",
    ),
    Option(
        "endingOffsetsByTimestamp",
        "An ending timestamp for each queue, as JSON in the form of `endingOffsets`.",
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        "What to do if a queue has no message from the starting timestamp or later. "
        "`error` ends the read with an error. `latest` begins at the end of the queue.",
        "error",
    ),
    Option(
        "failOnDataLoss",
        "Whether to stop when messages were deleted before they were read.",
        "true",
    ),
    Option(
        "minPartitions",
        "Minimum number of tasks. If necessary, several tasks read parts of one queue.",
        "1",
    ),
    Option(
        "maxRecordsPerPartition",
        "Maximum number of messages in a task. If necessary, several tasks read parts "
        "of one queue.",
    ),
    Option(
        "minRecordsPerPartition",
        "Streams: a task reads several queues until it has about this number of "
        "messages, because it takes time to start a task. With 1, each queue has its "
        "own task.",
        "1000",
    ),
    Option("tags", "Tags to read, as in a subscription: `TagA || TagB`.", "", ("subExpression",)),
    Option(
        "sql",
        "SQL92 filter on properties, as in a subscription: `a > 5 AND b = 'x'`. "
        "Brokers accept the filter only if their option `enablePropertyFilter` is true. You cannot "
        "combine `sql` with `tags`.",
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
    Option(
        "dedupe",
        "Whether to drop messages that PocketMQ's Spark sink sent a second time.",
        "false",
    ),
    Option(
        "dedupeWindow",
        "Streams with `dedupe`: before each batch, the stream reads this number of earlier "
        "messages of a queue again, to find messages that were sent twice.",
        "10000",
    ),
    Option(
        "groupId",
        "Group name that pull requests contain. The read does not join this group.",
        "",
        ("group", "kafka.group.id"),
    ),
    Option("groupIdPrefix", "Prefix of a generated `groupId`.", "", ()),
    Option(
        "commitGroup",
        "Streams: a consumer group. After each batch, the stream commits its offsets for this "
        "group on the brokers, so that tools see the stream's lag.",
    ),
    Option(
        "maxOffsetsPerTrigger", "Streams: maximum number of messages in a batch.", "", ("maxRows",)
    ),
    Option(
        "minOffsetsPerTrigger",
        "Streams: minimum number of messages in a batch. A batch waits until there are "
        "enough messages.",
        "",
        ("minRows",),
    ),
    Option(
        "maxTriggerDelay",
        "Streams: maximum time that a batch waits for `minOffsetsPerTrigger`.",
        "15m",
    ),
    Option("pullBatchSize", "Maximum number of messages that one pull request asks for.", "256"),
    Option("maxRecordsPerBatch", "Maximum number of rows in an Arrow record batch.", "16384"),
)

WRITE: Final = (
    *COMMON,
    Option(
        "topic",
        "Topic to which all rows are sent. Without this option, the column `topic` "
        "names the topic of each row.",
    ),
    Option("tagColumn", "The column with the message's tag.", "tags"),
    Option("keyColumns", "The columns with the message's keys, separated by commas.", "keys"),
    Option("batchRows", "Maximum number of messages in one send.", "256", ("batchSize",)),
    Option("batchBytes", "Maximum size of one send, in bytes.", "1048576"),
    Option(
        "inFlight",
        "Maximum number of sends of one task that wait for answers at the same time.",
        "8",
    ),
    Option("producerGroup", "Producer group of the sends.", GROUP_PREFIX, ("groupId", "group")),
    Option(
        "badRowsPath",
        "Folder for a Parquet table of the rows that cannot be sent, for example "
        "because they have no body or are too large. Without `badRowsPath` and "
        "`badRowsTopic`, the job ends at the first such row.",
    ),
    Option(
        "badRowsTopic",
        "Topic for rows that cannot be sent. Each such row becomes a message with a JSON body.",
    ),
    Option(
        "waitStoreOk",
        "Whether the broker answers a send only after it has stored the message as "
        "safely as its flush mode requires.",
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
            raise options.error("advertise", f"{pair!r} must have the form registered=reachable")
        # A host alone keeps the broker's own port, so neither side may have one.
        if has_port(told.strip()) != has_port(reached.strip()):
            raise options.error(
                "advertise", f"{pair!r} must have a port on both sides of the = or on neither side"
            )
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
            raise options.error(
                "endingOffsets", "a read cannot end at the earliest message; choose a later end"
            )
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
                raise self.options.error(name, "the value names no group; write 'group:NAME'")
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
