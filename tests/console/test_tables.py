"""Tables fit 80 columns, and pipes get plain text."""

from __future__ import annotations

import json

import pytest

from pocketmq.cluster.cli.clock import ClockView, clock_table
from pocketmq.cluster.cli.cluster import ReplicaView, replica_tables
from pocketmq.cluster.cli.connections import ConnectionView, connection_table
from pocketmq.cluster.cli.explain import life_tables
from pocketmq.cluster.cli.group import group_tables
from pocketmq.cluster.cli.output import show
from pocketmq.cluster.cli.tables import Table, aligned, columns, shortened, tab_separated
from pocketmq.cluster.cli.tail import message_tables
from pocketmq.cluster.cli.topic import (
    BrokerOfTopic,
    BrokerRates,
    QueueStats,
    TopicStats,
    route_table,
    stats_tables,
)
from pocketmq.cluster.explain.message_life import Fate, Life, Step
from pocketmq.cluster.group_view import GroupView, MemberView, QueueView, SubscriptionView
from support.messages import pulled_message

CLIENT = "192.168.117.204@a-very-long-instance-name-of-an-application#48211#1795390563123456789"
GROUP = "a-consumer-group-of-an-application-with-a-long-name"
TOPIC = f"%RETRY%{GROUP}"
BROKER = "broker-in-the-second-machine-room"
BILLIONS = 12_345_678_901

GROUP_VIEW = GroupView(
    group=GROUP,
    consume_type="CONSUME_PASSIVELY",
    message_model="CLUSTERING",
    consume_from_where="CONSUME_FROM_LAST_OFFSET",
    members=(MemberView(CLIENT, "192.168.117.204:54321", "PYTHON", 493, (BROKER, BROKER), True),),
    subscriptions=(SubscriptionView(TOPIC, "new || changed || " * 9, "TAG"),),
    queues=(QueueView(TOPIC, BROKER, 17, BILLIONS, BILLIONS - 5, (CLIENT, CLIENT)),),
)
STATS = TopicStats(
    TOPIC,
    BILLIONS,
    (QueueStats(BROKER, 17, 0, BILLIONS, 1_795_390_563_123),),
    (BrokerRates(BROKER, 123_456.7, None),),
)
LIFE = Life(
    "7F000001" * 4,
    (Step(1_795_390_563_123, TOPIC, BROKER, 17, BILLIONS, "waits for 7200 s, then goes to x"),),
    (Fate(GROUP, "passed over", 16, f"its offset in {BROKER}/17 is {BILLIONS}"),),
    "consumed: 1",
)
CONNECTION = ConnectionView(BROKER, "consumer", GROUP, CLIENT, "192.168.117.204:54321", "JAVA", 493)
ROUTE = BrokerOfTopic(BROKER, 1024, 1024, "RW", {n: f"192.168.117.20{n}:10911" for n in range(3)})
MESSAGE = pulled_message(topic=TOPIC, broker_name=BROKER, properties=f"KEYS\x01{CLIENT * 3}\x02")

REPLICAS = [
    ReplicaView(
        BROKER, "master", "192.168.117.204:10911", BILLIONS, 2, epoch=f"17 from {BILLIONS}"
    ),
    ReplicaView(
        BROKER, "slave 1", "192.168.117.204:10921", BILLIONS, None, BILLIONS, 3_600_000, "17 from 0"
    ),
    ReplicaView(BROKER, "slave 2", "192.168.117.204:10931", problem="the connection was refused"),
]

TABLES = [
    *group_tables(GROUP_VIEW),
    *stats_tables(STATS),
    *life_tables(LIFE),
    *message_tables(MESSAGE),
    connection_table([CONNECTION]),
    route_table([ROUTE]),
    *replica_tables(REPLICAS),
    clock_table([ClockView(BROKER, "192.168.117.204:10911", 1_795_390_563_123, "manual", 7200.5)]),
]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: "+".join(table.columns))
def test_every_table_fits_80_columns_with_long_names(table: Table) -> None:
    first, *rows = aligned(table, 80)
    assert max(map(columns, [first, *rows])) <= 80
    assert len(rows) == len(table.rows), "a row is one line"
    for column in table.columns:
        assert column in first, "names of columns are whole"


def test_wide_and_combining_characters_are_counted_in_columns() -> None:
    wide = "我的很长的客户端名称" * 6
    table = Table("m", ("id", "lag"), [(wide, 7), ("e\u0301", 12)])
    lines = aligned(table, 80)
    assert [columns(line) for line in lines] == [80, 80, 80]
    assert "…" in lines[1]
    assert columns(shortened(wide, 9)) == 9
    assert shortened(wide, 9) == "我的…名称"


def test_a_column_that_is_cut_last_stays_whole_beside_long_values() -> None:
    rows = [("flushConsumeQueueLeastPages", "1s 5s 10s " * 9), ("x", "y")]
    _, row, _ = aligned(Table("o", ("option", "value"), rows, last_cut="option"), 80)
    assert row.startswith("flushConsumeQueueLeastPages  1s 5s")
    assert 79 <= len(row) <= 80, "the end may be a blank"


def test_a_shortened_client_id_keeps_its_ends() -> None:
    assert shortened(CLIENT, 80).endswith("#1795390563123456789")
    assert shortened(CLIENT, 24) == "192.168.117.…90563123456789"[:12] + "…" + CLIENT[-11:]
    assert shortened("short", 24) == "short"


def test_numbers_stand_at_the_right_and_are_whole() -> None:
    table = Table("queue", ("queue", "end"), [("a/0", 7), ("a" * 90, BILLIONS), ("a/2", None)])
    lines = aligned(table, 80)
    assert [line.split()[-1] for line in lines] == ["end", "7", "12,345,678,901", "-"]
    assert {len(line) for line in lines} == {80}


def test_a_pipe_gets_each_value_whole_between_tabs() -> None:
    table = Table("member", ("id", "lag"), [(CLIENT, BILLIONS), ("x", None)])
    assert tab_separated(table) == [f"{CLIENT}\t{BILLIONS}", "x\t"]
    assert tab_separated(table, named=True)[1] == "member\tx\t"


def test_a_name_that_breaks_lines_breaks_no_row() -> None:
    assert tab_separated(Table("x", ("id",), [("a\nb\tc\x1b[31m",)])) == ["a�b�c�[31m"]


class Terminal:
    """Standard output that is one."""

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


def test_a_terminal_gets_a_heading_and_columns_in_bold(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    table = Table("queue", ("queue", "end"), [("a/0", 7)])
    show(None, [], table, heading="topic x")
    assert terminal.text == "topic x\n\n\x1b[1mqueue  end\x1b[0m\na/0      7\n"
    monkeypatch.setenv("NO_COLOR", "1")
    show("json", {"a": "é"}, table)
    assert json.loads(terminal.text.partition("7\n")[2]) == {"a": "é"}
