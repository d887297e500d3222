"""What the broker reads of a send's properties, held against reading them all (B-18, S-6)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pocketmq.broker.sending.sent_properties import Traits, read_sent, type_of_text
from pocketmq.broker.stats.message_type import MessageType
from pocketmq.protocol.messages.properties import decode_properties
from pocketmq.protocol.messages.subscription import tags_code

NAMES = ["UNIQ_KEY", "KEYS", "TAGS", "WAIT", "DELAY", "CLUSTER", "X", "MY_KEYS", "XUNIQ_KEY", ""]
NAMES += ["TRAN_MSG", "REAL_TOPIC"]
VALUES = ["", "a", "a b", "true", "false", "KEYS", "KEYS\x01k", "UNIQ_KEY\x01u", "x" * 300]
entries = st.builds(
    "{}{}{}".format,
    st.sampled_from(NAMES),
    st.sampled_from(["\x01", "\x01", ""]),
    st.sampled_from(VALUES),
)
texts = st.builds(
    lambda parts, end: "\x02".join(parts) + end, st.lists(entries), st.sampled_from(["", "\x02"])
)


@given(texts)
@example("UNIQ_KEY\x01u\x02UNIQ_KEY\x01v\x02")
@example("KEYS\x01\x02KEYS\x01k\x02")
@example("KEYS\x01k\x02WAIT\x01false\x02UNIQ_KEY\x01u")
@example("TRAN_MSG\x01true\x02UNIQ_KEY\x01u")
@example("TRAN_MSG\x01true\x02REAL_TOPIC\x01x\x02UNIQ_KEY\x01u")
def test_what_is_plain_reads_as_if_all_had_been_read(text: str) -> None:
    uniq_key, keys, traits = read_sent(text)
    everything = decode_properties(text)
    if {"DELAY", "CLUSTER"} & everything.keys():
        assert not traits.is_plain
        assert not traits.is_half
    if traits.is_half:
        assert everything["TRAN_MSG"] == "true"
        assert "REAL_TOPIC" not in everything
    if traits.is_plain:
        assert not {"TRAN_MSG"} & everything.keys()
    if traits.is_plain or traits.is_half:
        assert uniq_key == everything.get("UNIQ_KEY")
        assert keys == everything.get("KEYS")
        assert traits.tags_code == tags_code(everything.get("TAGS"))
        assert traits.wait_store_ok == (everything.get("WAIT") != "false")


@pytest.mark.parametrize("keys", ["", "KEYS\x01order-7\x02"])
def test_what_clients_send_is_plain(keys: str) -> None:
    text = f"{keys}UNIQ_KEY\x017F000001\x02WAIT\x01true\x02TAGS\x01TagA\x02route\x01north\x02"
    traits = Traits(True, False, tags_code=tags_code("TagA"), wait_store_ok=True)
    uniq_key, found, read = read_sent(text)
    assert (uniq_key, found) == ("7F000001", "order-7" if keys else None)
    assert read == msgspec.structs.replace(
        traits,
        before_key="MSG_REGION\x01DefaultRegion\x02",
        before_keys="route\x01north\x02TAGS\x01TagA\x02",
        after_keys="WAIT\x01true\x02TRACE_ON\x01true\x02",
    )
    assert read_sent("")[:2] == (None, None)
    assert read_sent("")[2].is_plain


@pytest.mark.parametrize(
    "name", ["DELAY", "TRAN_MSG", "POP_CK", "CLUSTER", "MSG_REGION", "TRACE_ON", "TIMER_DELAY_MS"]
)
def test_what_asks_for_more_than_being_stored_is_not_plain(name: str) -> None:
    assert not read_sent(f"UNIQ_KEY\x017F000001\x02{name}\x013\x02")[2].is_plain


@pytest.mark.parametrize("more", ["", "x\x01" + "y" * 300 + "\x02"])
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("WAIT\x01true\x02", MessageType.NORMAL),
        ("__SHARDINGKEY\x01a\x02", MessageType.FIFO),
        ("DELAY\x013\x02", MessageType.DELAY),
        ("TRAN_MSG\x01TRUE\x02", MessageType.TRANSACTION),
        ("XKEYS\x01a\x02KEYS\x01a\x02DELAY\x013\x02", MessageType.DELAY),
        ("XKEYS\x01a\x02KEYS\x01a\x02", MessageType.NORMAL),
    ],
)
def test_metrics_know_the_type_of_a_batch_by_its_text(text: str, kind: MessageType, more: str):
    assert type_of_text(text + more) is kind


@pytest.mark.parametrize(("value", "is_half"), [("true", True), ("TRUE", True), ("false", False)])
def test_a_half_message_says_true(value: str, is_half: bool) -> None:
    assert read_sent(f"TRAN_MSG\x01{value}\x02")[2].is_half is is_half
