"""Which queues a broker gives to a member (K-20 to K-26)."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.broker.pop.assignments import Question, RequestModes, assign, readable_queues
from pocketmq.protocol.allocation.averagely import AllocateMessageQueueAveragely
from pocketmq.protocol.bodies.pop import (
    MessageRequestModes,
    QueryAssignmentBody,
    QueueAssignments,
    RequestModeBody,
)
from pocketmq.protocol.bodies.route import QueueData, TopicRouteData
from pocketmq.protocol.body import decode_body, encode_json
from pocketmq.protocol.headers.pop import (
    GetAllMessageRequestModeRequestHeader,
    QueryAssignmentRequestHeader,
    SetMessageRequestModeRequestHeader,
)
from pocketmq.protocol.messages.message import MessageQueue
from support.broker_rig import BrokerRig, Voice
from support.java_lines import java_text


def queues(*counts: int) -> list[MessageQueue]:
    return [
        MessageQueue("T", f"broker-{'abc'[broker]}", queue)
        for broker, count in enumerate(counts)
        for queue in range(count)
    ]


def mode(kind: str = "POP", share: int = 0) -> RequestModeBody:
    return RequestModeBody(
        topic="T", consumer_group="G", mode="POP" if kind == "POP" else "PULL",
        pop_share_queue_num=share,
    )  # fmt: skip


def ask(client: str = "c1", strategy: str = "AVG", *, everybody: bool = False) -> Question:
    return Question(group="G", client_id=client, strategy=strategy, broadcasting=everybody)


def given_to(
    client: str, members: list[str], all_queues: list[MessageQueue], how: RequestModeBody
) -> set[tuple[str, int]]:
    found = assign(ask(client), how, all_queues, members)
    assert found is not None
    return {(a.message_queue.broker_name, a.message_queue.queue_id) for a in found}


def test_a_group_that_pops_gets_every_queue_as_one_entry_per_broker() -> None:  # K-24
    for client in ("c1", "c2", "c3"):
        found = given_to(client, ["c1", "c2", "c3"], queues(4, 4), mode())
        assert found == {("broker-a", -1), ("broker-b", -1)}


def test_members_share_with_as_many_neighbours_as_they_are_told() -> None:
    members = [f"c{n}" for n in range(4)]
    one = given_to("c0", members, queues(4), mode(share=1))
    assert one == {("broker-a", 0), ("broker-a", 1)}
    assert given_to("c3", members, queues(4), mode(share=1)) == {("broker-a", 3), ("broker-a", 0)}
    assert given_to("c3", members, queues(2), mode(share=1)) == {("broker-a", 1)}
    assert given_to("c3", members, queues(4), mode(share=3)) == {("broker-a", -1)}
    assert given_to("c3", members, queues(4), mode(share=2)) == {
        ("broker-a", queue) for queue in (3, 0, 1)
    }


@given(st.integers(1, 12), st.sets(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=6))
def test_pulling_members_get_what_they_would_compute_themselves(
    count: int, members: set[str]
) -> None:  # K-23
    all_queues, sorted_members = queues(count), sorted(members)
    for client in members:
        own = AllocateMessageQueueAveragely().allocate("G", client, all_queues, sorted_members)
        wanted = {(queue.broker_name, queue.queue_id) for queue in own or ()}
        assert given_to(client, list(members), all_queues, mode("PULL")) == wanted


def test_keep_and_give_up_are_told_apart() -> None:  # K-22
    everything = queues(2)
    assert assign(ask(), mode("PULL"), None, ["c1"]) is None
    assert assign(ask(), mode("PULL"), everything, None) is None
    assert assign(ask(strategy="os:system"), mode("PULL"), everything, ["c1"]) is None
    assert assign(ask("stranger"), mode("PULL"), everything, ["c1"]) == []
    stranger = Question(group="G", client_id="stranger", strategy="AVG")
    assert assign(stranger, mode("PULL"), everything, ["c1"]) == [], "no broadcasting unless said"
    for found in (
        assign(ask(everybody=True), mode("PULL"), everything, None),
        assign(ask(), mode("PULL"), everything, None, balancing=False),
    ):
        assert found is not None
        assert len(found) == 2


def test_modes_are_stored_as_rocketmq_stores_them() -> None:  # K-26
    modes = RequestModes()
    assert modes.of("T", "G").mode == "PULL"
    assert RequestModes(lambda: ("POP", -1)).of("T", "G").pop_share_queue_num == -1
    assert RequestModes(lambda: ("POP", -1)).of("%RETRY%G", "G").mode == "PULL"
    modes.set(RequestModeBody(topic="TP", consumer_group="G1", mode="POP", pop_share_queue_num=2))
    assert json.loads(encode_json(modes.wrapper())) == json.loads(
        java_text("file.messageRequestMode")
    )
    again = RequestModes()
    again.load(msgspec.json.decode(java_text("file.messageRequestMode"), type=MessageRequestModes))
    assert again.of("TP", "G1").pop_share_queue_num == 2


async def test_a_mode_is_set_kept_and_told(rig: BrokerRig, voice: Voice, tmp_path: Path) -> None:
    await voice.create_topic()
    for topic, code in (("orders", 0), ("nowhere", 17), ("%RETRY%readers", 16)):
        body = RequestModeBody(topic=topic, consumer_group="readers", mode="POP")
        assert (await voice.ask(SetMessageRequestModeRequestHeader(), body)).code == code
    reply = await voice.ask(GetAllMessageRequestModeRequestHeader())
    told = decode_body(reply.body_view, MessageRequestModes, reply.encoding)
    assert told.message_request_mode_map["orders"]["readers"].mode == "POP"
    await rig.settle()
    file = rig.broker.config.data / "config" / "messageRequestMode.json"
    assert json.loads(file.read_bytes())["messageRequestModeMap"].keys() == {"orders"}


async def test_without_a_route_a_client_keeps_what_it_has(rig: BrokerRig, voice: Voice) -> None:
    await voice.create_topic()
    body = QueryAssignmentBody(topic="orders", consumer_group="readers", client_id="c1")
    reply = await voice.ask(QueryAssignmentRequestHeader(), body)
    found = decode_body(reply.body_view, QueueAssignments, reply.encoding)
    assert (reply.code, found.message_queue_assignments) == (0, None)


def test_only_pops_share_queues_and_retry_topics_are_pulled() -> None:  # K-20
    assert RequestModes().of("t", "g").pop_share_queue_num == 0
    pops = RequestModes(lambda: ("POP", 3))
    found = pops.of("t", "g")
    assert (found.mode, found.pop_share_queue_num) == ("POP", 3)
    found = pops.of("%RETRY%g", "g")
    assert (found.mode, found.pop_share_queue_num) == ("PULL", 0)


def test_a_copy_of_the_master_s_modes_is_saved_when_it_is_another() -> None:  # K-26
    master, modes = RequestModes(), RequestModes()
    saved: list[str] = []
    modes.changed.connect(lambda: saved.append("saved"))
    master.set(RequestModeBody(topic="t", consumer_group="g", mode="POP", pop_share_queue_num=2))
    modes.replace(master.wrapper())
    modes.replace(master.wrapper())
    assert saved == ["saved"]
    assert modes.of("t", "g").pop_share_queue_num == 2


def test_only_readable_queues_are_shared_out_in_order() -> None:  # K-22
    datas = [
        QueueData(broker_name=name, read_queue_nums=2, write_queue_nums=2, perm=perm)
        for name, perm in [("b", 6), ("c", 2), ("a", 4)]
    ]
    route = TopicRouteData(queue_datas=datas, broker_datas=[])
    assert readable_queues("t", route) == [
        MessageQueue("t", name, queue_id) for name in "ab" for queue_id in (0, 1)
    ]
