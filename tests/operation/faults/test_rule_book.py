"""Which rule fires at which call."""

from __future__ import annotations

import msgspec
import pytest

from pocketmq.operation.control.requests import MoveClockRequestHeader
from pocketmq.operation.events.log import EventLog
from pocketmq.operation.events.roles import FaultFired
from pocketmq.operation.faults.cutter import FrameCutter
from pocketmq.operation.faults.rule import Deed, FaultRule, Firing, WrongFaultError
from pocketmq.operation.faults.rule_book import RuleBook, is_own
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.frame import MAX_FRAME_BYTES, FrameDecoder, encode_frame
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.clients import GetConsumerListRequestHeader
from pocketmq.protocol.headers.groups import DeleteSubscriptionGroupRequestHeader
from pocketmq.protocol.headers.pull import PullMessageRequestHeader
from pocketmq.protocol.headers.transactions import EndTransactionRequestHeader


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


def test_a_rule_draws_the_same_whatever_rules_were_there_before_it() -> None:
    def draw(rule_id: str, **said: str) -> list[int]:
        rule = FaultRule(do="drop", probability=0.3, seed=7, id=rule_id, **said)
        return met(book(rule), 200)

    assert draw("r1") == draw("r5")
    assert draw("r1") != draw("r1", remark="another rule")


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


@pytest.mark.parametrize("sides", [("broker-a", "others"), ("others", "broker-a")])
def test_a_partition_from_others_is_one_from_every_other_role(sides: tuple[str, str]) -> None:
    rule = FaultRule(do="partition", role=sides[0], other=sides[1])
    assert book(rule).cut_addresses == {"h:2"}
    assert book(rule, role="nameserver-1").cut_addresses == {"h:1"}
    assert not book(rule).cuts_clients


def test_replicas_of_one_broker_name_are_told_apart_and_parted_from_where_slaves_follow() -> None:
    addresses = {"broker-a": "h:1", "broker-a-2": "h:2", "broker-a-3": "h:3"}
    streams = {"broker-a": ["h:11"], "broker-a-2": ["h:12"], "broker-a-3": ["h:13"]}
    rule = FaultRule(do="partition", role="broker-a-2", other="broker-a").checked()
    cut = {}
    for name in addresses:
        made = RuleBook("broker-a", lambda: 0)  # as all three were started
        made.replace([rule], addresses, streams=streams, role=name)
        cut[name] = made.cut_addresses
    assert cut == {"broker-a": {"h:2", "h:12"}, "broker-a-2": {"h:1", "h:11"}, "broker-a-3": set()}


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
        (FaultRule(do="delay"), "the fault delay needs a delay; set delay_ms"),
        (FaultRule(do="fail", code="SEND"), "there is no request code named 'SEND'"),
        (FaultRule(do="fail", with_code="BUSY"), "there is no response code named 'BUSY'"),
        (FaultRule(do="partition", role="a"), "needs two different sides"),
        (FaultRule(do="drop", other="b"), "only a partition can have the field other"),
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


def test_a_frame_that_follows_what_was_passed_on_uncut_is_judged() -> None:
    one, two = (b"".join(encode_frame(Command(11, None, b"abc", opaque=n))) for n in (1, 2))
    cutter = FrameCutter(passed=one[:9])
    assert cutter.feed(one[9:12]) == []
    assert cutter.rest() == one[9:12]
    [second] = cutter.feed(two)
    assert second.raw == two
    assert second.command is not None


def test_a_book_without_rules_lets_all_pass() -> None:
    empty = RuleBook("broker-a", lambda: 0)
    assert (empty.is_armed, empty.cuts_clients) == (False, False)


def test_what_is_no_frame_passes_for_others_to_refuse() -> None:
    cutter = FrameCutter()
    assert cutter.feed(b"GET / HTTP/1.1") == [(b"GET / HTTP/1.1", None)]
    assert cutter.feed(b"more") == [(b"more", None)]


