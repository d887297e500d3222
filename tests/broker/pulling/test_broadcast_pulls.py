"""Pulls of broadcasting groups, and of proxies for them (B-36)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pocketmq.protocol.headers.topics import DeleteTopicRequestHeader
from pocketmq.runtime.profile import PROFILE_4_9, Profile
from support.broker_rig import (
    SUBSCRIPTION,
    SUSPEND,
    BrokerRig,
    Voice,
    consumer,
    pull_header,
    running_broker,
)

PROXY: dict[str, Any] = {"request_source": 1, "proxy_froward_client_id": "phone"}


async def member(rig: BrokerRig, name: str) -> Voice:
    """A broadcasting client of the readers."""
    voice = await rig.voice()
    await voice.heartbeat(name, consumers=[consumer(message_model="BROADCASTING")])
    return voice


async def shown(rig: BrokerRig, voice: Voice) -> int | None:
    """What `readers@broadcast` has committed at the next scan."""
    await rig.advance(5)
    return await voice.committed(group="readers@broadcast", set_zero_if_not_found=False)


@pytest.mark.parametrize(
    ("profile", "options", "noted"),
    [
        (PROFILE_4_9, {}, False),
        (PROFILE_4_9, {"enable_broadcast_offset_store": True}, True),
    ],
)
async def test_4_9_notes_no_pulls_unless_told_to(  # B-36
    tmp_path: Path, profile: Profile, options: dict[str, Any], noted: bool
) -> None:
    async with running_broker(tmp_path, profile, **options) as rig:
        one = await member(rig, "one")
        for body in (b"0", b"1"):
            await one.send(body=body)
        await one.pull(offset=1)
        # In 4.9 a group without an offset is told 0, whatever it asks (B-34.2).
        assert await shown(rig, one) == (1 if noted else 0)
        asked = await one.pull(offset=-1, **PROXY)
        assert asked.status == ("OFFSET_RESET" if noted else "OFFSET_TOO_SMALL")


async def test_what_is_held_is_noted_and_what_is_moved_where_it_was_moved_to(  # B-36
    rig: BrokerRig,
) -> None:
    one, two = await member(rig, "one"), await member(rig, "two")
    await one.send()
    held = one.channel.request(
        pull_header(offset=1, sys_flag=SUBSCRIPTION | SUSPEND), timeout_s=60.0
    )
    await rig.settle()
    assert await shown(rig, one) == 1
    assert (await two.pull(offset=7)).code == 21
    assert await shown(rig, one) == 1, "and not 7"
    await one.send()
    await held


async def test_a_client_counts_for_as_long_as_the_options_say(tmp_path: Path) -> None:  # B-36
    options = {"broadcast_offset_expire_second": 20, "broadcast_offset_expire_max_second": 40}
    async with running_broker(tmp_path, **options) as rig:
        one, two = await member(rig, "one"), await member(rig, "two")
        for _ in range(3):
            await one.send()
        await one.pull(offset=1)
        await two.pull(offset=0)
        await two.leave(client_id="two")
        await rig.advance(10)
        assert await shown(rig, one) == 0
        assert await shown(rig, one) == 1, "two has been away for 20 s"
        await rig.advance(20)
        await two.pull(offset=2, request_source=1, proxy_froward_client_id="two")
        assert await shown(rig, one) == 2, "one has not pulled for 40 s"


async def test_after_a_restart_a_proxy_begins_where_the_group_stood(tmp_path: Path) -> None:  # B-36
    async with running_broker(tmp_path) as rig:
        one = await member(rig, "one")
        for _ in range(3):
            await one.send()
        await one.pull(offset=2)  # the broker stops before its next scan
    async with running_broker(tmp_path, clock=rig.clock) as rig:
        voice = await rig.voice()
        asked = await voice.pull(offset=-1, **PROXY)
        assert (asked.code, asked.header.next_begin_offset) == (21, 2)
        assert (asked.header.min_offset, asked.header.max_offset) == (0, 3)


async def test_with_its_topic_the_groups_place_is_gone(rig: BrokerRig) -> None:  # B-36, B-16
    one = await member(rig, "one")
    for _ in range(3):
        await one.send()
    await one.pull(offset=3)
    assert await shown(rig, one) == 3
    await one.ask(DeleteTopicRequestHeader(topic="orders"))
    assert await shown(rig, one) is None
    await one.send(body=b"new")
    assert (await one.pull(offset=-1, **PROXY)).header.next_begin_offset == 0
