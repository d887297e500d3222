"""Options and offsets of `pocketmq`: what is understood, and what a mistake is told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.pipeline.errors import ColumnsError, OptionError
from pocketmq.pipeline.options import offsets
from pocketmq.pipeline.options.offsets import EARLIEST, LATEST, gathered, limited, split_ranges
from pocketmq.pipeline.options.schema import ddl
from pocketmq.pipeline.sending.sink_columns import SinkColumns
from pocketmq.pipeline.topics.cluster_client import Tls
from pocketmq.pipeline.topics.settings import READ, WRITE, ReadSettings
from pocketmq.protocol.messages.message import MessageQueue
from support.strategies import queues as any_queues

BASE = {"nameServer": "127.0.0.1:9876", "topic": "T"}


def settings(streaming: bool = False, **options: str) -> ReadSettings:
    return ReadSettings({**BASE, **options}, streaming=streaming)


def q(queue_id: int, broker: str = "a", topic: str = "T") -> MessageQueue:
    return MessageQueue(topic, broker, queue_id)


# -- names --------------------------------------------------------------------------------------


def test_names_of_kafka_and_of_rocketmq_spark_are_understood_whatever_their_case() -> None:
    found = ReadSettings(
        {
            "namesrvaddr": "a:1;b:2",
            "SUBSCRIBE": "T",
            "rocketmq.subExpression": "TagA||TagB",
            "pulltimeoutms": "3000",
            "kafka.group.id": "g",
        }
    )
    assert found.access.name_servers == ("a:1", "b:2")
    assert found.topics == ["T"]
    assert found.pull.expression == "TagA || TagB"
    assert found.access.timeout_s == 3.0
    assert found.pull.group == "g"


def test_every_option_has_a_help_line_and_no_two_share_a_name() -> None:
    for table in (READ, WRITE):
        names = [name.lower() for option in table for name in (option.name, *option.aliases)]
        assert len(names) == len(set(names))
        assert all(option.help.endswith((".", "`.")) for option in table)


@pytest.mark.parametrize(
    ("advertise", "told", "reached"),
    [
        ("a=b", "a:1", "b:1"),
        ("a:1=b:2", "a:1", "b:2"),
        ("a:1=b:2", "a:3", "a:3"),
        ("::1=fd00::7", "[::1]:1", "[fd00::7]:1"),
        ("[::1]=b", "[::1]:1", "b:1"),
        ("a=::1", "a:1", "[::1]:1"),
        ("[::1]:1=b:2", "[::1]:1", "b:2"),
        ("b:2=[::1]:1", "b:2", "[::1]:1"),
    ],
)
def test_a_broker_is_reached_where_it_is_advertised(
    advertise: str, told: str, reached: str
) -> None:
    assert settings(advertise=advertise).access.reached(told) == reached


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"maxOffsetPerTrigger": "5"}, "there is no such option; did you mean 'maxOffsetsPerTr"),
        (
            {"nameServer": "localhost"},
            "option 'nameServer': 'localhost' is not an address of the form host:port: it has no "
            "port; write localhost:PORT",
        ),
        ({"sql": "a > 1", "tags": "A"}, "option 'sql': cannot be given together with tags"),
        (
            {"tls": "false", "tlsCaFile": "ca.pem"},
            "option 'tls': tls is False, but a CA file or",
        ),
        ({"tls": "yes"}, "option 'tls': 'yes' is not one of true, false"),
        ({"assign": '{"T":{"a":[0]}}'}, "option 'topic': cannot be given together with assign"),
        ({"topic": "T", "subscribe": "U"}, "contradicts"),
        ({"advertise": "a:1"}, "option 'advertise': 'a:1' must have the form registered="),
        ({"advertise": "a:1=b"}, "option 'advertise': 'a:1=b' must have a port on both sides"),
        ({"advertise": "::1=b:2"}, "option 'advertise': '::1=b:2' must have a port on both sides"),
        ({"startingOffsets": "earliset"}, "neither earliest, latest.*did you mean 'earliest'"),
        ({"startingOffsets": "group:"}, "names no group"),
        (
            {"startingOffsets": "{"},
            "option 'startingOffsets': the value is not valid JSON .*write it like",
        ),
        ({"startingOffsets": "[1]"}, "is neither earliest"),
        ({"startingOffsets": '{"T":[1]}'}, "topic 'T' must be a JSON object"),
        ({"startingOffsets": '{"T":{"a":3}}'}, "broker 'a' of topic 'T' must be a JSON object"),
        (
            {"startingOffsets": '{"T":{"a":{"x":3}}}'},
            "queue id 'x' of broker 'a' .* must be a number",
        ),
        ({"startingOffsets": '{"T":{"a":{"0":-3}}}'}, "has the offset -3; an offset must"),
        ({"startingOffsets": '{"T":{"a":{"0":"1"}}}'}, "has the offset '1'"),
        ({"endingOffsets": "earliest"}, "option 'endingOffsets': a read cannot end at"),
        ({"endingOffsets": '{"T":{"a":{"0":-2}}}'}, "a read cannot end at"),
        ({"failOnDataLoss": "no"}, "'no' is neither true nor false"),
        ({"maxTriggerDelay": "soon"}, "'soon' is not a duration; write"),
        ({"encoding": "jsn"}, "did you mean 'json'"),
        ({"columns": "bdy"}, "there is no column 'bdy'; did you mean 'body'"),
        ({"kafkaCompatible": "true", "columns": "value,headers"}, "there is no column 'headers'"),
        ({"minPartitions": "many"}, "'many' is no whole number"),
    ],
)
def test_a_mistake_is_named_with_what_was_perhaps_meant(options: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        settings(**options)


def test_name_servers_are_those_of_the_environment_where_none_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    assert ReadSettings({"topic": "T"}).access.name_servers == ("127.0.0.1:9876",)
    monkeypatch.setenv("NAMESRV_ADDR", "a:1;b:2")
    assert ReadSettings({"topic": "T"}).access.name_servers == ("a:1", "b:2")
    assert settings(nameServer="c:3").access.name_servers == ("c:3",)


def test_tls_is_what_options_say_and_else_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POCKETMQ_TLS", raising=False)
    assert settings().access.tls is None
    assert settings(tls="true").access.tls == Tls()
    assert settings(tlsCaFile="ca.pem").access.tls == Tls("ca.pem")
    assert settings(tlsServerName="broker").access.tls == Tls("", "broker")
    monkeypatch.setenv("POCKETMQ_TLS_CA_FILE", "of-all.pem")
    assert settings(tls="true").access.tls == Tls("of-all.pem")
    assert settings(tlsServerName="broker").access.tls == Tls("of-all.pem", "broker")
    monkeypatch.setenv("POCKETMQ_TLS", "true")
    assert settings().access.tls == Tls("of-all.pem")
    assert settings(tls="false").access.tls is None
    monkeypatch.setenv("POCKETMQ_TLS", "perhaps")
    with pytest.raises(OptionError, match=r"'perhaps' is not .*POCKETMQ_TLS"):
        settings()


def test_an_sql_expression_goes_to_the_brokers() -> None:
    pull = settings(sql="a > 5 AND b = 'x'").pull
    assert (pull.expression, pull.expression_type, pull.is_filtered) == (
        *("a > 5 AND b = 'x'", "SQL92"),
        True,
    )
    assert settings(tags="A").pull.expression_type == "TAG"


def test_one_of_topic_pattern_and_assignment_must_be_given() -> None:
    with pytest.raises(OptionError, match="'topic': must be given, or one of subscribePattern"):
        ReadSettings({"nameServer": "a:1"})


def test_batches_begin_with_the_earliest_and_streams_with_the_latest() -> None:
    assert settings().start.default == EARLIEST
    assert settings(streaming=True).start.default == LATEST
    assert settings().end.default == LATEST


def test_times_come_before_times_by_queue_and_those_before_offsets() -> None:
    found = settings(startingTimestamp="5", startingOffsets="earliest").start
    assert found.moment_ms == 5
    by_queue = settings(
        startingOffsetsByTimestamp='{"T":{"a":{"0":7}}}', startingOffsets="latest"
    ).start
    assert by_queue.moments_ms == {q(0): 7}


def test_columns_follow_the_options() -> None:
    assert "properties" in settings().columns
    assert "properties" not in settings(includeProperties="false").columns
    assert list(settings(columns="body,queueid").columns) == ["body", "queueId"]
    assert ddl(settings(columns="body,queueid").columns) == "body binary, queueId int"
    assert list(settings(kafkaCompatible="true").columns)[:4] == [
        "key",
        "value",
        "topic",
        "partition",
    ]


# -- offsets ------------------------------------------------------------------------------------


@given(st.dictionaries(any_queues, st.integers(0, 2**63 - 1), max_size=8))
def test_offsets_survive_their_json(given_offsets: dict[MessageQueue, int]) -> None:
    text = offsets.to_json(given_offsets)
    assert offsets.from_tree(json.loads(text)) == given_offsets
    if given_offsets:
        options = settings(startingOffsets=text)
        assert options.start.offsets == given_offsets


ranges = st.dictionaries(
    st.integers(0, 5).map(q), st.tuples(st.integers(0, 1000), st.integers(0, 1000)), max_size=6
)


@given(ranges, st.integers(1, 3000))
def test_a_limit_is_kept_shared_and_used(
    spans: dict[MessageQueue, tuple[int, int]], most: int
) -> None:
    start = {queue: low for queue, (low, _) in spans.items()}
    end = {queue: low + size for queue, (low, size) in spans.items()}
    found = limited(start, end, most)
    assert found.keys() == end.keys()
    assert all(start[queue] <= found[queue] <= end[queue] for queue in end)
    read = sum(found[queue] - start[queue] for queue in end)
    assert read == min(most, sum(end[queue] - start[queue] for queue in end))


@given(ranges, st.integers(1, 40), st.none() | st.integers(1, 40))
def test_ranges_are_cut_without_loss(
    spans: dict[MessageQueue, tuple[int, int]], least: int, most: int | None
) -> None:
    whole = {queue: (low, low + size) for queue, (low, size) in spans.items()}
    pieces = split_ranges(whole, least, most)
    assert most is None or all(high - low <= most for _, low, high in pieces)
    assert all(low < high for _, low, high in pieces)
    for queue, (low, high) in whole.items():
        covered = [number for each, a, b in pieces if each == queue for number in range(a, b)]
        assert covered == list(range(low, high))
    messages = sum(high - low for low, high in whole.values())
    assert len(pieces) >= min(least, messages, len(pieces) or 1)


@given(ranges, st.integers(1, 200), st.integers(1, 10))
def test_small_queues_are_read_together_without_loss_and_in_order(
    spans: dict[MessageQueue, tuple[int, int]], rows: int, least: int
) -> None:
    whole = {queue: (low, low + size) for queue, (low, size) in spans.items()}
    pieces = split_ranges(whole, 1)
    groups = gathered(pieces, rows, least)
    assert [piece for group in groups for piece in group] == pieces
    assert all(groups)
    messages = sum(high - low for _, low, high in pieces)
    assert len(groups) == min(len(pieces), max(least, messages // rows))


def test_groups_of_equal_queues_are_equal() -> None:
    pieces = [(q(number), 0, 500) for number in range(8)]
    assert [len(group) for group in gathered(pieces, 1000)] == [2] * 4
    assert [len(group) for group in gathered(pieces, 1)] == [1] * 8


def test_queues_that_are_not_there_are_named() -> None:
    options = settings().options
    known = [q(0), q(1)]
    for wrong, says in (
        (q(7), "has no queue 7 on 'a'; its queues there are 0, 1"),
        (q(0, broker="b"), "no broker 'b'"),
        (q(0, topic="t"), "topic 't' is not read; did you mean 'T'"),
    ):
        with pytest.raises(OptionError, match=says):
            offsets.check_known(options, "startingOffsets", [wrong], known)


# -- columns to write ---------------------------------------------------------------------------


def sink_columns(schema: dict[str, str], **options: Any) -> SinkColumns:
    return SinkColumns.of(
        schema, **{"topic": "T", "tag_column": "tags", "key_columns": ["keys"], **options}
    )


def test_columns_to_write_get_their_parts() -> None:
    found = sink_columns({"value": "string", "key": "binary", "Tags": "string", "queueId": "int"})
    assert found.place == {"body": 0, "queueId": 3}
    assert found.tags == 2
    assert found.keys == (1,)
    other = sink_columns(
        {"body": "binary", "carrier": "string", "id": "string"},
        tag_column="carrier",
        key_columns=["id"],
    )
    assert (other.tags, other.keys) == (1, (2,))


@pytest.mark.parametrize(
    ("schema", "options", "says"),
    [
        ({"bdy": "binary"}, {}, "the sink knows no column 'bdy'; did you mean 'body'"),
        ({"tags": "string"}, {}, "the sink needs a column 'body'"),
        ({"body": "int"}, {}, "column 'body' has the type int, but must be binary or string"),
        ({"body": "string"}, {"topic": ""}, "needs the option 'topic' or a column 'topic'"),
        ({"body": "string", "value": "string"}, {}, "two columns are both used as 'body'"),
        ({"body": "string"}, {"tag_column": "carrier"}, "names the column 'carrier', which"),
    ],
)
def test_columns_that_do_not_fit_are_named(
    schema: dict[str, str], options: dict[str, Any], says: str
) -> None:
    with pytest.raises(ColumnsError, match=says):
        sink_columns(schema, **options)
