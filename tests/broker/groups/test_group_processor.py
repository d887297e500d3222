"""Subscription groups created, changed, deleted and listed (200, 201, 207, 352)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.protocol.bodies.groups import (
    GroupRetryPolicy,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
)
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.headers.groups import (
    DeleteSubscriptionGroupRequestHeader,
    GetAllSubscriptionGroupsRequestHeader,
    GetSubscriptionGroupRequestHeader,
    UpdateSubscriptionGroupRequestHeader,
)
from pocketmq.runtime.profile import PROFILE_4_9
from support.broker_rig import BrokerRig, Voice, consumer, running_broker


async def test_a_group_is_created_shown_and_listed(rig: BrokerRig, encoding: Encoding) -> None:
    # E-29
    voice = await rig.voice(encoding)
    show = GetSubscriptionGroupRequestHeader(group="readers")
    config = SubscriptionGroupConfig(
        group_name="readers", retry_max_times=3, group_retry_policy=GroupRetryPolicy()
    )
    assert (await voice.ask(UpdateSubscriptionGroupRequestHeader(), config)).code == 0
    shown = decode_body((await voice.ask(show)).body_view, SubscriptionGroupConfig, encoding)
    assert shown == config
    reply = await voice.ask(GetAllSubscriptionGroupsRequestHeader())
    table = decode_body(reply.body_view, SubscriptionGroupWrapper, encoding)
    assert table.subscription_group_table["readers"] == config
    assert "TOOLS_CONSUMER" in table.subscription_group_table


async def test_who_asks_for_a_group_makes_it_where_a_pull_would(
    rig: BrokerRig, encoding: Encoding
) -> None:  # B-40
    voice = await rig.voice(encoding)
    reply = await voice.ask(GetSubscriptionGroupRequestHeader(group="readers"))
    shown = decode_body(reply.body_view, SubscriptionGroupConfig, encoding)
    assert shown.group_retry_policy == GroupRetryPolicy()
    assert rig.broker.groups.get("readers") == shown
    assert (await voice.ask(GetSubscriptionGroupRequestHeader(group="a b"))).code == 26


async def test_4_9_passes_over_attributes(tmp_path: Path) -> None:  # E-65
    async with running_broker(tmp_path, PROFILE_4_9) as rig:
        config = SubscriptionGroupConfig(group_name="readers", attributes={"+no.such": "1"})
        reply = await (await rig.voice()).ask(UpdateSubscriptionGroupRequestHeader(), config)
        assert reply.code == 0
        made = rig.broker.groups.get("readers")
        assert made is not None
        assert made.attributes == {}


@pytest.mark.parametrize("name", ["", "a b", "x" * 121])
async def test_an_illegal_name_is_29(rig: BrokerRig, voice: Voice, name: str) -> None:  # E-29
    config = SubscriptionGroupConfig(group_name=name)
    assert (await voice.ask(UpdateSubscriptionGroupRequestHeader(), config)).code == 29


async def test_a_changed_group_survives_a_restart(tmp_path: Path) -> None:  # B-40
    async with running_broker(tmp_path) as rig:
        config = SubscriptionGroupConfig(
            group_name="readers", retry_max_times=3, group_retry_policy=GroupRetryPolicy()
        )
        await (await rig.voice()).ask(UpdateSubscriptionGroupRequestHeader(), config)
    async with running_broker(tmp_path) as rig:
        assert rig.broker.groups.get("readers") == config


async def test_a_deleted_group_keeps_or_loses_its_offsets(rig: BrokerRig, voice: Voice) -> None:
    # E-29 (207)
    await voice.create_topic()
    await voice.heartbeat(consumers=[consumer()])
    await voice.commit(1)
    keep = DeleteSubscriptionGroupRequestHeader(group_name="readers")
    assert (await voice.ask(keep)).code == 0
    assert rig.broker.groups.get("readers") is None
    assert rig.broker.offsets.query("readers", "orders", 0) == 1
    clean = DeleteSubscriptionGroupRequestHeader(group_name="readers", clean_offset=True)
    assert (await voice.ask(clean)).code == 0
    assert rig.broker.offsets.query("readers", "orders", 0) is None


async def test_offsets_go_by_the_name_that_4_9_or_5_x_gives_the_wish(
    rig: BrokerRig, encoding: Encoding
) -> None:  # M-15
    voice = await rig.voice(encoding)
    wishes: list[tuple[dict[str, str], bool]] = [
        ({"removeOffset": "false"}, False),
        ({"removeOffset": "true"}, True),
        ({"cleanOffset": "false"}, False),
        ({"cleanOffset": "true"}, True),
        ({"cleanOffset": "false", "removeOffset": "true"}, True),
    ]
    for wish, gone in wishes:
        rig.broker.offsets.commit("readers", "orders", 0, 1, rig.clock.time_ms())
        fields = {"groupName": "readers"} | wish
        header = DeleteSubscriptionGroupRequestHeader.from_fields(fields)
        assert (await voice.ask(header)).code == 0
        left = rig.broker.offsets.query("readers", "orders", 0)
        assert left == (None if gone else 1), wish
