"""What a role remembers of its events, and what it tells who asks late or rarely."""

from __future__ import annotations

from typing import Any

import pytest

from pocketmq.operation.events.event import Event
from pocketmq.operation.events.groups import RouteLearned
from pocketmq.operation.events.log import EventLog
from pocketmq.operation.events.messages import MessageDispatched, MessageStored
from pocketmq.operation.events.roles import ClockMoved, EventsCounted
from pocketmq.operation.events.sink import NO_EVENTS, Place, sample_number


class Time:
    def __init__(self) -> None:
        self.us = 0

    def now_us(self) -> int:
        return self.us

    def now_ms(self) -> int:
        return self.us // 1000


def moved(log: EventLog) -> None:
    log.emit(ClockMoved(*log.stamp(), from_ms=0))


def test_a_log_is_off_until_somebody_reads() -> None:
    time = Time()
    log = EventLog("broker-a", time.now_ms, time.now_us)
    assert not log.is_on
    assert not NO_EVENTS.is_on
    assert log.read(-1).events == []
    assert log.is_on
    moved(log)
    reading = log.read(0)
    assert [each.seq for each in reading.events] == [1]
    time.us += 11_000_000
    assert not log.wants(MessageStored)
    assert not log.is_on


def test_a_log_that_is_always_on_tells_the_first_reader_what_was() -> None:
    time = Time()
    log = EventLog("broker-a", time.now_ms, time.now_us, always=True, most=10)
    for _ in range(15):
        moved(log)
    reading = log.read(0, most=4)
    assert [each.seq for each in reading.events] == [6, 7, 8, 9]
    assert (reading.missed, reading.last) == (5, 9)
    assert [each.seq for each in log.read(reading.last).events] == [10, 11, 12, 13, 14, 15]
    assert log.read(15).events == []
    assert log.read(99).last == 15  # the number is of an earlier life


def test_a_fact_is_told_to_whoever_begins_to_read_later() -> None:
    time = Time()
    log = EventLog("c1", time.now_ms, time.now_us)

    def learn(topic: str, *queues: str) -> None:
        log.fact(
            topic,
            lambda stamp: RouteLearned(*stamp, client_id="c1", topic=topic, queues=list(queues)),
        )

    learn("orders", "broker-a/0")
    learn("orders", "broker-a/0", "broker-b/0")  # takes the place of the one before
    reading = log.read(-1)
    told = log.read(reading.last).events
    assert [each.queues for each in told if isinstance(each, RouteLearned)] == [
        ["broker-a/0", "broker-b/0"]
    ]
    learn("bills", "broker-a/0")
    assert len(log.read(reading.last + 1).events) == 1
    assert log.read(log.read(-1).last).events == []  # it was on: nothing is told twice
    time.us += 11_000_000
    assert len(log.read(log.read(-1).last).events) == 2  # nobody had read for long


def test_of_very_many_messages_a_sample_is_told_and_the_rest_counted() -> None:
    time = Time()
    broker = EventLog("broker-a", time.now_ms, time.now_us)
    client = EventLog("c1", time.now_ms, time.now_us)
    told: dict[EventLog, set[int]] = {broker: set(), client: set()}
    for log in told:
        log.read(-1)
    for number in range(20_000):
        time.us += 200  # 5,000 a second
        for log in told:
            if log.wants(MessageStored, number):
                told[log].add(number)
            else:
                log.count(MessageStored, Place("orders", 0, "broker-a"), 1, 100)
        if number % 500 == 0:
            broker.read(0)
            client.read(0)
    assert told[broker] == told[client]  # a message of the sample has all its events
    assert 300 < len(told[broker]) < 700
    time.us += 500_000
    counted = [each for each in broker.read(0).events if isinstance(each, EventsCounted)]
    assert sum(each.count for each in counted) == 20_000 - len(told[broker])
    assert counted[0].kind == "message-stored"
    assert counted[0].size == 100 * counted[0].count


def test_a_log_without_samples_tells_all() -> None:
    time = Time()
    log = EventLog("seed 17", time.now_ms, time.now_us, always=True, samples=False)
    assert all(log.wants(MessageDispatched) for _ in range(1000))


def test_the_number_of_a_message_is_that_of_its_key() -> None:
    assert sample_number("7F000001000018B4AAC20000000A002A", 7) == 42
    assert sample_number("not hexadecimal", 7) == 7
    assert sample_number(None, 7) == 7
    assert sample_number(None) == sample_number("not hexadecimal") == 0, "in every sample"


# -- exact moments and numbers -------------------------------------------------------------------


NOBODY = 2**62 - 1
"""A mask that hardly any number passes."""


def new_log(time: Time, **options: Any) -> EventLog:
    return EventLog("broker-a", time.now_ms, time.now_us, **options)


