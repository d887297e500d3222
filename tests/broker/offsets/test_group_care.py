"""The look after groups, step by step (B-36, B-168)."""

from __future__ import annotations

from pathlib import Path

from support.broker_rig import consumer, pull_header, running_broker


async def test_a_group_that_is_far_behind_and_gone_is_stopped_before_its_pulls_are_forgotten(
    tmp_path: Path,
) -> None:
    async with running_broker(
        tmp_path,
        disable_consume_if_consumer_read_slowly=True,
        consumer_fallbehind_threshold=50_000,
    ) as rig:
        writer, reader = await rig.voice(), await rig.voice()
        await reader.heartbeat(consumers=[consumer()])
        await writer.send()
        await reader.pull()
        for _ in range(10):
            await writer.send(body=b"x" * 10_000)
        await rig.advance(100)
        await reader.heartbeat(consumers=[consumer()])
        await rig.advance(79)
        await reader.leave()
        await rig.advance(1)
        assert list(rig.broker.offsets.pulls()) == []
        await reader.heartbeat(consumers=[consumer()])
        assert (await reader.ask(pull_header())).code == 16
