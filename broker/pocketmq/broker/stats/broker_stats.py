"""How much goes through the broker: in all, per topic and per group (O-24, O-30 to O-32).

And how long puts take, in the last full minute and at most. Every count is an addition per batch;
rates are worked out when somebody asks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Final

from pocketmq.broker.stats.message_type import MessageType
from pocketmq.broker.stats.meters import Meters
from pocketmq.broker.stats.traffic import DAY_PERIOD_MS, HOUR_PERIOD_MS, Sent, Traffic, size_class
from pocketmq.protocol.messages.validation import SCHEDULE_TOPIC, is_system_topic

WINDOW_S = 600

NOT_SENT = -1
"""Instead of a `MessageType`: the broker's own messages, which no metric of sends counts."""

SCHEDULE_CONSUMER = "SCHEDULE_CONSUMER"
"""The group under which deliveries of delayed messages are counted."""


_TIMES: Final = (
    ("[<=0ms]", 1),
    ("[0~10ms]", 10),
    ("[10~50ms]", 50),
    ("[50~100ms]", 100),
    ("[100~200ms]", 200),
    ("[200~500ms]", 500),
    ("[500ms~1s]", 1_000),
    ("[1~2s]", 2_000),
    ("[2~3s]", 3_000),
    ("[3~4s]", 4_000),
    ("[4~5s]", 5_000),
    ("[5~10s]", 10_000),
)
"""Name and end of each class in ms; what is longer is `[10s~]`."""
_LONGEST_MS: Final = 10_000


class _Second:
    __slots__ = ("at", "found", "got", "missed", "put")

    def __init__(self, at: int) -> None:
        self.at = at
        self.put = 0
        self.got = 0
        self.found = 0
        self.missed = 0


class PutTimes:
    """How long puts took, in whole milliseconds; `turn` begins a new minute (O-24)."""

    __slots__ = ("_last", "_now", "max_ms")

    def __init__(self) -> None:
        self.max_ms = 0
        """The longest since the start."""
        self._now: dict[int, int] = {}
        self._last: Mapping[int, int] = {}

    def note(self, took_s: float, count: int) -> None:
        """So many messages were put in one append that took so long."""
        took_ms = int(took_s * 1000)
        if took_ms > self.max_ms:
            self.max_ms = took_ms
        if took_ms > _LONGEST_MS:
            took_ms = _LONGEST_MS
        self._now[took_ms] = self._now.get(took_ms, 0) + count

    def turn(self) -> None:
        """A minute is over."""
        self._last, self._now = self._now, {}

    def distribution(self) -> str:
        """`[<=0ms]:5 [0~10ms]:0 ... `; zeros before the first minute is over.

        RocketMQ says `null` then, at which its exporter drops the whole broker (O-25).
        """
        counts = [0] * (len(_TIMES) + 1)
        for took_ms, count in self._last.items():
            at = next((i for i, (_, end) in enumerate(_TIMES) if took_ms < end), len(_TIMES))
            counts[at] += count
        names = [*(name for name, _ in _TIMES), "[10s~]"]
        return "".join(f"{name}:{count} " for name, count in zip(names, counts, strict=True))

    def percentile(self, share: float) -> str:
        """The time within which this share of the puts was done, in ms."""
        wanted = sum(self._last.values()) * share
        passed = 0
        for took_ms in sorted(self._last):
            passed += self._last[took_ms]
            if passed >= wanted:
                return f"{took_ms:.2f}"
        return "0.00"


