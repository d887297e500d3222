"""The harness itself, without Java: what it draws, hides, compares, shrinks and prints."""

from __future__ import annotations

import json
import struct
import zlib
from collections import Counter
from dataclasses import replace

import pytest

from parity import controller, found, nameserver
from parity.catalogue import catalogue
from parity.compare import Difference, differences, tree_of
from parity.drawing import drawn, state
from parity.ledger import read
from parity.rules import MOST, RULES, SET_ORDER, Pair, normalised
from parity.shrinking import shrunk
from parity.steps import Filling, Step, source
from parity.wire import Answer, NotJsonError, decode, encode, parse_json, records_in

PAIR = Pair("5z", 1_700_000_000_000, 1_700_000_001_000)
ASK = Step("GET_TOPIC_CONFIG", {"topic": "{t0}"})


def answer(code: int = 0, body: bytes = b"", **ext: str) -> Answer:
    return Answer("answered", code, 1, 1, 479, "JAVA", None, ext, body, "json")


def test_a_seed_draws_the_same_sequence_again_and_another_seed_another() -> None:
    assert drawn("a:1") == drawn("a:1")
    assert drawn("a:1") != drawn("a:2")
    assert drawn("a:1", rough=True)[0].code == "UPDATE_AND_CREATE_TOPIC"


def test_in_three_thousand_pairs_each_important_code_is_drawn_in_a_hundred() -> None:
    count = Counter(code for n in range(3000) for code in {step.code for step in drawn(f"c:{n}")})
    important = {
        "SEND_MESSAGE", "SEND_MESSAGE_V2", "SEND_BATCH_MESSAGE", "CONSUMER_SEND_MSG_BACK",
        "PULL_MESSAGE", "LITE_PULL_MESSAGE", "UPDATE_CONSUMER_OFFSET", "QUERY_CONSUMER_OFFSET",
        "INVOKE_BROKER_TO_RESET_OFFSET", "UPDATE_AND_CREATE_TOPIC", "DELETE_TOPIC_IN_BROKER",
        "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP", "DELETE_SUBSCRIPTIONGROUP", "END_TRANSACTION",
        "POP_MESSAGE", "ACK_MESSAGE", "CHANGE_MESSAGE_INVISIBLETIME", "QUERY_MESSAGE",
        "LOCK_BATCH_MQ", "HEART_BEAT",
    }  # fmt: skip
    assert {code for code in important if count[code] < 100} == set()


def test_only_codes_and_fields_that_rocketmq_declares_are_drawn() -> None:
    for number in range(200):
        for step in [*drawn(f"d:{number}"), *state()]:
            if step.code == "WAIT":
                continue
            assert step.code in catalogue().codes, step
            declared = {each.name for each in catalogue().fields(step.code)}
            assert set(step.fields) <= declared or not declared, step


def test_nameservers_are_asked_each_of_their_codes() -> None:
    drawn_in = {step.code for n in range(300) for step in nameserver.drawn(f"n:{n}")}
    assert nameserver.drawn("n:1") == nameserver.drawn("n:1")
    assert drawn_in >= {
        "REGISTER_BROKER", "UNREGISTER_BROKER", "BROKER_HEARTBEAT", "QUERY_DATA_VERSION",
        "GET_ROUTEINFO_BY_TOPIC", "GET_BROKER_CLUSTER_INFO", "GET_BROKER_MEMBER_GROUP",
        "GET_ALL_TOPIC_LIST_FROM_NAMESERVER", "GET_TOPICS_BY_CLUSTER",
        "GET_SYSTEM_TOPIC_LIST_FROM_NS", "GET_UNIT_TOPIC_LIST", "GET_HAS_UNIT_SUB_TOPIC_LIST",
        "GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST", "WIPE_WRITE_PERM_OF_BROKER",
        "ADD_WRITE_PERM_OF_BROKER", "DELETE_TOPIC_IN_NAMESRV", "REGISTER_TOPIC_IN_NAMESRV",
        "PUT_KV_CONFIG", "GET_KV_CONFIG", "DELETE_KV_CONFIG", "GET_KVLIST_BY_NAMESPACE",
        "GET_NAMESRV_CONFIG", "UPDATE_NAMESRV_CONFIG",
    }  # fmt: skip
    assert drawn_in - {"CLOSE", "WAIT"} <= set(catalogue().codes)


