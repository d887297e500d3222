"""Broadcasting consumers and their local offset file."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.client import (
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    MessageExt,
    MessageModel,
    MessageQueue,
    PushConsumer,
)
from pocketmq.client.consumer.progress.local_offsets import (
    LocalFileOffsetStore,
    decode_offsets,
    encode_offsets,
)
from pocketmq.client.consumer.progress.offset_table import ReadOffsetType
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import BadRequestError
from pocketmq.runtime.errors import DiskError
from support.client_rig import ClientRig, client_rig
from support.consuming import Collected
from support.disks import FullDisk
from support.eventually import eventually

QUEUE = MessageQueue("T", "a", 0)
STORE, MEMORY = ReadOffsetType.READ_FROM_STORE, ReadOffsetType.READ_FROM_MEMORY


def broadcasting(rig: ClientRig, got: object, folder: Path, ip: str) -> PushConsumer:
    consumer = rig.consumer(
        message_model=MessageModel.BROADCASTING,
        consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        local_offset_store_dir=folder,
        client_ip=ip,
    )
    consumer.subscribe("T")
    consumer.listen(got)  # type: ignore[arg-type]
    return consumer


async def test_each_member_gets_every_message(tmp_path: Path) -> None:  # C-23
    async with client_rig() as rig:
        rig.brokers[0].put_many("T", 1, [b"0", b"1"])
        one, two = Collected(), Collected()
        async with (
            broadcasting(rig, one, tmp_path, "10.0.0.1") as first,
            broadcasting(rig, two, tmp_path, "10.0.0.2"),
        ):
            await rig.advance(1)
            await eventually(lambda: one.bodies == two.bodies == [b"0", b"1"], "both have both")
            assert len(first.assignment) == 4  # and no %RETRY% queue (C-2)
            assert first.client_id == "10.0.0.1@DEFAULT"  # P-1
        broker = rig.brokers[0]
        assert broker.count(RequestCode.GET_CONSUMER_LIST_BY_GROUP) == 0
        assert broker.count(RequestCode.UPDATE_CONSUMER_OFFSET) == 0


async def test_after_a_restart_it_goes_on_from_its_file(tmp_path: Path) -> None:  # C-66
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put_many("T", 1, [b"0", b"1"])
        for expected in ([b"0", b"1"], [b"2"]):
            got = Collected()
            async with broadcasting(rig, got, tmp_path, "10.0.0.1"):
                await rig.advance(1)
                await eventually(lambda: got.bodies == expected, "consumed")  # noqa: B023
            broker.put("T", 1, b"2")
        path = tmp_path / "10.0.0.1@DEFAULT" / "consumers" / "offsets.json"
        key = '{"brokerName":"a","queueId":1,"topic":"T"}'
        assert f"{key}:3" in path.read_text()
        assert f"{key}:2" in path.with_name("offsets.json.bak").read_text()


async def test_what_a_broadcasting_listener_fails_on_is_lost(tmp_path: Path) -> None:  # C-55
    async with client_rig() as rig:
        broker = rig.brokers[0]
        broker.put_many("T", 0, [b"0", b"1"])
        seen: list[bytes] = []

        async def listener(message: MessageExt) -> ConsumeConcurrentlyStatus:
            seen.append(message.body)
            return ConsumeConcurrentlyStatus.RECONSUME_LATER

        async with broadcasting(rig, listener, tmp_path, "10.0.0.1") as consumer:
            await rig.advance(1)
            await eventually(lambda: consumer.offsets_in_memory("T").get(QUEUE) == 2, "passed")
        assert seen == [b"0", b"1"]
        assert broker.sent_back == []


async def test_the_file_is_merged_into_not_replaced(tmp_path: Path) -> None:  # C-66
    other = MessageQueue("T", "a", 1)
    first = LocalFileOffsetStore(tmp_path, "c", "g")
    first.table.update(QUEUE, 5, increase_only=False)
    await first.persist_all([QUEUE])
    second = LocalFileOffsetStore(tmp_path, "c", "g")
    second.table.update(other, 7, increase_only=False)
    await second.persist(other)
    await second.persist(QUEUE)  # nothing known of it: nothing written
    third = LocalFileOffsetStore(tmp_path, "c", "g")
    await third.load()
    assert third.table.offsets == {QUEUE: 5, other: 7}
    assert await second.read(QUEUE, MEMORY) == -1
    assert await second.read(QUEUE, ReadOffsetType.MEMORY_FIRST_THEN_STORE) == 5
    assert await second.read(QUEUE, MEMORY) == 5  # a hit fills the memory
    assert await third.read(MessageQueue("T", "a", 2), STORE) == -1


async def test_a_broken_file_falls_back_to_its_backup_and_two_are_an_error(
    tmp_path: Path,
) -> None:  # C-66
    store = LocalFileOffsetStore(tmp_path, "c", "g")
    for offset in (1, 2):
        store.table.update(QUEUE, offset, increase_only=False)
        await store.persist(QUEUE)
    store.path.write_text('{"offsetTable":{{"brokerName"')
    restored = LocalFileOffsetStore(tmp_path, "c", "g")
    await restored.load()
    assert restored.table.offsets == {QUEUE: 1}
    store.path.with_name("offsets.json.bak").write_text("nothing")
    with pytest.raises(DiskError):
        await LocalFileOffsetStore(tmp_path, "c", "g").load()


def test_a_java_file_is_read() -> None:  # C-66, T-7
    java = '{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:12}}'
    assert decode_offsets(java) == {MessageQueue("T", "b", 0): 12}
    strict = '{"offsetTable":{"{\\"brokerName\\":\\"b\\",\\"queueId\\":0,\\"topic\\":\\"T\\"}":12}}'
    assert decode_offsets(strict) == {MessageQueue("T", "b", 0): 12}
    with pytest.raises(BadRequestError):
        decode_offsets('{"offsetTable":{"x":12}}')


QUEUES = st.builds(
    MessageQueue,
    st.text("abcT%|_-", min_size=1, max_size=9),
    st.text(min_size=1, max_size=9).filter(lambda t: t.isprintable()),
    st.integers(0, 99),
)


@given(st.dictionaries(QUEUES, st.integers(0, 2**63 - 1), max_size=5))
def test_the_file_survives_a_round_trip(offsets: dict[MessageQueue, int]) -> None:
    assert decode_offsets(encode_offsets(offsets)) == offsets


async def test_a_start_costs_each_queue_the_same_however_many_they_are(tmp_path: Path) -> None:
    async def look_s(count: int) -> float:
        """Processor seconds for each queue."""
        queues = [MessageQueue("T", "a", number) for number in range(count)]
        store = LocalFileOffsetStore(tmp_path, "c", f"g{count}")
        for queue in queues:
            store.table.update(queue, 5, increase_only=False)
        await store.persist_all(queues)
        store = LocalFileOffsetStore(tmp_path, "c", f"g{count}")
        began_s = time.process_time()
        for queue in queues:
            assert await store.read(queue, STORE) == 5
        return (time.process_time() - began_s) / count

    few, many = [min([await look_s(count) for _ in range(3)]) for count in (20, 400)]
    assert many < 5 * few


async def test_what_another_process_wrote_is_read_and_kept(tmp_path: Path) -> None:
    one, other = (LocalFileOffsetStore(tmp_path, "c", "g") for _ in range(2))
    of_other = MessageQueue("T", "a", 1)
    one.table.update(QUEUE, 5, increase_only=False)
    await one.persist(QUEUE)
    assert await other.read(QUEUE, STORE) == 5
    other.table.update(of_other, 7, increase_only=False)
    await other.persist(of_other)
    one.table.update(QUEUE, 6, increase_only=False)
    await one.persist(QUEUE)
    assert await other.read(QUEUE, STORE) == 6
    assert await one.read(of_other, STORE) == 7


async def test_a_queue_given_up_while_all_are_written_keeps_its_offset(tmp_path: Path) -> None:
    store = LocalFileOffsetStore(tmp_path, "10.0.0.1@DEFAULT", "g")
    queues = [MessageQueue("T", "a", number) for number in range(8)]
    for queue in queues:
        store.table.update(queue, 7, increase_only=False)
    await asyncio.gather(store.persist_all(queues[:4]), *(store.persist(q) for q in queues[4:]))
    again = LocalFileOffsetStore(tmp_path, "10.0.0.1@DEFAULT", "g")
    await again.load()
    assert [again.table.get(queue) for queue in queues] == [7] * 8


async def test_an_offset_that_could_not_be_written_is_not_forgotten(tmp_path: Path) -> None:
    # A reset on a full disk: the queue was given up at once, and read again from where it had been.
    files = FullDisk()
    store = LocalFileOffsetStore(tmp_path, "10.0.0.1@DEFAULT", "g", files=files)
    store.table.update(QUEUE, 9, increase_only=False)
    await store.persist(QUEUE)
    files.is_full = True
    store.table.update(QUEUE, 3, increase_only=False)
    await store.persist(QUEUE)
    store.table.remove(QUEUE)
    assert await store.read(QUEUE, STORE) == 3
    store.table.remove(QUEUE)
    files.is_full = False
    await store.persist_all([])
    again = LocalFileOffsetStore(tmp_path, "10.0.0.1@DEFAULT", "g")
    assert await again.read(QUEUE, STORE) == 3
