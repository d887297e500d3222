"""Names that peers choose never lead out of the store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pocketmq.broker.store import PutStatus
from pocketmq.broker.store.disk.paths import child
from pocketmq.broker.store.errors import IllegalPathError
from support.batches import batch_of

BAD_NAMES = ["", ".", "..", "a/b", "/../../x", "/../orders", "../orders", "/", "x\0y", "x" * 256]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_is_one_component_of_a_path(name: str) -> None:
    with pytest.raises(IllegalPathError, match=r"leads out of it or is no file name.*rename"):
        child("/store/consumequeue", name)
    assert child("/store/consumequeue", "%RETRY%a") == "/store/consumequeue/%RETRY%a"


@pytest.mark.parametrize("topic", BAD_NAMES)
def test_a_message_for_such_a_topic_is_refused_alone(
    open_store: Any, message: Any, tmp_path: Path, topic: str
) -> None:
    store = open_store()
    messages = [message(b"1"), message(b"2", topic=topic), message(b"3")]
    results = [result.status for result in store.put_messages(messages)]
    assert results == [PutStatus.PUT_OK, PutStatus.MESSAGE_ILLEGAL, PutStatus.PUT_OK]
    assert store.put_batch(batch_of(messages[1:])).status is PutStatus.MESSAGE_ILLEGAL
    assert store.reads.max_offset("T", 0) == 2
    assert list(store.reads.queues()) == [("T", 0)]
    with pytest.raises(IllegalPathError):
        store.delete_topic(topic)
    assert os.listdir(tmp_path) == ["store"]
