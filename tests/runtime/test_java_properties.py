"""The text of RocketMQ's `broker.conf`, as Java reads it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pocketmq.runtime.configuration.java_properties import parse_properties
from pocketmq.runtime.errors import ConfigError

PROPERTIES = r"""
! a comment
  # another
plain=value
spaced = value with spaces
colon:c
tabbed	t
long = one,\
       two
path = C\:\\store\ttab
uni=\u00e9
empty=
"""


def test_properties_are_read_as_java_reads_them() -> None:
    assert parse_properties(PROPERTIES) == {
        "plain": "value",
        "spaced": "value with spaces",
        "colon": "c",
        "tabbed": "t",
        "long": "one,two",
        "path": "C:\\store\ttab",
        "uni": "\u00e9",
        "empty": "",
    }


@given(text=st.text(alphabet="ab\\u0=: \t\n#!", max_size=40))
def test_any_text_is_read_or_refused_as_properties(text: str) -> None:
    try:
        read = parse_properties(text)
    except ConfigError:
        return
    assert all(isinstance(value, str) for value in read.values())
