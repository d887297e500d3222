"""How requests of two clients are compared, without sockets and without Java."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from parity.asked import HELD, MOST, RULES, Asked, differences, line_of, lines_of, story
from parity.ledger import read
from parity.peer import BUSY, SUCCESS, World
from parity.scenarios import SCENARIOS
from parity.wire import Answer, decode, frame_of

HEART_BEAT, MEMBERS, OFFSET, PULL, SEND = 34, 38, 14, 11, 310


def request(code: int, *, to: str = "broker-a", answered: int | None = 0, **ext: str) -> Asked:
    return Asked(code, ext, b"", 0, 479, "JAVA", to, 1, answered)


def queue(code: int, number: int, answered: int | None = 0) -> Asked:
    return request(code, answered=answered, topic="T", queueId=str(number))


START = [request(HEART_BEAT), request(MEMBERS, consumerGroup="g")]


def found(ours: list[Asked], theirs: list[Asked]) -> list[str]:
    return [f"{each}" for each in differences(0, lines_of(ours), lines_of(theirs))]


def test_each_rule_has_a_reason_and_there_are_few() -> None:
    assert len(RULES) <= MOST
    assert all(len(rule.reason) > 20 for rule in RULES)


def test_the_same_asked_in_the_same_order_is_no_difference() -> None:
    assert found(START, START) == []


def test_what_only_one_asks_is_a_difference() -> None:
    assert found(START[:1], START) == [
        "step 0, GET_CONSUMER_LIST_BY_GROUP, asked(g): PocketMQ 0 times, RocketMQ 1 times"
    ]
    assert found(START, START[1:]) == [
        "step 0, HEART_BEAT, asked(): PocketMQ 1 times, RocketMQ 0 times"
    ]


def test_another_order_of_codes_on_a_connection_is_a_difference() -> None:
    [only] = differences(0, lines_of(START[::-1]), lines_of(START))
    assert (only.code, only.field) == ("HEART_BEAT", "order")
    assert only.ours == "GET_CONSUMER_LIST_BY_GROUP, HEART_BEAT"


def test_the_order_of_queues_is_none_but_that_of_one_queue_is() -> None:
    by_queue = [queue(OFFSET, 0), queue(PULL, 0), queue(OFFSET, 1), queue(PULL, 1)]
    by_code = [queue(OFFSET, 1), queue(OFFSET, 0), queue(PULL, 0), queue(PULL, 1)]
    assert found(by_queue, by_code) == []
    swapped = [queue(OFFSET, 0), queue(PULL, 0), queue(PULL, 1), queue(OFFSET, 1)]
    [only] = differences(0, lines_of(by_queue), lines_of(swapped))
    assert (only.field, only.theirs) == ("order", "PULL_MESSAGE, QUERY_CONSUMER_OFFSET")
    assert only.note == "broker-a 1 T/1"


def test_requests_of_two_connections_have_no_order() -> None:
    one, other = request(HEART_BEAT), request(HEART_BEAT, to="broker-b")
    assert found([one, other], [other, one]) == []
    again = replace(one, connection=2)
    assert len(found([one], [again])) == 2


def test_repeats_count_only_where_the_answer_or_the_phase_says_so() -> None:
    assert found([*START, START[0]], START) == []
    assert lines_of(START, before=START) == []
    assert [each.code for each in lines_of(START, before=START, counts=["HEART_BEAT"])] == [
        "HEART_BEAT"
    ]
    refused = queue(PULL, 0, answered=BUSY)
    assert len(found([refused], [refused, queue(PULL, 0, answered=HELD)])) == 1


def test_sends_always_count_and_take_turns_among_brokers_and_queues() -> None:
    def send(to: str, number: str, time: str) -> Asked:
        return request(SEND, to=to, b="T", e=number, n=to, g=time, i="KEYS\x01k\x02TAGS\x01t\x02")

    ours = [send("broker-a", "0", "1700000000000"), send("broker-b", "1", "1700000000001")]
    theirs = [send("broker-b", "3", "1700000000002"), send("broker-a", "2", "1700000000003")]
    assert found(ours, theirs) == []
    assert found(ours, [*theirs, theirs[0]]) != []
    assert found(ours, [theirs[0], theirs[0]]) != [], "the second try avoids the first's broker"
    other = replace(ours[0], ext={**ours[0].ext, "i": "TAGS\x01t\x02"})
    [only] = differences(0, lines_of([other]), lines_of(theirs[:1]))
    assert (only.field, only.ours, only.theirs) == ("ext.i.KEYS", "<absent>", "'k'")


def test_locks_of_several_queues_are_compared_queue_by_queue() -> None:
    def lock(*queues: int) -> Asked:
        told = {"mqSet": [{"topic": "T", "queueId": each} for each in queues], "clientId": "c"}
        return replace(request(41), body=json.dumps(told).encode())

    assert found([lock(0, 1)], [lock(1), lock(0)]) == []
    assert found([lock(0)], [lock(1), lock(0)]) == [
        "step 0, LOCK_BATCH_MQ, asked(T/N): PocketMQ 0 times, RocketMQ 1 times"
    ]


def test_parts_differ_field_by_field_but_for_times_ids_and_addresses() -> None:
    def beat(body: str) -> Asked:
        return replace(request(HEART_BEAT), body=body.encode())

    one = '{"clientID":"c","consumerDataSet":[{"a":1},{"b":1700000000000}],"x":1}'
    other = '{"clientID":"c","consumerDataSet":[{"b":1800000000000},{"a":1}],"x":2}'
    [only] = differences(0, lines_of([beat(one)]), lines_of([beat(other)]))
    assert (only.field, only.ours, only.theirs) == ("body.json.x", "1", "2")
    text = "127.0.0.1:1 0123456789ABCDEF0123456789ABCDEF"
    tree = line_of(request(HEART_BEAT, at=text)).tree
    assert tree["ext"]["at"] == "<address> <made id>"


def test_a_story_shows_both_sides() -> None:
    told = story("start", lines_of(START), lines_of(START[:1]))
    assert told.splitlines()[0] == "start"
    assert told.count("HEART_BEAT") == 2
    assert told.count("-> 0") == 3


def test_entries_of_the_ledger_name_scenarios() -> None:
    entries = read(of="client").entries
    assert {entry.shown_by for entry in entries} - {""} <= set(SCENARIOS)


def asking(code: int, body: bytes = b"", **ext: str) -> Answer:
    return Answer("answered", code, ext=ext, body=body)


def test_the_script_answers_routes_members_offsets_and_pulls() -> None:
    world = World(addresses={"broker-a": "127.0.0.1:7"}, topics={"T": {"broker-a": 2}})
    route = world.answer("nameserver", asking(105, topic="T"))
    assert route is not None
    assert b'"brokerAddrs": {"0": "127.0.0.1:7"}' in route.body
    assert world.answer("nameserver", asking(105, topic="U")) != route
    world.answer("broker-a", asking(HEART_BEAT, b'{"clientID":"c"}'))
    members = world.answer("broker-a", asking(MEMBERS))
    assert members is not None
    assert members.body == b'{"consumerIdList": ["c"]}'
    pull = asking(PULL, topic="T", queueId="0", queueOffset="0", maxMsgNums="32")
    assert world.answer("broker-a", pull) is None
    world.put("broker-a", "T", 0, b"x")
    pulled = world.answer("broker-a", pull)
    assert pulled is not None
    assert pulled.ext["nextBeginOffset"] == "1"


def test_the_script_refuses_as_often_as_it_is_told() -> None:
    world = World(refusals={"HEART_BEAT": [BUSY]})
    beat = asking(HEART_BEAT, b'{"clientID":"c"}')
    answers = [world.answer("broker-a", beat) for _ in range(2)]
    assert [each.code for each in answers if each is not None] == [BUSY, SUCCESS]


@pytest.mark.parametrize("remark", [None, "not now"])
def test_a_servers_frame_is_read_as_it_was_written(remark: str | None) -> None:
    read_again = decode(frame_of(2, {"a": "b"}, b"body", 7, flag=1, remark=remark))
    assert (read_again.code, read_again.opaque, read_again.flag) == (2, 7, 1)
    assert (read_again.ext, read_again.body, read_again.remark) == ({"a": "b"}, b"body", remark)
