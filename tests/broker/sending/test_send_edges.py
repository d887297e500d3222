"""Sends of one turn: what one of them does to the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from pocketmq.broker.sending.send_back_reports import SendBackReports
from pocketmq.broker.store import FlushDiskType
from pocketmq.protocol.codes import ResponseCode
from support.broker_rig import BrokerRig, Voice, consumer, running_broker, send_header
from support.eventually import PATIENCE_S, eventually
from support.hanging_disk import HangingDisk


async def test_a_batch_that_is_refused_has_nothing_before_it_stored_twice(
    rig: BrokerRig, voice: Voice
) -> None:
    await voice.create_topic()
    turn = [
        voice.channel.request(send_header(), b"before"),
        voice.channel.request(send_header(batch=True), b"no batch at all"),
        voice.channel.request(send_header(), b"behind"),
    ]
    codes = [(await each).code for each in turn]
    assert (codes[0], codes[2]) == (0, 0)
    assert codes[1] != 0
    assert [m.body for m in await rig.queue("orders")] == [b"before", b"behind"]
    assert rig.broker.core.stats.puts_failed == 0, "nothing of it came to a put"


async def test_each_message_of_a_turn_has_the_host_of_its_own_sender(rig: BrokerRig) -> None:
    voices = [await rig.voice() for _ in range(2)]
    await voices[0].create_topic()
    await asyncio.gather(*(each.send("orders", b"x") for each in voices))
    hosts = {message.born_host for message in await rig.queue("orders")}
    assert len(hosts) == 2


async def test_who_waits_for_the_disk_does_even_if_the_last_of_its_turn_does_not(
    tmp_path: Path,
) -> None:  # B-144
    disk = HangingDisk(tmp_path / "store")
    async with running_broker(tmp_path, disk=disk, flush_disk_type=FlushDiskType.SYNC_FLUSH) as rig:
        voice = await rig.voice()
        await voice.heartbeat()
        disk.hangs = True
        waits, _ = turn = [
            voice.channel.request(
                send_header("new", properties=properties), body, timeout_s=PATIENCE_S
            )
            for body, properties in ((b"waits", {}), (b"does not", {"WAIT": "false"}))
        ]
        await rig.advance(0.1)
        assert disk.waiting
        assert not waits.done()
        disk.go_on()
        assert [(await each).code for each in turn] == [ResponseCode.SUCCESS] * 2


async def test_who_does_not_wait_for_the_disk_waits_for_a_new_topic_all_the_same(
    rig: BrokerRig, voice: Voice, monkeypatch: pytest.MonkeyPatch
) -> None:
    await voice.create_topic()
    file = rig.broker.subjects.storing.puts._topics_file
    on_saved: list[Callable[[], None]] = []
    monkeypatch.setattr(file, "when_saved", on_saved.append)
    monkeypatch.setattr(file, "is_saved", False)
    sent = voice.channel.request(send_header(properties={"WAIT": "false"}), b"x")
    await eventually(lambda: on_saved, "it is stored")
    await rig.settle()
    assert not sent.done()
    on_saved.pop()()
    assert (await sent).code == ResponseCode.SUCCESS


async def test_what_could_not_be_stored_is_counted_as_that(
    rig: BrokerRig, voice: Voice, monkeypatch: pytest.MonkeyPatch
) -> None:
    await voice.heartbeat(consumers=[consumer()])
    await voice.send()
    (message,) = await rig.queue("orders")
    reported: list[object] = []
    monkeypatch.setattr(SendBackReports, "stored", lambda *what: reported.append(what))
    rig.broker.store.readiness.block("the disk is full")
    assert (await voice.try_send()).code != 0
    assert rig.broker.core.stats.puts_failed == 1
    assert (await voice.send_back(message)).code != 0
    assert (reported, rig.broker.core.stats.puts_failed) == ([], 2)
    rig.broker.store.readiness.unblock("the disk is full")
    assert (await voice.send_back(message)).code == 0
    assert len(reported) == 1
