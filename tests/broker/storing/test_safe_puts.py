"""A message of the broker's own is answered when it is as safe as the flush mode promises."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pocketmq.broker.store import FlushDiskType
from support.broker_rig import consumer, running_broker
from support.eventually import eventually


async def test_a_message_that_was_sent_back_is_answered_when_its_copy_is_flushed(
    tmp_path: Path,
) -> None:  # B-84, B-144
    async with running_broker(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH) as rig:
        voice = await rig.voice()
        await voice.heartbeat(consumers=[consumer()])
        await voice.send()
        (message,) = await rig.queue("orders")
        flushed = rig.broker.store.when_flushed
        held: list[tuple[int, object]] = []
        rig.broker.store.when_flushed = (  # type: ignore[method-assign]
            lambda end, callback: held.append((end, callback))
        )
        answer = asyncio.ensure_future(voice.send_back(message))
        await eventually(lambda: held, "the copy is stored")
        assert not answer.done()
        flushed(*held[0])  # type: ignore[arg-type]
        assert (await answer).code == 0


async def test_under_async_flush_it_is_answered_at_once(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        await voice.heartbeat(consumers=[consumer()])
        await voice.send()
        (message,) = await rig.queue("orders")
        assert (await voice.send_back(message)).code == 0
