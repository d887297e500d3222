"""How what `mqadmin` printed is read and compared, without Java."""

from __future__ import annotations

import pytest

from parity.compare import ABSENT
from parity.mqadmin.fields import (
    LACKS,
    LINE_RULES,
    MEASURED,
    MOST_RULES,
    RULES,
    STATUS,
    TEXT,
    differences,
    fields_of,
)
from parity.mqadmin.ledger import read
from parity.mqadmin.runs import ALL

TABLE = """\
#Topic                #Group            #Diff  #LastTime
Orders                clerks                0  2026-11-30 17:11:42
Bills                                      12  N/A

Diff Total: 12
"""
ENTRY = """
[[stays]]
command = "getUser"
fields = ["Caused by"]
reason = "a reason of more than twenty characters"
source = "AuthAdminProcessor#getUser"
line = "getUser -b {b}"
"""


def test_a_cell_belongs_to_the_column_above_it_and_rows_are_sorted() -> None:
    assert fields_of(TABLE, {}) == {
        "columns": ["#Topic #Group #Diff #LastTime"],
        "#Topic": ["Bills", "Orders"],
        "#Group": ["", "clerks"],
        "#Diff": ["12", "0"],
        "#LastTime": ["N/A", "<time>"],
        "Diff Total": ["12"],
    }


def test_labels_single_heads_and_other_lines_are_fields() -> None:
    printed = (
        "127.0.0.1:10911 brokerActive : true\n#SlaveNum\t0\n"
        "create topic to 127.0.0.1:10911 success.\n"
    )
    assert fields_of(printed, {}) == {
        "brokerActive": ["true"], "#SlaveNum": ["0"], TEXT: ["create topic to <address> success."],
    }  # fmt: skip


def test_values_of_json_are_fields_by_their_path() -> None:
    printed = 'export /tmp/x success\n{"b":[{"k":1},{"k":2}],\n"a":{0:"127.0.0.1:10911"}}\n'
    assert fields_of(printed, {"/tmp/x": "f"}) == {
        "a.0": ["<address>"], "b[].k": ["1", "2"], TEXT: ["export <f> success"],
    }  # fmt: skip


def test_of_an_exception_its_class_its_code_and_the_presence_of_words_remain() -> None:
    printed = (
        "a.b.SubCommandException: Topic command failed\n"
        "\tat a.b.Topic.execute(Topic.java:90)\n"
        "Caused by: a.b.MQClientException: CODE: 17  DESC: No route: create it\n"
        "For more information, please visit the url, https://x\n"
        "\t... 2 more\n"
    )
    assert fields_of(printed, {}) == {
        "a.b.SubCommandException": ["Topic command failed"],
        "Caused by": ["a.b.MQClientException: CODE: 17 DESC: <words>"],
    }


def test_fields_that_differ_are_told_and_measured_ones_only_where_they_are_absent() -> None:
    ours = {STATUS: ["0"], "putTps": ["0.0"], "runtime": ["1"]}
    theirs = {STATUS: ["1"], "putTps": ["9.9"], "size": ["2"], "runtime": ["1"]}
    found = differences("brokerStatus", "brokerStatus -b {b}", ours, theirs)
    assert [(each.field, each.ours, each.theirs) for each in found] == [
        (STATUS, "0", "1"),
        ("size", ABSENT, "2"),
    ]


def test_of_options_those_of_rocketmq_count() -> None:
    ours, theirs = {"a": ["1"], "own": ["x"]}, {"a": ["2"], "lacks": ["y"]}
    found = differences("getBrokerConfig", "getBrokerConfig", ours, theirs)
    assert [(each.field, each.theirs) for each in found] == [(LACKS, "lacks"), ("a", "2")]


def test_each_rule_has_a_reason_and_there_are_few() -> None:
    reasons = [each.reason for each in (*LINE_RULES, *RULES)] + [each.reason for each in MEASURED]
    assert len(reasons) <= MOST_RULES
    assert all(len(each) > 20 for each in reasons)


def test_an_entry_explains_its_field_and_is_stale_without_a_difference() -> None:
    ledger = read(ENTRY)
    assert ledger.stale() == ["getUser Caused by"]
    for line, explained in (("getUser -b {b} -u ann", False), ("getUser -b {b}", True)):
        [found] = differences("getUser", line, {"Caused by": ["a"]}, {"Caused by": ["b"]})
        assert ledger.explains(found) is explained
    assert ledger.stale() == []
    assert ledger.reasons() == {"getUser": "a reason of more than twenty characters"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a reason of more than twenty characters", "so"),
        ("AuthAdminProcessor#getUser", ""),
        ("Caused by", "*"),
    ],
)
def test_an_entry_without_a_reason_a_place_or_a_field_is_refused(old: str, new: str) -> None:
    with pytest.raises(ValueError, match="getUser"):
        read(ENTRY.replace(old, new))


def test_the_ledger_names_runs_that_there_are() -> None:
    lines = {each.line for each in ALL}
    commands = {each.command for each in ALL}
    for entry in read().entries:
        assert entry.command in commands
        assert entry.line in lines | {""}