def test_it_is_off_ten_seconds_after_the_last_reading_and_forgets_all() -> None:
    time = Time()
    log = new_log(time)
    time.us = 5_000_000
    log.read(-1)
    moved(log)
    log.count(MessageStored, Place("orders", 0, "broker-a"), 1, 100)
    time.us = 14_900_000
    assert log.wants(MessageStored)
    assert log.is_on
    time.us = 14_999_999
    assert log.wants(MessageStored), "the window is not over"
    time.us = 15_000_000
    assert not log.wants(MessageDispatched)
    assert not log.is_on
    reading = log.read(0)
    assert (reading.events, reading.missed, reading.last) == ([], 0, 2)
    assert not new_log(Time()).wants(MessageStored), "nobody has read it yet"
    always = new_log(time, always=True)
    time.us += 60_000_000
    assert always.wants(MessageStored)
    assert always.is_on


def test_a_stamp_holds_both_times_the_name_and_the_number() -> None:
    time = Time()
    time.us = 7_000_500
    log = new_log(time)
    assert [log.stamp() for _ in range(2)] == [
        (7_000, "broker-a", 1, 7_000_500),
        (7_000, "broker-a", 2, 7_000_500),
    ]
    assert log.read(-1).now_us == 7_000_500


def test_a_clock_is_asked_at_every_eighth_call_of_a_kind() -> None:
    time = Time()
    asked: list[int] = []

    def now_us() -> int:
        asked.append(1)
        return time.us

    log = EventLog("broker-a", time.now_ms, now_us, always=True)
    log.wants(MessageStored)
    log.wants(MessageStored)
    asked.clear()
    for _ in range(80):
        log.wants(MessageStored)
    assert len(asked) == 10
    log.mask(MessageDispatched, 8)
    asked.clear()
    for _ in range(20):
        log.mask(MessageDispatched, 4)
    assert len(asked) == 10


def test_three_hundred_come_at_once_and_then_a_few_of_each_window() -> None:
    time = Time()
    log = new_log(time, always=True)
    first = [number for number in range(1_000) if log.wants(MessageStored, number)]
    assert first == list(range(300))
    time.us += 100_000
    second = [number for number in range(1_000) if log.wants(MessageStored, number)]
    assert second == [512], "one of 512, at most 2 of a window"
    time.us += 99_999
    assert not log.wants(MessageStored, 1), "it is still that window"
    time.us += 2_000_001
    third = [number for number in range(1_000) if log.wants(MessageStored, number)]
    assert third == list(range(0, 86, 2)), "1 of the window before is left, and 2 of each since"


def test_a_batch_is_told_by_its_mask_in_the_same_measure() -> None:
    time = Time()
    log = new_log(time, always=True)
    assert log.mask(MessageStored, 300) == 0
    assert log.mask(MessageStored, 1) == NOBODY
    time.us += 100_000
    assert log.mask(MessageStored, 300) == 255
    assert log.mask(MessageStored, 64) == NOBODY
    log.mask(MessageStored, 10_000_000)
    time.us += 100_000
    assert log.mask(MessageStored, 8) == 4095, "one of 4,096 at least"
    other = new_log(time, always=True, samples=False)
    assert other.mask(MessageStored, 10_000) == 0


def test_what_is_counted_is_told_every_half_second() -> None:
    time = Time()
    log = new_log(time, always=True)
    place = Place("orders", 3, "broker-a", "g")
    log.read(0)
    log.count(MessageStored, place, 2, 100)
    log.count(MessageStored, place)
    log.counter(MessageDispatched, place)
    time.us = 499_999
    assert log.read(0).events == []
    time.us = 500_000
    [told] = log.read(0).events
    assert told == EventsCounted(
        500, "broker-a", 1, 500_000, kind="message-stored", count=2, topic="orders", queue=3,
        broker="broker-a", group="g", messages=3, size=100,
    )  # fmt: skip
    time.us = 1_000_000
    assert log.read(1).events == [], "nothing came since"
    log.count(MessageStored, place)
    time.us = 1_500_000
    log.wants(MessageDispatched)
    [again] = log.read(1).events
    assert isinstance(again, EventsCounted)
    assert (again.count, again.messages, again.size) == (1, 1, 0)


def test_who_reads_gets_what_is_behind_its_number() -> None:
    time = Time()
    log = new_log(time, most=5)
    log.read(-1)
    for _ in range(8):
        moved(log)
    numbers = {
        after: [each.seq for each in log.read(after).events] for after in (0, 2, 3, 4, 7, 8, 9)
    }
    kept = [4, 5, 6, 7, 8]
    assert numbers == {0: kept, 2: kept, 3: kept, 4: kept[1:], 7: [8], 8: [], 9: kept}
    readings = [log.read(after, most=2) for after in (0, 1, 3, 6, 8, -1)]
    assert [(each.missed, each.last) for each in readings] == [
        (0, 5), (2, 5), (0, 5), (0, 8), (0, 8), (0, 8),
    ]  # fmt: skip
    many = new_log(time, always=True)
    for _ in range(2_500):
        moved(many)
    assert len(many.read(0).events) == 2_000