class BrokerStats:
    """Counters, and rates of each second of the last ten minutes.

    Times named `now` are the caller's monotonic seconds.
    """

    def __init__(self) -> None:
        self.put = Traffic()
        self.got = Traffic()
        self.put_by_people = Traffic()
        """All but system topics."""
        self.got_by_people = Traffic()
        self.topics: dict[str, Traffic] = {}
        """What was stored in each topic."""
        self.groups: dict[tuple[str, str], Traffic] = {}
        """(topic, group): what was handed out to it."""
        self.named: dict[tuple[str, str], Traffic] = {}
        """(name, key) of an item of 315 -> what is counted less often."""
        self.meters = Meters()
        """What only metrics tell."""
        self.put_times = PutTimes()
        self.puts_failed = 0
        self.longest_get_ms = 0
        self.pulls_found = 0
        self.pulls_missed = 0
        self._seconds: deque[_Second] = deque()
        self._hour_at_ms = 0
        self._day_at_ms = 0
        self._minute_at_ms = 0
        self._to_sample: deque[Traffic] = deque()
        """What `sample` has yet to look at."""
        self._sampling = (0, False, False)
        """When that began, and whether it is for the hour and for the day too."""

    @property
    def put_messages(self) -> int:
        """Stored since the start."""
        return self.put.messages

    @property
    def put_bytes(self) -> int:
        """Of the stored records."""
        return self.put.size_bytes

    @property
    def got_messages(self) -> int:
        """Handed out since the start."""
        return self.got.messages

    def note_put(
        self,
        topic: str,
        messages: int,
        size_bytes: int,
        now: float,
        took_s: float = 0.0,
        message_type: int = NOT_SENT,
        size_place: int = 0,
    ) -> None:
        """Messages were stored in a topic.

        Args:
            topic: where they are stored.
            messages: how many.
            size_bytes: of their records together.
            now: the time.
            took_s: how long the append took.
            message_type: of messages that clients sent, the number of their `MessageType`.
            size_place: place of the `size_class` of such.
        """
        traffic = self.topics.get(topic)
        if traffic is None:
            traffic = self.topics[topic] = Traffic(is_system=is_system_topic(topic))
        totals = (self.put,) if traffic.is_system else (self.put, self.put_by_people)
        for each in (traffic, *totals):  # as `Traffic.note`, in one call
            each.messages += messages
            each.size_bytes += size_bytes
            each.times += 1
        self.put_times.note(took_s, messages)
        self._second(now).put += messages
        if message_type != NOT_SENT:
            sent = traffic.sent
            if sent is None:
                sent = traffic.sent = Sent()
            sent.note(message_type, size_place, messages, size_bytes)

    def note_get(
        self,
        topic: str,
        group: str,
        messages: int,
        size_bytes: int,
        now: float,
        took_s: float = 0.0,
    ) -> None:
        """A pull or pop was answered, with nothing when `messages` is 0."""
        took_ms = int(took_s * 1000)
        if took_ms > self.longest_get_ms:
            self.longest_get_ms = took_ms
        second = self._second(now)
        if not messages:
            self.pulls_missed += 1
            second.missed += 1
            return
        traffic = self.groups.get((topic, group))
        if traffic is None:
            traffic = Traffic(is_system=is_system_topic(topic))
            self.groups[topic, group] = traffic
        totals = (self.got,) if traffic.is_system else (self.got, self.got_by_people)
        for each in (traffic, *totals):  # as `Traffic.note`, in one call
            each.messages += messages
            each.size_bytes += size_bytes
            each.times += 1
        self.pulls_found += 1
        second.got += messages
        second.found += 1

    def note_delayed(self, queue_id: int, size_bytes: int) -> None:
        """A send or a send-back was stored in a queue of the schedule topic (O-32)."""
        self._named("QUEUE_PUT_NUMS", f"{SCHEDULE_TOPIC}@{queue_id}").note(1, size_bytes)

    def note_delivered(self, topic: str, queue_id: int, size_bytes: int, now: float) -> None:
        """A message of a queue of the schedule topic was delivered to its own (O-32)."""
        key = f"{SCHEDULE_TOPIC}@{queue_id}@{SCHEDULE_CONSUMER}"
        self._named("QUEUE_GET_NUMS", key).note(1, size_bytes)
        reader = (SCHEDULE_TOPIC, SCHEDULE_CONSUMER)
        if reader not in self.groups:
            self.groups[reader] = Traffic(is_system=True)
        self.groups[reader].note(1, size_bytes)
        place = size_class(size_bytes)[0]
        self.note_put(topic, 1, size_bytes, now, 0.0, MessageType.DELAY, place)

    def note_send_back(self, topic: str, group: str) -> None:
        """A message of a topic was sent back by a group."""
        self._named("SNDBCK_PUT_NUMS", f"{topic}@{group}").note(1, 0)

    def note_check_points(self, topic: str, group: str, count: int = 1) -> None:
        """Check points of pops were stored."""
        self._named("GROUP_CK_NUMS", f"{topic}@{group}").note(count, 0)
        self._named("BROKER_CK_NUMS", "").note(count, 0)

    def note_acks(self, topic: str, group: str, count: int = 1) -> None:
        """Popped messages were acknowledged."""
        self._named("GROUP_ACK_NUMS", f"{topic}@{group}").note(count, 0)
        self._named("BROKER_ACK_NUMS", "").note(count, 0)

    def group_tps(self, topic: str, group: str) -> float:
        """Messages per second that the group got in the last minute (O-22)."""
        traffic = self.groups.get((topic, group))
        return 0.0 if traffic is None else traffic.minute_tps

    def sample(self, now_ms: int, most: float = inf) -> bool:
        """Keep how far every counter is; to be called every 10 s (O-31).

        Args:
            now_ms: the time.
            most: counters to look at in this call.

        Returns:
            Whether some are left: the next call goes on with them.
        """
        if not self._to_sample:
            self._begin_samples(now_ms)
        at_ms, hour, day = self._sampling
        for _ in range(int(min(len(self._to_sample), most))):
            traffic = self._to_sample.popleft()
            if traffic.times:
                traffic.sample(at_ms, hour=hour, day=day)
        return bool(self._to_sample)

    def _begin_samples(self, now_ms: int) -> None:
        hour = now_ms - self._hour_at_ms >= HOUR_PERIOD_MS
        day = now_ms - self._day_at_ms >= DAY_PERIOD_MS
        self._hour_at_ms = now_ms if hour else self._hour_at_ms
        self._day_at_ms = now_ms if day else self._day_at_ms
        self._sampling = (now_ms, hour, day)
        self._to_sample.extend(self._all())
        if now_ms - self._minute_at_ms >= 60_000:
            self._minute_at_ms = now_ms
            self.put_times.turn()

    def forget_topic(self, topic: str) -> None:
        """The topic was deleted."""
        self.topics.pop(topic, None)
        self.meters.forget_topic(topic)
        for key in [key for key in self.groups if key[0] == topic]:
            del self.groups[key]
        for item in [item for item in self.named if item[1].startswith(f"{topic}@")]:
            del self.named[item]

    def forget_group(self, group: str) -> None:
        """The group was deleted."""
        self.meters.forget_group(group)
        for key in [key for key in self.groups if key[1] == group]:
            del self.groups[key]
        for item in [item for item in self.named if item[1].endswith(f"@{group}")]:
            del self.named[item]

    def rates(self, now: float) -> dict[str, str]:
        """RocketMQ's five rates, each over the last 10, 60 and 600 s (O-24)."""
        return {
            "putTps": self._averages(now, lambda second: second.put),
            "getTransferredTps": self._averages(now, lambda second: second.got),
            "getFoundTps": self._averages(now, lambda second: second.found),
            "getMissTps": self._averages(now, lambda second: second.missed),
            "getTotalTps": self._averages(now, lambda second: second.found + second.missed),
        }

    def _all(self) -> Iterator[Traffic]:
        yield from (self.put, self.got, self.put_by_people, self.got_by_people)
        yield from self.topics.values()
        yield from self.groups.values()
        yield from self.named.values()

    def _named(self, name: str, key: str) -> Traffic:
        traffic = self.named.get((name, key))
        if traffic is None:
            traffic = self.named[name, key] = Traffic()
        return traffic

    def _second(self, now: float) -> _Second:
        at = int(now)
        seconds = self._seconds
        if seconds and seconds[-1].at == at:
            return seconds[-1]
        while seconds and seconds[0].at < at - WINDOW_S:
            seconds.popleft()
        seconds.append(_Second(at))
        return seconds[-1]

    def _averages(self, now: float, count: Callable[[_Second], int]) -> str:
        averages = []
        for window_s in (10, 60, WINDOW_S):
            total = sum(count(s) for s in self._seconds if s.at > now - window_s)
            averages.append(str(total / window_s))
        return " ".join(averages)
