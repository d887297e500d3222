"""Tables fit 80 columns, and pipes get plain text."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.cluster.cli.common.output import show
from pocketmq.cluster.cli.common.tables import Table, columns, folded, laid_out, tab_separated
from pocketmq.cluster.cli.kept.access import rule_table, user_table
from pocketmq.cluster.cli.kept.group import group_tables
from pocketmq.cluster.cli.kept.topic import (
    BrokerOfTopic,
    BrokerRates,
    QueueStats,
    TopicStats,
    route_table,
    stats_tables,
)
from pocketmq.cluster.cli.messages.explain import life_tables
from pocketmq.cluster.cli.messages.tail import message_tables
from pocketmq.cluster.cli.roles.clock import ClockView, clock_table
from pocketmq.cluster.cli.roles.cluster import ReplicaView, replica_tables
from pocketmq.cluster.cli.roles.connections import ConnectionView, connection_table
from pocketmq.cluster.cli.roles.doctor import check_table
from pocketmq.cluster.doctor import Check
from pocketmq.cluster.explain.message_life import Fate, Life, Step
from pocketmq.cluster.group_view import GroupView, MemberView, QueueView, SubscriptionView
from pocketmq.protocol.bodies.access import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
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
RULES = AclInfo(
    subject=f"User:{GROUP}",
    policies=[
        PolicyInfo(
            policy_type="Default",
            entries=[
                PolicyEntryInfo(
                    resource=f"Topic:{TOPIC}",
                    actions=["Pub", "Sub", "Create", "Update", "Delete", "Get", "List"],
                    source_ips=["192.168.117.204", "fe80::/10"],
                    decision="Allow",
                )
            ],
        )
    ],
)
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
    user_table({BROKER: [UserInfo(username=GROUP, user_type="Normal", user_status="disable")]}),
    rule_table({BROKER: [RULES]}),
    route_table([ROUTE]),
    *replica_tables(REPLICAS),
    check_table(
        [
            Check(
                "address", f"{BROKER} slave 12", "wrong", "it does not answer here", "start it " * 9
            )
        ]
    ),
    clock_table([ClockView(BROKER, "192.168.117.204:10911", 1_795_390_563_123, "manual", 7200.5)]),
]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: "+".join(table.columns))
@pytest.mark.parametrize("width", [80, 120, 300])
def test_every_table_fits_and_leaves_nothing_out(table: Table, width: int) -> None:
    layout = laid_out(table, width)
    lines = layout.lines if layout.head is None else [layout.head, *layout.lines]
    assert max(map(columns, lines)) <= width
    for column in table.columns:
        if layout.head is not None:
            assert column in layout.head, "names of columns are whole"
        else:
            assert sum(line.startswith(column) for line in lines) >= len(table.rows)
    shown = Counter("".join(lines))
    wanted = Counter("".join(each for row in table.rows for each in row if isinstance(each, str)))
    missing = {char: n for char, n in wanted.items() if char != " " and shown[char] < n}
    assert not missing


def test_a_table_that_fits_has_one_line_for_each_row() -> None:
    table = Table("m", ("client id", "queues"), [("192.168.17.4@12#8471", 8), ("x", 12)])
    assert laid_out(table, 80) == (
        "client id             queues",
        ["192.168.17.4@12#8471       8", "x                         12"],
    )


def test_a_long_id_goes_on_in_a_second_line_behind_a_sign() -> None:
    table = Table("m", ("client id", "queues"), [("192.168.17.4@12345#1795390563123456789", 8)])
    layout = laid_out(table, 40)
    assert layout.head == "client id                         queues"
    assert layout.lines == [
        "192.168.17.4@12345#                    8",
        "1795390563123456789",
    ]


def test_where_two_lines_are_not_enough_a_row_is_a_list() -> None:
    name = "a-very-long-name-of-a-topic-" * 3
    table = Table("q", ("topic", "owner", "lag"), [(name, name, 7), ("b", None, 1234)])
    layout = laid_out(table, 60)
    assert layout.head is None
    assert layout.lines == [
        "topic  a-very-long-name-of-a-topic-a-very-long-name-of-a-",
        "       topic-a-very-long-name-of-a-topic-",
        "owner  a-very-long-name-of-a-topic-a-very-long-name-of-a-",
        "       topic-a-very-long-name-of-a-topic-",
        "lag    7",
        "",
        "topic  b",
        "owner  -",
        "lag    1,234",
    ]


def test_a_sentence_is_broken_at_its_blanks() -> None:
    said = "compare the tags of producer and consumer, letter by letter"
    assert folded(said, 24) == ["compare the tags of", "producer and consumer,", "letter by letter"]
    table = Table("f", ("at", "what"), [("10:00", said)])
    assert laid_out(table, 31).lines == [
        "10:00  compare the tags of",
        "       producer and consumer,",
        "       letter by letter",
    ]


@given(st.text(st.characters(blacklist_categories=("Cs",))), st.integers(2, 40))
def test_folding_loses_nothing_but_blanks_and_is_never_wider(text: str, width: int) -> None:
    parts = folded(text, width)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert max(map(columns, parts)) <= width


def test_wide_and_combining_characters_are_counted_in_columns() -> None:
    wide = "我的很长的客户端名称" * 6
    table = Table("m", ("id", "lag"), [(wide, 7), ("e\u0301", 12)])
    layout = laid_out(table, 80)
    assert layout.head is not None
    assert [columns(line) for line in (layout.head, layout.lines[0])] == [80, 80]
    assert "".join(line.split()[0] for line in layout.lines[:2]) == wide


def test_a_column_that_is_kept_whole_stays_so_beside_long_values() -> None:
    rows = [("flushConsumeQueueLeastPages", "1s 5s 10s " * 9), ("x", "y")]
    first, *_ = laid_out(Table("o", ("option", "value"), rows, kept_whole="option"), 80).lines
    assert first.startswith("flushConsumeQueueLeastPages  1s 5s")


def test_numbers_stand_at_the_right_and_are_whole() -> None:
    table = Table("queue", ("queue", "end"), [("a/0", 7), ("a" * 90, BILLIONS), ("a/2", None)])
    layout = laid_out(table, 80)
    assert layout.head is not None
    lines = [layout.head, layout.lines[0], layout.lines[1], layout.lines[-1]]
    assert [line.split()[-1] for line in lines] == ["end", "7", "12,345,678,901", "-"]
    assert len({len(line) for line in lines}) == 1


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
