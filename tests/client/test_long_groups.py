"""Groups with long names, in the releases that take them and in those that do not (B-40)."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from pocketmq.client import Admin, ConsumeFromWhere, Message
from pocketmq.cluster.explain.facts import gather_facts
from pocketmq.cluster.explain.findings import findings
from pocketmq.cluster.explain.refusals import fault_of_name, version_told
from pocketmq.operation.events.event import Event
from pocketmq.operation.events.groups import MemberRefused
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import IllegalNameError
from pocketmq.protocol.headers.groups import UpdateSubscriptionGroupRequestHeader
from pocketmq.protocol.headers.topics import UpdateAndCreateTopicRequestHeader
from pocketmq.protocol.messages.validation import retry_topic
from pocketmq.protocol.releases import version_name, version_number
from pocketmq.runtime.profile import PROFILES, Profile
from pocketmq.simulation.event_recorder import EventRecorder
from support.broker_rig import consumer, running_broker
from support.consuming import Collected
from support.memory_cluster import MemoryCluster
from support.tcp import tcp_cluster

FIRST = ConsumeFromWhere.FIRST_OFFSET
LIMITS = {
    "4.9": (None, False, 127, 127),
    "5.3": (255, False, 127, 255),
    "5.5": (120, True, 255, 255),
}
"""Profile -> longest group that a broker makes, whether a tool's is looked at, longest retry topic
that a request may name, longest that is stored."""

by_profile = pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)


async def explained(cluster: MemoryCluster, group: str) -> list[str]:
    async with cluster.admin() as admin:
        return [each.problem for each in findings(await gather_facts(admin, group))]


@pytest.mark.parametrize("profile", ["4.9", "5.3"])
@pytest.mark.parametrize("chars", [121, 200, 255])
async def test_a_group_of_up_to_255_characters_consumes_before_5_4(
    tmp_path: Path, profile: str, chars: int
) -> None:  # B-40, P-23
    group = "g" * chars
    async with tcp_cluster(tmp_path, "a", profile=profile) as cluster:
        await cluster.create_topic("T", queues=1)
        got = Collected()
        member = cluster.consumer(group, consume_from_where=FIRST)
        member.subscribe("T")
        member.listen(got)
        async with member, cluster.producer() as producer:
            await producer.send(Message("T", b"x"))
            await cluster.until(lambda: got.bodies == [b"x"], "it is consumed")
            assert await explained(cluster, group) == []


async def test_from_5_4_on_a_group_of_200_characters_gets_nothing_and_explain_says_why(
    tmp_path: Path,
) -> None:  # B-40
    group = "g" * 200
    async with tcp_cluster(tmp_path, "a", profile="5.5") as cluster:
        await cluster.create_topic("T", queues=1)
        with pytest.raises(IllegalNameError, match="longer than 120 characters"):
            cluster.consumer(group)
        got = Collected()
        older = cluster.consumer(group, profile="5.3", consume_from_where=FIRST)
        older.subscribe("T")
        older.listen(got)
        async with older, cluster.producer() as producer:
            await producer.send(Message("T", b"x"))
            await cluster.advance(60)
            assert got.bodies == []
            assert await explained(cluster, group) == [
                "members get no message and no error from a: the group's name is longer than 120 "
                "characters (B-40)"
            ]


async def test_explain_knows_a_broker_that_says_its_version_by_name_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # B-40: RocketMQ's brokers from 5.4.0 on
    told = Admin.broker_runtime_info

    async def without_number(self: Admin, broker: str) -> dict[str, str]:
        info = await told(self, broker)
        del info["brokerVersion"]
        return info

    async with tcp_cluster(tmp_path, "a", profile="5.5") as cluster:
        monkeypatch.setattr(Admin, "broker_runtime_info", without_number)
        [said] = await explained(cluster, "g" * 200)
        assert "longer than 120 characters" in said


async def test_a_group_that_nobody_makes_is_explained(tmp_path: Path) -> None:  # B-40
    async with tcp_cluster(tmp_path, "a", auto_create_subscription_group=False) as cluster:
        [said] = await explained(cluster, "readers")
        assert said.endswith(
            "does not exist there, and autoCreateSubscriptionGroup is false (B-40)"
        )


async def test_who_is_not_taken_is_logged_and_told_and_the_answer_is_success(
    tmp_path: Path,
) -> None:
    told: list[Event] = []
    sink = EventRecorder(told.append, lambda: 0).sink("broker-a", lambda: 0)
    async with running_broker(tmp_path, events=sink) as rig:
        voice = await rig.voice()
        with capture_logs() as logs:
            reply = await voice.heartbeat("one", consumers=[consumer("g" * 121)])
        assert reply.code == 0
        [line] = [each for each in logs if each["event"] == "heartbeat.skipped"]
        assert line["reason"] == "is longer than 120 characters"
        [refused] = [each for each in told if isinstance(each, MemberRefused)]
        assert (refused.group, refused.client_id) == ("g" * 121, "one")
        assert refused.reason == line["reason"]


@by_profile
async def test_names_have_the_limits_of_the_release(tmp_path: Path, profile: Profile) -> None:
    # B-40, B-110, S-10
    made, looked_at, named, _ = LIMITS[profile.name]
    assert profile.broker.group_name_max_chars == made
    async with running_broker(tmp_path, profile) as rig:
        voice = await rig.voice()
        for chars in (120, 121, 255):
            await voice.heartbeat("one", consumers=[consumer("h" * chars)])
            is_made = rig.broker.groups.get("h" * chars) is not None
            assert is_made == (made is None or chars <= made)
            config = SubscriptionGroupConfig(group_name="t" * chars)
            code = (await voice.ask(UpdateSubscriptionGroupRequestHeader(), config)).code
            assert code == (29 if looked_at and chars > 120 else 0)
        for chars in (120, 121, 248):
            topic = retry_topic("r" * chars)
            create = UpdateAndCreateTopicRequestHeader(
                topic=topic, default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=6,
                topic_filter_type="SINGLE_TAG",
            )  # fmt: skip
            refused = profile.broker.invalid_parameter_code
            assert (await voice.ask(create)).code == (0 if len(topic) <= named else refused)


@pytest.mark.parametrize(
    ("release", "max_chars"),
    [((4, 9, 8), None), ((5, 1, 4), None), ((5, 2, 0), 255), ((5, 3, 3), 255), ((5, 4, 0), 120),
     ((5, 5, 0), 120)],
)  # fmt: skip
def test_what_a_broker_takes_follows_from_its_version(
    release: tuple[int, int, int], max_chars: int | None
) -> None:
    version = version_number(*release)
    assert version_name(version) == "V" + "_".join(map(str, release))
    assert fault_of_name("g" * (max_chars or 999), version) == ""
    if max_chars is not None:
        assert "longer" in fault_of_name("g" * (max_chars + 1), version)


@pytest.mark.parametrize(
    ("info", "version"),
    [
        ({"brokerVersion": "479", "brokerVersionDesc": "V5_3_3"}, version_number(5, 3, 3)),
        ({"brokerVersionDesc": "V5_4_0"}, version_number(5, 4, 0)),
        ({"brokerVersionDesc": "V5_5_0"}, version_number(5, 5, 0)),
        ({"brokerVersionDesc": "V5_4_0_SNAPSHOT"}, version_number(5, 4, 0) - 1),
        ({"brokerVersionDesc": "HIGHER_VERSION"}, 612),
        ({"brokerVersionDesc": "180"}, 180),
        ({"brokerVersionDesc": "a fork's"}, 0),
        ({"brokerVersion": "a fork's"}, 0),
        ({"brokerVersion": "9" * 5000}, 0),
        ({}, 0),
    ],
)
def test_brokers_from_5_4_on_say_their_version_by_name_only(
    info: dict[str, str], version: int
) -> None:  # B-40
    assert version_told(info) == version


@by_profile
@pytest.mark.parametrize("chars", [120, 121, 248, 249, 255])
async def test_a_group_retries_as_far_as_its_retry_topic_can_be_stored(
    tmp_path: Path, profile: Profile, chars: int
) -> None:  # S-10
    made, _, _, stored = LIMITS[profile.name]
    group = "g" * chars
    async with running_broker(tmp_path, profile) as rig:
        voice = await rig.voice()
        await voice.send("orders")
        [message] = await rig.queue("orders")
        reply = await voice.send_back(message, group=group)
        if made is not None and chars > made:
            assert reply.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        elif len(retry_topic(group)) > stored:
            assert reply.code == ResponseCode.SYSTEM_ERROR  # B-87
            assert "MESSAGE_ILLEGAL" in str(reply.remark)
        else:
            assert reply.code == 0
            await rig.advance(11)
            assert len(await rig.queue(retry_topic(group))) == 1