def test_numbers_that_were_given_and_not_told_yet_are_not_waited_for() -> None:
    time = Time()
    log = new_log(time, always=True, most=3)
    first = log.stamp()
    moved(log)
    log.stamp()
    reading = log.read(0)
    assert ([each.seq for each in reading.events], reading.last) == ([2], 2)
    log.emit(ClockMoved(*first, from_ms=0))
    assert [each.seq for each in log.read(0).events] == [2, 1]
    nothing = new_log(time, always=True)
    nothing.stamp()
    empty = nothing.read(0)
    assert (empty.events, empty.missed, empty.last) == ([], 1, 1)


def test_of_many_facts_the_oldest_are_given_up() -> None:
    time = Time()
    log = new_log(time)

    def learn(number: int) -> None:
        log.fact(str(number), lambda stamp: ClockMoved(*stamp, from_ms=number))

    def facts() -> list[int]:
        after = log.read(-1).last
        return [each.from_ms for each in log.read(after).events if isinstance(each, ClockMoved)]

    for number in range(1_000):
        learn(number)
    assert facts() == list(range(1_000))
    time.us += 9_999_999
    assert facts() == [], "it is still on"
    time.us += 10_000_000
    learn(0)  # now it is the youngest
    learn(1_000)
    time.us += 1
    assert facts() == [*range(2, 1_000), 0, 1_000]


def test_facts_are_told_again_when_the_lease_is_over_to_the_microsecond() -> None:
    time = Time()
    log = new_log(time)
    log.read(-1)
    log.fact("a", lambda stamp: ClockMoved(*stamp, from_ms=7))
    time.us = 10_000_000
    assert len(log.read(log.read(-1).last).events) == 1


def test_a_number_of_an_earlier_life_is_as_none() -> None:
    log = new_log(Time(), always=True)
    for _ in range(3):
        moved(log)
    reading = log.read(99)
    assert ([each.seq for each in reading.events], reading.missed) == ([1, 2, 3], 0)
    log.stamp()  # of an event that is not told yet
    assert [[each.seq for each in log.read(after).events] for after in (1, 2)] == [[2, 3], [3]]


def test_each_kind_begins_with_three_hundred_and_so_does_a_log_that_was_off() -> None:
    time = Time()
    log = new_log(time)
    log.read(-1)

    def told(kind: type[Event]) -> list[int]:
        return [number for number in range(1_000) if log.wants(kind, number)]

    assert told(MessageDispatched) == told(MessageStored) == list(range(300))
    time.us += 100_000
    assert log.wants(MessageStored), "what has no number is in every sample"
    assert told(MessageStored) == [0]
    time.us += 10_000_000
    for _ in range(8):
        if log.is_on:
            log.wants(MessageStored, 1)
    assert not log.is_on
    log.read(-1)
    assert told(MessageStored) == list(range(300))


def test_counted_events_are_told_once_at_their_time_and_only_of_places_that_have_some() -> None:
    time = Time()
    log = new_log(time)
    log.read(-1)
    one, other = Place("orders", 0, "broker-a"), Place("orders", 1, "broker-a")

    def told() -> list[tuple[int, int]]:
        events = log.read(0).events
        return [(each.queue, each.count) for each in events if isinstance(each, EventsCounted)]

    log.count(MessageStored, one)
    log.count(MessageStored, other)
    time.us = 500_000
    assert not log.mask(MessageDispatched, 1)
    log.count(MessageStored, other)
    assert told() == [(0, 1), (1, 1)]
    time.us = 999_999
    assert told() == [(0, 1), (1, 1)]
    time.us = 1_000_000
    assert told() == [(0, 1), (1, 1), (1, 1)]
    log.count(MessageStored, one)
    time.us = 11_000_000
    assert not log.wants(MessageDispatched), "nobody reads"
    assert not log.is_on
    log.read(-1)
    time.us += 500_000
    assert told() == [], "it forgot them"


@pytest.mark.parametrize("told", ["111", "1110", "11100", "1011", "10011"])
def test_numbers_whose_events_come_late_hide_no_others_nor_repeat_them(told: str) -> None:
    log = new_log(Time(), always=True)
    for each in told:
        stamp = log.stamp()
        if each == "1":
            log.emit(ClockMoved(*stamp, from_ms=0))
    numbers = [number for number, each in enumerate(told, start=1) if each == "1"]
    for after in range(len(told)):
        reading = log.read(after)
        assert [each.seq for each in reading.events] == [each for each in numbers if each > after]
        assert reading.missed == 0
