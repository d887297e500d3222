"""A made-up recording in which everything happens that the page shows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from pocketmq.operation.events import Event
from pocketmq.operation.events.groups import (
    Allocated,
    MemberJoined,
    MemberLeft,
    MemberNotified,
    NotificationHeard,
    Rebalanced,
    RouteLearned,
)
from pocketmq.operation.events.messages import (
    MessageConsumed,
    MessageDead,
    MessageDispatched,
    MessagePulled,
    MessageSent,
    MessageSentBack,
    MessageStored,
    OffsetCommitted,
    PullHeld,
    SendAnswered,
    StoreFlushed,
)
from pocketmq.operation.events.recording import encode_recording, header_of
from pocketmq.operation.events.roles import (
    BrokerForgotten,
    BrokerRegistered,
    ClockMoved,
    FaultBegan,
    FaultEnded,
    FaultFired,
    RoleStarted,
    RoleStopped,
)
from pocketmq.protocol.allocation.averagely import AllocateMessageQueueAveragely
from pocketmq.protocol.messages.message import MessageQueue

BEGAN_MS = 1_795_369_348_000
GROUP, TOPIC = "billing", "orders"
BROKERS = ("broker-a", "broker-b")
SERVERS = ("nameserver-1", "nameserver-2")
EVIL_KEY = (
    "</script><script>globalThis.evil = true</script><img src=x onerror='globalThis.evil = 1'>"
)


def consumer(number: int) -> str:
    return f"127.0.0.1@consumer-{number}"


class Lesson:
    """Writes down what happens; `at` is in seconds since the beginning."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.moved_ms = 0
        """Protocol time that passed in no real time."""
        self._numbers = count(1)
        self._ends: dict[tuple[str, int], int] = {}
        self._logs = dict.fromkeys(BROKERS, 0)
        self._flushed = dict.fromkeys(BROKERS, 0)
        self._owned: dict[str, list[str]] = {}
        self._pulled: dict[tuple[str, int], int] = {}
        self._waiting: dict[tuple[str, int], int] = {}
        """Of each queue the offset that is still being consumed while later ones are done."""

    def tell(self, kind: Callable[..., Event], at: float, by: str, /, **fields: object) -> None:
        at_ms = BEGAN_MS + round(at * 1000) + self.moved_ms
        real_us = 50_000_000 + round(at * 1e6)
        self.events.append(kind(at_ms, by, next(self._numbers), real_us, **fields))

    def send(self, at: float, broker: str, queue: int, key: str) -> None:
        place = {"topic": TOPIC, "broker": broker, "queue": queue}
        unique, size = f"7F00000100002A{len(self.events):016X}", 180 + len(key)
        offset = self._ends.get((broker, queue), 0)
        producer = "127.0.0.1@producer-1"
        self.tell(MessageSent, at, producer, **place, unique_key=unique, client_id=producer,
                  group="shop", size=42, keys=key)  # fmt: skip
        self.tell(MessageStored, at + 0.002, broker, **place, offset=offset, size=size,
                  physical_offset=self._logs[broker], unique_key=unique, keys=key)  # fmt: skip
        self._ends[broker, queue] = offset + 1
        self._logs[broker] += size
        self.tell(MessageDispatched, at + 0.003, broker, **place, offset=offset, count=1,
                  physical_end=self._logs[broker])  # fmt: skip
        self.tell(SendAnswered, at + 0.004, producer, **place, unique_key=unique,
                  client_id=producer, status="SEND_OK", offset=offset)  # fmt: skip

    def flush(self, at: float, broker: str) -> None:
        self.tell(StoreFlushed, at, broker, broker=broker, physical_from=self._flushed[broker],
                  physical_to=self._logs[broker])  # fmt: skip
        self._flushed[broker] = self._logs[broker]

    def consume(self, at: float, *, out_of_order: bool = False) -> None:
        """Each owner pulls what is new in its queues and consumes it."""
        for client, queues in self._owned.items():
            for name in queues:
                broker, _, number = name.partition("/")
                queue, offset = int(number), self._pulled.get((broker, int(number)), 0)
                new = self._ends.get((broker, queue), 0) - offset
                place = {"topic": TOPIC, "broker": broker, "queue": queue, "group": GROUP}
                if new <= 0:
                    self.tell(PullHeld, at, broker, **place, offset=offset, peer="127.0.0.1:5")
                    continue
                self.tell(MessagePulled, at, broker, **place, offset=offset, end=offset + new,
                          count=new, size=new * 200, client_id=client)  # fmt: skip
                done = [*self._late(broker, queue), *range(offset, offset + new)]
                if out_of_order:
                    self._waiting[broker, queue] = done.pop(0)
                for step, each in enumerate(reversed(done) if out_of_order else done):
                    self.tell(MessageConsumed, at + 0.01 + step / 1000, client, **place,
                              offset=each, client_id=client, status="success")  # fmt: skip
                self._pulled[broker, queue] = offset + new
                committed = self._waiting.get((broker, queue), offset + new)
                self.tell(OffsetCommitted, at + 0.2, broker, **place, offset=committed,
                          before=offset)  # fmt: skip

    def _late(self, broker: str, queue: int) -> list[int]:
        late = self._waiting.pop((broker, queue), None)
        return [] if late is None else [late]

    def rebalance(self, at: float, members: list[str]) -> None:
        """All members share the queues anew, one shortly after the other."""
        members = sorted(members)
        queues = [MessageQueue(TOPIC, broker, n) for broker in BROKERS for n in range(4)]
        names = _texts(queues)
        strategy = AllocateMessageQueueAveragely()
        for number, client in enumerate(members):
            moment = at + 0.12 * number
            own = _texts(strategy.allocate(GROUP, client, queues, members))
            self.tell(Allocated, moment, client, group=GROUP, client_id=client, topic=TOPIC,
                      strategy="AVG", queues=names, members=members, own=own,
                      arithmetic=strategy.explain(client, queues, members))  # fmt: skip
            before = self._owned.get(client, [])
            if own == before:
                continue
            self._owned[client] = own
            self.tell(Rebalanced, moment + 0.01, client, group=GROUP, client_id=client,
                      queues=[f"{TOPIC} {each}" for each in own],
                      gained=[f"{TOPIC} {each}" for each in own if each not in before],
                      lost=[f"{TOPIC} {each}" for each in before if each not in own])  # fmt: skip

    def join(self, at: float, number: int, members: list[str]) -> None:
        for broker in BROKERS:
            self.tell(
                MemberJoined, at, broker, group=GROUP, client_id=consumer(number), broker=broker
            )
            for each in members:
                self.tell(
                    MemberNotified, at + 0.01, broker, group=GROUP, client_id=each, broker=broker
                )
                self.tell(NotificationHeard, at + 0.02, each, group=GROUP, client_id=each)

    def leave(self, at: float, number: int) -> None:
        self._owned.pop(consumer(number), None)
        for broker in BROKERS:
            self.tell(MemberLeft, at, broker, group=GROUP, client_id=consumer(number),
                      broker=broker, how="closed")  # fmt: skip


