"""A table that becomes a copy of another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pocketmq.broker.tables.table_copy import become

tables = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 2))


@given(tables, tables)
def test_a_table_becomes_its_master_and_names_what_differed(
    table: dict[str, int], master: dict[str, int]
) -> None:
    before = dict(table)
    changed = become(table, master)
    assert table == master
    assert sorted(changed) == sorted(
        name for name in before.keys() | master.keys() if before.get(name) != master.get(name)
    )
    assert become(table, master) == [], "nothing is left to change"
