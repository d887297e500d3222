"""SQL texts of a megabyte or a thousand levels, handed to a broker in every way there is (Q-4)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pocketmq.protocol.bodies.clients import (
    CheckClientRequestBody,
    ConsumerData,
    HeartbeatData,
)
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.headers.clients import (
    CheckClientConfigRequestHeader,
    HeartbeatRequestHeader,
)
from pocketmq.protocol.messages.subscription import SQL92, SubscriptionData
from pocketmq.runtime.profile import PROFILES, Profile
from support.broker_rig import BrokerRig, pull_header, running_broker
from support.pop_voice import pop

DEEP = "(" * 1000 + "a = 1" + ")" * 1000
LONG = "a = '" + "x" * 1_000_000 + "'"
BAD = [DEEP, LONG, "a = ", "NOT " * 1000 + "a", "a = = 1"]
MOST_REMARK = 1000


@pytest.fixture
async def filtering(tmp_path: Path) -> AsyncIterator[BrokerRig]:
    async with running_broker(tmp_path, enable_property_filter=True) as rig:
        yield rig


def sql(expression: str) -> SubscriptionData:
    return SubscriptionData(
        topic="orders", sub_string=expression, expression_type=SQL92, sub_version=1
    )


@pytest.mark.parametrize("text", BAD, ids=lambda text: f"{text[:5]}{len(text)}")
async def test_a_check_of_a_bad_expression_says_what_is_wrong(
    filtering: BrokerRig, text: str
) -> None:
    voice = await filtering.voice()
    body = CheckClientRequestBody(client_id="c", group="readers", subscription_data=sql(text))
    refused = await voice.ask(CheckClientConfigRequestHeader(), body)
    assert refused.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert 0 < len(refused.remark or "") < MOST_REMARK


@pytest.mark.parametrize("text", BAD, ids=lambda text: f"{text[:5]}{len(text)}")
async def test_a_heartbeat_with_a_bad_expression_leaves_nothing_on_the_disk(
    filtering: BrokerRig, text: str
) -> None:
    voice = await filtering.voice()
    consumer = ConsumerData(group_name="readers", subscription_data_set=[sql(text)])
    data = HeartbeatData(client_id="c", consumer_data_set=[consumer])
    beat = await voice.ask(HeartbeatRequestHeader(), data)
    assert (beat.code == 0) is (text is not LONG), beat.remark
    assert len(beat.remark or "") < MOST_REMARK
    await filtering.advance(25)
    file = Path(filtering.broker.store.root) / "config" / "consumerFilter.json"
    kept = json.loads(file.read_text())["filterDataByTopic"] if file.exists() else {}
    assert kept == {}


@pytest.mark.parametrize("text", [DEEP, "a = ", "NOT " * 1000 + "a", "a = '" + "x" * 30_000 + "'"])
async def test_a_pull_and_a_pop_with_a_bad_expression_are_refused_with_23(
    filtering: BrokerRig, text: str
) -> None:
    voice = await filtering.voice()
    await voice.send("orders", b"kept")
    refused = await voice.ask(pull_header("orders", subscription=text, expression_type=SQL92))
    assert refused.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert 0 < len(refused.remark or "") < MOST_REMARK
    answer = await pop(voice, exp=text, exp_type=SQL92)
    assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert 0 < len(answer.remark) < MOST_REMARK
    assert (await pop(voice)).bodies == [b"kept"]


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
async def test_4_9_has_no_tests_of_texts(tmp_path: Path, profile: Profile) -> None:
    async with running_broker(tmp_path, profile, enable_property_filter=True) as rig:
        voice = await rig.voice()
        await voice.send(properties={"a": "abc"})
        await voice.send(properties={"CONTAINS": "b"})
        codes = []
        for text in ("a CONTAINS 'b'", "CONTAINS = 'b'"):
            header = pull_header("orders", subscription=text, expression_type=SQL92)
            codes.append((await voice.ask(header)).code)
    found, none = ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY
    refused = ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert codes == ([none, found] if profile.name == "4.9" else [found, refused])