def test_all_that_fired_is_told_in_order_and_counted() -> None:
    made = book(FaultRule(do="drop", code=11), FaultRule(do="slow-fsync", delay_ms=5))
    assert (made.fired, list(made.firings), made.counts()) == (0, [], {"r1": 0, "r2": 0})
    made.meets(pull(), leaves=False)
    made.meets_disk("sync_directory", "/store")
    made.meets(pull(topic="other"), leaves=False)
    assert made.fired == 3
    assert made.counts() == {"r1": 2, "r2": 1}
    assert made.firings[0] == Firing(1, "r1", "drop", "broker-a", 7, 11, "orders", "billing")
    assert made.firings[1] == Firing(2, "r2", "slow-fsync", "broker-a", 7, path="/store")
    assert [each.number for each in made.since(1)] == [2, 3]
    assert made.since(3) == []
    for _ in range(1_000):
        made.meets(pull(), leaves=False)
    assert (len(made.firings), made.firings[0].number) == (1_000, 4)


def test_events_tell_of_a_rule_that_fires() -> None:
    log = EventLog("broker-a", lambda: 7, lambda: 7_000, always=True)
    made = RuleBook("broker-a", lambda: 7, log)
    made.replace([FaultRule(do="drop", id="r1").checked()], {})
    made.meets(pull(), leaves=False)
    [told] = log.read(0).events
    assert isinstance(told, FaultFired)
    assert (told.rule, told.do, told.role, told.code) == ("r1", "drop", "broker-a", 11)
    assert (told.topic, told.group, told.path) == ("orders", "billing", None)
    silent = EventLog("broker-a", lambda: 7, lambda: 7_000)
    RuleBook("broker-a", lambda: 7, silent).replace([], {})
    assert silent.read(0).last == 0


def test_listeners_hear_of_new_rules_until_they_leave() -> None:
    made, heard = book(), [0]

    def listener() -> None:
        heard[0] += 1

    made.listen(listener)
    made.listen(listener)
    made.replace([], {})
    assert heard == [1]
    made.unlisten(listener)
    made.unlisten(listener)
    made.replace([], {})
    assert heard == [1]


def test_a_book_says_what_its_rules_look_at() -> None:
    empty = book()
    assert (empty.is_armed, empty.cuts_clients, empty.has_disk_rules) == (False, False, False)
    assert empty.cut_addresses == frozenset()
    network = book(FaultRule(do="reset", role="broker-a"))
    assert (network.is_armed, network.has_disk_rules) == (True, False)
    disk = book(FaultRule(do="disk-error", nth=1))
    assert (disk.is_armed, disk.has_disk_rules, disk.fills_disk()) == (False, True, False)
    parted = book(FaultRule(do="partition", role="clients", other="broker-a"))
    assert (parted.is_armed, parted.cuts_clients) == (True, True)
    assert book(FaultRule(do="partition", role="broker-a", other="unknown")).cut_addresses == set()
    full = {"nth": (FaultRule(do="disk-full", nth=1), False)}
    full["times"] = (FaultRule(do="disk-full", times=1), False)
    full["always"] = (FaultRule(do="disk-full"), True)
    for rule, fills in full.values():
        assert book(rule).fills_disk() is fills
    both = book(FaultRule(do="disk-full"), FaultRule(do="slow-fsync", delay_ms=1))
    assert both.fills_disk()


@pytest.mark.parametrize(
    ("deed", "calls"),
    [
        ("slow-fsync", {"sync", "sync_directory"}),
        ("disk-error", {"create_file", "resize_file", "reserve", "write_file", "write_text"}),
    ],
)
def test_each_disk_rule_has_its_calls(deed: Deed, calls: set[str]) -> None:
    made = book(FaultRule(do=deed, delay_ms=1 if deed == "slow-fsync" else 0))
    names = ["sync", "sync_directory", "create_file", "resize_file", "reserve", "write_file"]
    names += ["write_text", "read_file"]
    assert {each for each in names if made.meets_disk(each, "x")} == calls


@pytest.mark.parametrize(
    ("code", "is_ours"), [(30_000, False), (30_001, True), (32_767, True), (32_768, False)]
)
def test_our_own_codes_are_a_range(code: int, is_ours: bool) -> None:
    assert is_own(code) is is_ours