def test_controllers_are_asked_each_of_their_codes() -> None:
    drawn_in = {step.code for n in range(100) for step in controller.drawn(f"c:{n}")}
    assert controller.drawn("c:1") == controller.drawn("c:1")
    assert drawn_in >= {
        "CONTROLLER_ALTER_SYNC_STATE_SET", "CONTROLLER_ELECT_MASTER", "CONTROLLER_REGISTER_BROKER",
        "CONTROLLER_GET_REPLICA_INFO", "CONTROLLER_GET_METADATA_INFO",
        "CONTROLLER_GET_SYNC_STATE_DATA", "UPDATE_CONTROLLER_CONFIG", "GET_CONTROLLER_CONFIG",
        "CLEAN_BROKER_DATA", "CONTROLLER_GET_NEXT_BROKER_ID", "CONTROLLER_APPLY_BROKER_ID",
        "BROKER_HEARTBEAT",
    }  # fmt: skip
    assert drawn_in - {"CLOSE", "WAIT"} <= set(catalogue().codes)


def test_over_the_connection_that_ends_one_replica_lives() -> None:
    for number in range(100):
        beats = [s for s in controller.drawn(f"c:{number}") if s.code == "BROKER_HEARTBEAT"]
        over_it = {
            (s.fields["brokerName"], s.fields.get("brokerId")) for s in beats if s.connection
        }
        assert over_it <= {("{b0}", "1")}


def test_a_registration_is_compressed_as_brokers_do_and_its_checksum_is_told() -> None:
    step = replace(found.register(), packed=True)
    filling = Filling("5z", 1000)
    data = zlib.decompress(filling.body(step))
    (length,) = struct.unpack_from(">i", data)
    assert json.loads(data[4 : 4 + length])["counter"] == 1
    assert struct.unpack_from(">i", data, 4 + length) == (2,)
    assert b"t0-5z 1 1 6 SINGLE_TAG {}" in data
    assert data.endswith(b"[]" + bytes(4))
    assert filling.fields(step)["bodyCrc32"] == str(zlib.crc32(filling.body(step)) & 0x7FFFFFFF)


def test_pops_of_all_queues_are_compared_in_the_order_of_queues() -> None:
    pop = found.pop(queueId=-1)
    one = tree_of(answer(startOffsetInfo="0 1 5;0 0 7"), pop)
    other = tree_of(answer(startOffsetInfo="0 0 7;0 1 5"), pop)
    assert differences("X", 0, one, other, PAIR) == []
    assert differences("X", 0, tree_of(answer(startOffsetInfo="0 0 8"), pop), other, PAIR) != []


def test_options_that_only_pocketmq_has_are_no_difference() -> None:
    ask = Step("GET_NAMESRV_CONFIG")

    def found_in(ours: bytes, theirs: bytes) -> list[tuple[str, str]]:
        left, right = (tree_of(answer(body=each), ask) for each in (ours, theirs))
        return [(each.field, each.theirs) for each in differences("X", 0, left, right, PAIR)]

    assert found_in(b"a=1\nmine=2", b"a=1\n") == []
    assert found_in(b"a=1\n", b"a=2\nb=3\n") == [
        ("body.options[]", '["b"]'), ("body.options.a", "'2'"),
    ]  # fmt: skip


async def test_a_pause_is_left_out_or_stays_as_it_is() -> None:
    steps = [Step("WAIT", {"ms": "500"}), ASK]

    async def shows(candidate: list[Step]) -> bool:
        assert all("ms" in step.fields for step in candidate if step.code == "WAIT")
        return [step.code for step in candidate] == ["WAIT", ASK.code]

    assert (await shrunk(steps, shows))[0] == steps[0]


def test_each_rule_has_a_reason_and_there_are_few() -> None:
    rules = [*RULES, SET_ORDER]
    assert len(rules) <= MOST
    assert all(len(rule.reason) > 20 for rule in rules)
    assert len({rule.name for rule in rules}) == len(rules)


def test_times_of_the_pair_are_alike_and_other_numbers_are_not() -> None:
    def found_in(ours: str, theirs: str) -> list[Difference]:
        left, right = (tree_of(answer(value=each), ASK) for each in (ours, theirs))
        return differences("X", 0, left, right, PAIR)

    assert found_in("1700000000001", "1700000000907") == []
    assert found_in("1600000000001", "1700000000907") != []
    assert found_in("7", "8") == [Difference("X", "ext.value", "'7'", "'8'", 0)]


def test_rows_of_other_pairs_take_no_part() -> None:
    table = {"t0-5z": {"order": True}, "t0-6z": {"order": False}, "TBW102": 1}
    assert normalised(table, PAIR, ("table",)) == {"t0": {"order": True}, "TBW102": 1}


