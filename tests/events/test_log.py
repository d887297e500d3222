"""What a role remembers of its events, and what it tells who asks late or rarely."""

from __future__ import annotations

from pocketmq.protocol.events.log import EventLog
from pocketmq.protocol.events.messages import MessageDispatched, MessageStored
from pocketmq.protocol.events.roles import ClockMoved, EventsCounted
from pocketmq.protocol.events.sink import NO_EVENTS, Place, sample_number


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
    assert 400 < len(told[broker]) < 1_000
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
