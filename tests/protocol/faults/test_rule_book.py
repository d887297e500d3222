"""Which rule fires at which call."""

from __future__ import annotations

import pytest

from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.faults.cutter import FrameCutter
from pocketmq.protocol.faults.rule import FaultRule, WrongFaultError
from pocketmq.protocol.faults.rule_book import RuleBook
from pocketmq.protocol.frame import FrameDecoder, encode_frame
from pocketmq.protocol.headers.control import MoveClockRequestHeader
from pocketmq.protocol.headers.pull import PullMessageRequestHeader


def pull(topic: str = "orders", group: str = "billing", encoding: int = 77) -> Command:
    """A pull request as it comes off the wire."""
    header = PullMessageRequestHeader(
        consumer_group=group, topic=topic, queue_id=0, queue_offset=0, max_msg_nums=1, sys_flag=0
    )
    command = Command(RequestCode.PULL_MESSAGE, header, encoding=Encoding(encoding))
    return FrameDecoder().feed(b"".join(encode_frame(command)))[0]


def book(*rules: FaultRule, role: str = "broker-a") -> RuleBook:
    made = RuleBook(role, lambda: 7)
    named = [
        FaultRule(**{f: getattr(each, f) for f in each.__struct_fields__} | {"id": f"r{at}"})
        for at, each in enumerate(rules, start=1)
    ]
    made.replace([each.checked() for each in named], {"broker-a": "h:1", "nameserver-1": "h:2"})
    return made


def met(made: RuleBook, calls: int, **request: str) -> list[int]:
    """Numbers of the calls at which a rule fires."""
    return [
        at
        for at in range(1, calls + 1)
        if made.meets(pull(**request), leaves=False) is not None  # type: ignore[arg-type]
    ]


@pytest.mark.parametrize("encoding", [0, 1, 77])
def test_a_rule_concerns_the_topic_and_group_that_it_names(encoding: int) -> None:
    made = book(FaultRule(do="reset", code="PULL_MESSAGE", topic="orders", group="billing"))
    assert made.meets(pull(encoding=encoding), leaves=False) is not None
    assert made.meets(pull(topic="other", encoding=encoding), leaves=False) is None
    assert made.meets(pull(group="other", encoding=encoding), leaves=False) is None
    assert [(each.topic, each.group, each.at_ms) for each in made.firings] == [
        ("orders", "billing", 7)
    ]


def test_a_rule_fires_at_the_nth_call_and_for_as_often_as_it_says() -> None:
    assert met(book(FaultRule(do="drop", nth=3)), 6) == [3]
    assert met(book(FaultRule(do="drop", nth=3, times=2)), 6) == [3, 4]
    assert met(book(FaultRule(do="drop", times=2)), 6) == [1, 2]
    assert met(book(FaultRule(do="drop")), 3) == [1, 2, 3]


def test_a_probability_draws_the_same_from_the_same_seed() -> None:
    def draw(seed: int) -> list[int]:
        return met(book(FaultRule(do="drop", probability=0.3, seed=seed)), 200)

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)
    assert 30 < len(draw(1)) < 90


def test_only_a_request_that_leaves_can_be_lost_there() -> None:
    made = book(FaultRule(do="fail", code=11), FaultRule(do="lose", code=11, nth=2))
    assert made.meets(pull(), leaves=True) is None
    rule = made.meets(pull(), leaves=True)
    assert rule is not None
    assert rule.id == "r2"
    assert made.counts() == {"r1": 0, "r2": 1}


def test_rules_of_other_roles_and_requests_of_our_own_are_passed_over() -> None:
    assert not book(FaultRule(do="reset", role="broker-b")).is_armed
    own = Command(RequestCode.MOVE_CLOCK, MoveClockRequestHeader(time_ms=1))
    assert book(FaultRule(do="reset")).meets(own, leaves=False) is None


def test_a_rule_that_stays_keeps_its_count() -> None:
    rule = FaultRule(do="drop", nth=2, id="r1").checked()
    made = RuleBook("broker-a", lambda: 0)
    made.replace([rule], {})
    assert met(made, 1) == []
    made.replace([FaultRule(do="lose", code=40, id="r2").checked(), rule], {})
    assert met(made, 2) == [1]


def test_a_partition_is_known_by_both_sides() -> None:
    rule = FaultRule(do="partition", role="broker-a", other="nameserver-1")
    assert book(rule).cut_addresses == {"h:2"}
    assert book(rule, role="nameserver-1").cut_addresses == {"h:1"}
    assert book(rule, role="broker-b").cut_addresses == frozenset()
    assert book(FaultRule(do="partition", role="broker-a", other="clients")).cuts_clients


def test_disk_rules_fire_at_their_calls() -> None:
    made = book(FaultRule(do="slow-fsync", delay_ms=5), FaultRule(do="disk-full", nth=2))
    assert not made.is_armed
    assert made.meets_disk("read_file", "x") is None
    sync, full = made.meets_disk("sync", "x"), made.meets_disk("write_file", "y")
    assert sync is not None
    assert (sync.do, full) == ("slow-fsync", None)
    again = made.meets_disk("reserve", "y")
    assert again is not None
    assert (again.do, made.firings[-1].path) == ("disk-full", "y")


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (FaultRule(do="delay"), "delay needs delay_ms"),
        (FaultRule(do="fail", code="SEND"), "no request code is called 'SEND'"),
        (FaultRule(do="fail", with_code="BUSY"), "no response code is called 'BUSY'"),
        (FaultRule(do="partition", role="a"), "needs two sides"),
        (FaultRule(do="drop", other="b"), "other is for partition"),
        (FaultRule(do="disk-full", topic="t"), "knows no code, topic or group"),
        (FaultRule(do="partition", role="a", other="b", nth=1), "lasts until it is cleared"),
    ],
)
def test_a_rule_that_contradicts_itself_is_refused(rule: FaultRule, said: str) -> None:
    with pytest.raises(WrongFaultError, match=said):
        rule.checked()


def test_codes_may_be_names_and_stand_for_their_newer_forms() -> None:
    rule = FaultRule(do="fail", code="send_message", with_code="SYSTEM_BUSY").checked()
    assert rule.codes == {10, 310, 320}
    assert rule.with_code == ResponseCode.SYSTEM_BUSY
    assert FaultRule(do="fail", code="310").checked().codes == {310}


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_frames_are_cut_however_the_bytes_come(size: int) -> None:
    frames = [b"".join(encode_frame(Command(11, None, bytes(n), opaque=n))) for n in (0, 5, 300)]
    stream = b"".join(frames)
    cutter = FrameCutter()
    found = [f for at in range(0, len(stream), size) for f in cutter.feed(stream[at : at + size])]
    assert [each.raw for each in found] == frames
    assert [each.command.opaque for each in found if each.command] == [0, 5, 300]


def test_a_frame_whose_beginning_has_passed_is_not_judged() -> None:
    one, two = (b"".join(encode_frame(Command(11, None, b"abc", opaque=n))) for n in (1, 2))
    cutter = FrameCutter(passed=one[:9])
    first, second = cutter.feed(one[9:] + two)
    assert (first.raw, first.command) == (one[9:], None)
    assert second.raw == two
    cutter.feed(one[:5])
    assert cutter.rest() == one[:5]


def test_what_is_no_frame_passes_for_others_to_refuse() -> None:
    cutter = FrameCutter()
    assert cutter.feed(b"GET / HTTP/1.1") == [(b"GET / HTTP/1.1", None)]
    assert cutter.feed(b"more") == [(b"more", None)]
