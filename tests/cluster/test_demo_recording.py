"""The recording of a demo, checked against its stores and what its brokers answer afterwards."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from pocketmq.client import Admin, MessageQueue, PullConsumer
from pocketmq.client.config import ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE
from pocketmq.cluster.demo.data import find_csv
from pocketmq.cluster.demo.workers import CONSUMER_GROUP, TOPIC
from pocketmq.cluster.recordings.reader import open_index, open_recording
from pocketmq.cluster.spec import ClusterOptions, cluster_spec
from pocketmq.cluster.supervisor import Supervisor
from pocketmq.operation.events import AnyEvent
from pocketmq.operation.events.groups import Allocated, MemberLeft, Rebalanced
from pocketmq.operation.events.messages import (
    MessageConsumed,
    MessageDispatched,
    MessagePulled,
    MessageSent,
    MessageStored,
    SendAnswered,
)
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.runtime.errors import MissingToolError
from support.cluster_state import ClusterState
from support.event_order import in_order
from support.eventually import PATIENCE_MS

POCKETMQ = [sys.executable, "-m", "pocketmq.cluster.cli.main"]
FLIGHTS = 80
"""So few that no role has enough events in a tenth of a second to tell only a sample of them."""
READER = "reader"

Place = tuple[str, int, int]
"""(broker, queue, offset)"""


@pytest.mark.cluster
@pytest.mark.timeout(800)
def test_every_message_of_a_demo_has_its_events_in_causal_order(tmp_path: Path) -> None:
    try:
        find_csv()
    except MissingToolError as exc:
        pytest.skip(str(exc))
    recording, data = tmp_path / "demo.jsonl", tmp_path / "demo"
    command = [*POCKETMQ, "demo", "--flights", str(FLIGHTS), "--no-spark", "--record"]
    # Keys that the shell has are for another cluster: here are no users.
    keys = {ACCESS_KEY_VARIABLE: "shop", SECRET_KEY_VARIABLE: "s3cret"}
    done = subprocess.run(
        [*command, str(recording), "--data", str(data)],
        capture_output=True, text=True, timeout=780, check=False, env=os.environ | keys,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    found = open_recording(recording)
    assert f"{len(found.events):,} events in {recording}" in done.stdout
    assert found.problems == []
    index, problems = open_index(recording)
    assert index is not None
    assert problems == []
    assert [each.real_us for each in found.events] == sorted(each.real_us for each in found.events)
    in_order(found.events, TOPIC)
    stored, committed = asyncio.run(after_the_demo(data))
    assert sum(map(len, stored.values())) == FLIGHTS
    told_as_stored(found.events, stored, written_down(data / "consumed"))
    state = ClusterState().take_all(found.events)
    for queue, messages in stored.items():
        place = (queue.topic, queue.broker_name, queue.queue_id)
        assert state.ends.get(place, 0) == len(messages)
        assert state.committed.get((CONSUMER_GROUP, place)) == committed[queue]
    told_of_members(found.events)


async def after_the_demo(
    data: Path,
) -> tuple[dict[MessageQueue, list[MessageExt]], dict[MessageQueue, int | None]]:
    """What brokers on the demo's stores answer: all messages, and the group's offsets."""
    options = ClusterOptions(nameservers=1, brokers=2, any_port=True)
    stored: dict[MessageQueue, list[MessageExt]] = {}
    async with (
        Supervisor(cluster_spec(options, data)) as cluster,
        Admin(nameservers=cluster.namesrv_addr, api_timeout_ms=PATIENCE_MS) as admin,
        PullConsumer(READER, nameservers=cluster.namesrv_addr) as reader,
    ):
        for queue in await admin.subscribe_queues(TOPIC):
            stored[queue], end = [], await admin.max_offset(queue)
            while len(stored[queue]) < end:
                stored[queue] += (await reader.pull(queue, "*", len(stored[queue]), 32)).messages
        committed = {queue: await admin.consumer_offset(CONSUMER_GROUP, queue) for queue in stored}
    return stored, committed


def written_down(folder: Path) -> dict[str, set[Place]]:
    """Consumer -> the messages that it says to have consumed."""
    found: dict[str, set[Place]] = {}
    for path in folder.glob("consumer-*.csv"):
        rows = [line.split(",") for line in path.read_text().splitlines()]
        found[path.stem] = {(row[0], int(row[1]), int(row[2])) for row in rows}
    return found


def told_as_stored(
    events: Iterable[AnyEvent],
    stored: dict[MessageQueue, list[MessageExt]],
    consumed: dict[str, set[Place]],
) -> None:
    by_key = {each.unique_key: each for each in events if isinstance(each, MessageSent)}
    answers = {each.unique_key: each for each in events if isinstance(each, SendAnswered)}
    places = {
        (each.broker, each.queue, each.offset): each
        for each in events
        if isinstance(each, MessageStored)
    }
    told: dict[str, set[Place]] = defaultdict(set)
    for event in events:
        if isinstance(event, MessageConsumed):
            consumer = event.client_id.partition("@")[2]
            told[consumer].add((event.broker, event.queue, event.offset))
    killed = {name for name in consumed if told[name] != consumed[name]}
    assert len(killed) <= 1  # its last tenth of a second is lost with it
    for name in killed:
        assert told[name] < consumed[name]
    assert len(places) == FLIGHTS
    for queue, messages in stored.items():
        for message in messages:
            place = (queue.broker_name, queue.queue_id, message.queue_offset)
            event, key = places[place], message.uniq_key
            assert key is not None
            assert (event.unique_key, event.keys) == (key, message.keys)
            assert event.physical_offset == message.commit_log_offset
            assert event.size == message.store_size
            assert by_key[key].tags == message.tags
            assert (answers[key].status, answers[key].offset) == ("SEND_OK", message.queue_offset)
            assert any(place in each for each in consumed.values())
    for kind in (MessageDispatched, MessagePulled):
        assert sum(each.count for each in events if isinstance(each, kind)) >= FLIGHTS


def told_of_members(events: Iterable[AnyEvent]) -> None:
    consumers = {f"127.0.0.1@consumer-{number}" for number in (1, 2, 3, 4)}
    assert {each.by for each in events if isinstance(each, Allocated)} == consumers
    assert {each.by for each in events if isinstance(each, Rebalanced)} == consumers
    assert {each.client_id for each in events if isinstance(each, MemberLeft)} == consumers
