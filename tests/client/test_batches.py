"""Batches that split themselves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pocketmq.client import Message
from pocketmq.client.producer.batches import entry_size, may_be_batched, split_batches
from pocketmq.protocol.messages.batch import encode_batch
from pocketmq.protocol.messages.properties import UNIQ_KEY
from pocketmq.protocol.messages.validation import check_batch

MESSAGES = st.builds(
    Message,
    st.sampled_from(["T", "U", "%RETRY%g"]),
    st.binary(min_size=1, max_size=300),
    tags=st.none() | st.text("abc", min_size=1, max_size=5),
    delay_level=st.sampled_from([0, 0, 0, 2]),
    wait_store_ok=st.sampled_from([True, True, False]),
)


@given(st.lists(MESSAGES, max_size=30), st.integers(100, 2_000))
def test_every_batch_may_travel_and_nothing_is_lost_or_moved(
    messages: list[Message], max_bytes: int
) -> None:  # P-49
    batches = list(split_batches(messages, max_bytes))
    assert [message for batch in batches for message in batch] == messages
    for batch in batches:
        if len(batch) == 1:
            continue
        check_batch(batch)
        assert sum(map(entry_size, batch)) <= max_bytes
        for number, message in enumerate(batch):
            message.properties[UNIQ_KEY] = f"{number:032X}"
        assert len(encode_batch(batch)) <= max_bytes


def test_what_cannot_be_batched_comes_alone() -> None:  # P-49
    plain, late, retry = (
        Message("T", b"x"),
        Message("T", b"x", delay_level=1),
        Message("%RETRY%g", b"x"),
    )
    assert [may_be_batched(m) for m in (plain, late, retry)] == [True, False, False]
    assert [len(b) for b in split_batches([plain, plain, late, late, retry, plain])] == [
        2,
        1,
        1,
        1,
        1,
    ]