def test_a_request_that_says_no_names_meets_rules_without_them_only() -> None:
    unknown = Command(12_345, None)
    assert book(FaultRule(do="drop")).meets(unknown, leaves=False) is not None
    assert book(FaultRule(do="drop", topic="orders")).meets(unknown, leaves=False) is None
    broken = FrameDecoder().feed(b"".join(encode_frame(Command(11, None))))[0]
    made = book(FaultRule(do="drop", group="billing"), FaultRule(do="lose"))
    met_by = made.meets(broken, leaves=False)
    assert met_by is not None
    assert met_by.id == "r2"
    assert (made.firings[0].topic, made.firings[0].group) == (None, None)


def test_the_group_of_any_request_is_found() -> None:
    ending = EndTransactionRequestHeader(
        producer_group="g2",
        tran_state_table_offset=0,
        commit_log_offset=0,
        commit_or_rollback=8,
        msg_id="m",
    )
    headers: dict[str, Header] = {
        "g1": GetConsumerListRequestHeader(consumer_group="g1"),
        "g2": ending,
        "g3": DeleteSubscriptionGroupRequestHeader(group_name="g3"),
    }
    for group, header in headers.items():
        made = book(FaultRule(do="drop", group=group))
        frame = b"".join(encode_frame(Command(header.CODE, header)))
        assert made.meets(FrameDecoder().feed(frame)[0], leaves=False) is not None
        assert made.firings[0].group == group


def test_codes_are_numbers_or_names_of_any_case() -> None:
    def code_of(code: int | str) -> int | str | None:
        return FaultRule(do="fail", code=code, with_code=code).checked().code

    assert code_of(17) == code_of("17") == code_of(" 17 ") == 17
    assert FaultRule(do="fail", with_code="-1006").checked().with_code == -1006
    plain = FaultRule(do="fail").checked()
    assert (plain.code, plain.codes, plain.with_code, plain.probability) == (None, None, 1, 1.0)
    assert (plain.seed, plain.delay_ms) == (0, 0)
    assert FaultRule(do="drop", code="PULL_MESSAGE").checked().codes == {11, 361}


@pytest.mark.parametrize(
    "rule",
    [
        FaultRule(do="slow-fsync"),
        FaultRule(do="partition", other="b"),
        FaultRule(do="partition", role="a", other="a"),
        FaultRule(do="partition", role="a", other="b", times=1),
        FaultRule(do="partition", role="a", other="b", probability=0.5),
        FaultRule(do="partition", role="a", other="b", code=11),
        FaultRule(do="disk-error", code=11),
        FaultRule(do="slow-fsync", delay_ms=1, group="g"),
    ],
)
def test_each_contradiction_is_refused(rule: FaultRule) -> None:
    with pytest.raises(WrongFaultError):
        rule.checked()


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("nth", 1, 0),
        ("times", 1, 0),
        ("probability", 1.0, 0.0),
        ("probability", 0.01, 1.01),
        ("delay_ms", 600_000, 600_001),
        ("delay_ms", 0, -1),
    ],
)
def test_numbers_of_a_rule_have_bounds(field: str, good: float, bad: float) -> None:
    assert msgspec.convert({"do": "drop", field: good}, FaultRule)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"do": "drop", field: bad}, FaultRule)


def test_frames_of_any_legal_length_are_cut_and_no_others() -> None:
    shortest = (4).to_bytes(4) + bytes(4)
    following = b"".join(encode_frame(Command(11, None)))
    told = FrameCutter().feed(shortest + following)
    assert [each.raw for each in told] == [shortest, following]
    for length in (3, -1, MAX_FRAME_BYTES - 3):
        cutter = FrameCutter()
        whole = b"".join(encode_frame(Command(11, None)))
        told = cutter.feed(whole + length.to_bytes(4, signed=True))
        assert [each.raw for each in told] == [whole, length.to_bytes(4, signed=True)]
        assert cutter.feed(b"x") == [(b"x", None)]
    longest = FrameCutter()
    assert longest.feed((MAX_FRAME_BYTES - 4).to_bytes(4)) == []
    assert longest.rest() == (MAX_FRAME_BYTES - 4).to_bytes(4)
    assert longest.rest() == b""