def test_after_another_code_nothing_else_is_compared() -> None:
    ours, theirs = tree_of(answer(17, a="1"), ASK), tree_of(answer(0, a="2"), ASK)
    [only] = differences("X", 3, ours, theirs, PAIR)
    assert str(only) == "step 3, X, code: PocketMQ 17, RocketMQ 0"


def test_fastjsons_objects_as_keys_are_read() -> None:
    read_as = parse_json(b'{"offsetTable":{{"queueId":1,"topic":"t"}:{"a":[1,{}]}},2:"x"}')
    assert read_as == {"offsetTable": {'{"queueId": 1, "topic": "t"}': {"a": [1, {}]}}, "2": "x"}
    for broken in (b'{"a":', b'{"a" 1}', b"[1", b"\xff", b"{}x"):
        with pytest.raises(NotJsonError):
            parse_json(broken)


@pytest.mark.parametrize("encoding", ["json", "rocketmq"])
def test_a_frame_is_read_as_it_was_written(encoding: str) -> None:
    frame = encode(11, {"topic": "t", "ä": ""}, b"body", 7, encoding)
    (length,) = struct.unpack_from(">i", frame)
    assert length == len(frame) - 4
    read_again = decode(frame)
    assert (read_again.code, read_again.opaque, read_again.body) == (11, 7, b"body")
    assert (read_again.ext, read_again.encoding) == ({"topic": "t", "ä": ""}, encoding)


def test_what_is_no_record_is_none() -> None:
    assert records_in(b"") == records_in(b"{}") == records_in(b"\0" * 200) == []


def test_placeholders_are_filled_from_names_time_and_answers() -> None:
    filling = Filling("5z", 1000)
    filling.answers["s1"] = answer(msgId="7F00000100002A9F00000000000000FF", queueOffset="3")
    text = "{t0} {now} {now-1} {s1.ext.queueOffset} {s1.physical} {s1.msg0.KEYS} {s9.ext.x} {0}"
    assert filling.text(text) == "t0-5z 1000 999 3 255   {0}"
    assert filling.lacks(Step("X", {"a": "{s1.ck0}"}))
    assert not filling.lacks(Step("X", {"a": "{t0}", "b": ""}))


async def test_a_sequence_is_shrunk_to_what_still_differs() -> None:
    steps = drawn("shrink:1")
    wanted = next(step for step in steps if len(step.fields) > 3)
    name = sorted(wanted.fields)[0]

    async def shows(candidate: list[Step]) -> bool:
        return any(s.code == wanted.code and name in s.fields for s in candidate)

    [left] = await shrunk(steps, shows, most_runs=2000)
    assert (left.code, set(left.fields), left.body) == (wanted.code, {name}, "")


def test_a_printed_sequence_can_be_pasted() -> None:
    steps = [Step("SEND_MESSAGE", {"topic": "{t0}"}, "x", label="s1", connection=1), ASK]
    steps.append(Step("VIEW_MESSAGE_BY_ID", {"offset": "{s1.physical}"}, oneway=True))
    pasted = eval(f"{{{source(steps)}}}", {"Step": Step})
    assert pasted == {"what it is": steps}


@pytest.mark.parametrize(
    ("field", "reason", "why"),
    [("body", "r" * 20, "one field"), ("ext.a*", "r" * 20, "one field"), ("ext.a", "", "reason")],
)
def test_a_ledger_entry_names_one_field_and_says_why(field: str, reason: str, why: str) -> None:
    text = f'[[stays]]\ncode = "X"\nfield = "{field}"\nreason = "{reason}"\nsource = "Y"\n'
    with pytest.raises(ValueError, match=why):
        read(text)


def test_a_ledger_entry_covers_its_values_and_its_sequence_alone() -> None:
    ledger = read(
        '[[stays]]\ncode = "X"\nfield = "code"\nours = "1"\nreason = "because it is so here"\n'
        'source = "Y"\nshown_by = "probe"\n'
    )
    one, other = Difference("X", "code", "1", "0", 0), Difference("X", "code", "2", "0", 0)
    assert ledger.unexplained([one, other], "probe") == [other]
    assert ledger.unexplained([one]) == [one]
    assert ledger.stale() == []


def test_the_ledger_can_be_read_and_its_sequences_exist() -> None:
    for of, stays, mended in (
        ("broker", found.STAYS, found.MENDED),
        ("nameserver", found.NAMESERVER_STAYS, found.NAMESERVER_MENDED),
    ):
        assert {entry.shown_by for entry in read(of=of).entries} - {""} <= set(stays)
        assert set(stays).isdisjoint(mended)