def _texts(queues: list[MessageQueue]) -> list[str]:
    return [f"{each.broker_name}/{each.queue_id}" for each in queues]


def lesson_events() -> list[Event]:
    """Consumers come and go, a broker freezes, 126 s pass, nameservers forget it, it comes back."""
    lesson = Lesson()
    for at, role in enumerate((*SERVERS, *BROKERS)):
        lesson.tell(RoleStarted, at * 0.05, "cluster", role=role)
    for server in SERVERS:
        for broker in BROKERS:
            lesson.tell(BrokerRegistered, 0.4, server, broker=broker, nameserver=server)
    first, second, third = consumer(1), consumer(2), consumer(3)
    producer = "127.0.0.1@producer-1"
    for client, brokers, at in ((producer, "a", 1.0), (first, "ab", 1.0), (producer, "ab", 1.7)):
        known = [f"broker-{each}/{number}" for each in brokers for number in range(4)]
        lesson.tell(RouteLearned, at, client, client_id=client, topic=TOPIC, queues=known)
    lesson.join(1.0, 1, [])
    lesson.rebalance(1.1, [first])
    _traffic(lesson, 1.4, 3.0)
    lesson.join(3.0, 2, [first])
    lesson.rebalance(3.2, [first, second])
    _traffic(lesson, 3.6, 5.4, out_of_order=True)
    lesson.join(5.5, 3, [first, second])
    lesson.rebalance(5.7, [first, second, third])
    _traffic(lesson, 6.2, 8.5)
    lesson.leave(8.6, 2)
    _traffic(lesson, 8.7, 9.6)
    lesson.rebalance(9.7, [first, third])
    lesson.tell(FaultBegan, 9.8, "cluster", rule="r2", do="partition", role="broker-a",
                other="nameserver-1")  # fmt: skip
    lesson.tell(FaultBegan, 9.8, "cluster", rule="r3", do="partition", role="broker-b",
                other="clients")  # fmt: skip
    for rule in ("r2", "r3"):
        lesson.tell(FaultEnded, 10.4, "cluster", rule=rule)
    lesson.tell(FaultFired, 10.5, "broker-a", rule="r1", do="slow-fsync", role="broker-a")
    lesson.tell(MessageSentBack, 10.6, "broker-a", topic=f"%RETRY%{GROUP}", broker="broker-a",
                group=GROUP, physical_offset=0, origin_topic=TOPIC, attempt=1,
                delay_level=3)  # fmt: skip
    lesson.tell(MessageDead, 10.8, "broker-a", topic=f"%DLQ%{GROUP}", broker="broker-a",
                group=GROUP, physical_offset=0, origin_topic=TOPIC, attempt=16)  # fmt: skip
    _traffic(lesson, 10.9, 12.0)
    lesson.tell(RoleStopped, 12.0, "cluster", role="broker-b", how="frozen")
    lesson.moved_ms += 126_000
    lesson.tell(ClockMoved, 13.0, "cluster", from_ms=BEGAN_MS + 13_000)
    for server in SERVERS:
        lesson.tell(BrokerForgotten, 13.01, server, broker="broker-b", nameserver=server,
                    how="expired")  # fmt: skip
    _traffic(lesson, 13.2, 15.0, brokers=("broker-a",))
    lesson.tell(RoleStarted, 15.2, "cluster", role="broker-b")
    lesson.tell(BrokerRegistered, 15.4, SERVERS[0], broker="broker-b", nameserver=SERVERS[0])
    lesson.tell(BrokerRegistered, 16.2, SERVERS[1], broker="broker-b", nameserver=SERVERS[1])
    _traffic(lesson, 16.4, 18.0)
    return sorted(lesson.events, key=lambda event: event.real_us)


def _traffic(
    lesson: Lesson,
    begin: float,
    end: float,
    *,
    brokers: tuple[str, ...] = BROKERS,
    out_of_order: bool = False,
) -> None:
    at, number = begin, 0
    while at < end:
        broker = brokers[number % len(brokers)]
        key = EVIL_KEY if number == 3 else f"order-{len(lesson.events)}"
        lesson.send(at, broker, number // len(brokers) % 4, key)
        if number % 6 == 5:
            lesson.consume(at + 0.03, out_of_order=out_of_order)
        if number % 9 == 8:
            lesson.flush(at + 0.04, broker)
        at, number = at + 0.06, number + 1


def lesson_recording() -> bytes:
    """The lesson as a recording; every run makes the same bytes."""
    return encode_recording(header_of("lesson", BEGAN_MS, [*SERVERS, *BROKERS]), lesson_events())
