"""What is played with both clients: a start, sends, consumption, and what goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from parity.peer import BUSY, PULL_OFFSET_MOVED, Condition, Peer, asked
from parity.plays import Act, Play, Side, quietly, tells

T, GROUP = "Orders", "billing"
OTHER = "Returns"
RETRY = f"%RETRY%{GROUP}"
TBW102 = "TBW102"
LEFT = asked("UNREGISTER_CLIENT")
"""A client has gone."""
A, B = "broker-a", "broker-b"


@dataclass(frozen=True, slots=True)
class Scenario:
    """One of them.

    Attributes:
        brokers: whom the peer plays.
        prepare: sets the peer's world up.
        play: the phases.
        sample: whether CI plays it.
    """

    play: Callable[[Play], Awaitable[None]]
    brokers: tuple[str, ...] = (A,)
    prepare: Callable[[Peer], None] = lambda peer: _topic(peer, 2)
    sample: bool = False


def _topic(peer: Peer, queues: int, *brokers: str) -> None:
    peer.world.topics[T] = dict.fromkeys(brokers or (A,), queues)


def _pulls(count: int) -> list[Condition]:
    return [asked("PULL_MESSAGE", topic=T, queueId=str(queue)) for queue in range(count)]


async def sends(play: Play) -> None:
    """A producer starts, sends in each way and stops."""
    await play.phase("start", tells("producer", "p", group="makers"))
    sent = asked("SEND_MESSAGE_V2")
    await play.phase("send", tells("send", "p", topic=T, body="one"), sent)
    more = {"topic": T, "body": "two", "tags": "new", "keys": "k1 k2"}
    await play.phase("with tag and keys", tells("send", "p", **more), sent)
    await play.phase("delayed", tells("send", "p", topic=T, body="late", level="3"), sent)
    await play.phase("large", tells("send", "p", topic=T, body="x" * 5000), sent)
    await play.phase(
        "to a queue", tells("send", "p", topic=T, body="q", how="queue", broker=A), sent
    )
    await play.phase("oneway", tells("send", "p", topic=T, body="away", how="oneway"), sent)
    await play.phase(
        "batch", tells("send", "p", topic=T, body="many", how="batch"), asked("SEND_BATCH_MESSAGE")
    )
    await play.phase("stop", tells("stop", "p"), LEFT)


async def unknown_topic(play: Play) -> None:
    """A send to a topic that has no route: the default topic's, then none at all."""
    await play.phase("start", tells("producer", "p", group="makers"))
    await play.phase("send", tells("send", "p", topic="New", body="x"), asked("SEND_MESSAGE_V2"))
    await play.phase("gone", quietly(lambda side: side.peer.world.topics.clear()))
    await play.phase("send to another", tells("send", "p", topic="Newer", body="x"))
    await play.phase("stop", tells("stop", "p"))


async def transactions(play: Play) -> None:
    """A half message, and its end."""
    await play.phase("start", tells("producer", "p", group="makers", transaction="COMMIT_MESSAGE"))
    await play.phase(
        "send", tells("send", "p", topic=T, body="half", how="transaction"),
        asked("END_TRANSACTION"),
    )  # fmt: skip
    await play.phase("stop", tells("stop", "p"))


def _puts(queue: int) -> Act:
    return quietly(lambda side: side.peer.put(A, T, queue, b"one"))


def _committed(queue: int, offset: int) -> Condition:
    return asked("UPDATE_CONSUMER_OFFSET", queueId=str(queue), commitOffset=str(offset))


def _pulled(queue: int, offset: int) -> Condition:
    return asked("PULL_MESSAGE", queueId=str(queue), queueOffset=str(offset))


async def consumes(play: Play) -> None:
    """A push consumer starts, gets messages, commits, hears of its group and stops."""
    await play.phase("start", tells("consumer", "c", group=GROUP, topic=T), *_pulls(2))
    await play.phase("a message", _puts(1), _pulled(1, 1))
    await play.phase("its offset is persisted", tells("go", "c"), _committed(1, 1))
    await play.phase("another, whose pull commits the first", _puts(1), _pulled(1, 2))
    await play.phase("its offset too", tells("go", "c"), _committed(1, 2))
    members = "GET_CONSUMER_LIST_BY_GROUP"
    changed = quietly(lambda side: side.peer.notify(A, GROUP))
    await play.phase("the group changed", changed, asked(members), counts=[members])
    await play.phase("stop", tells("stop", "c"), LEFT, counts=["UPDATE_CONSUMER_OFFSET"])


async def stops_soon(play: Play) -> None:
    """A consumer has consumed, and is stopped before a timer has persisted."""
    start = tells("consumer", "c", group=GROUP, topic=T, **{"from": "first"})
    await play.phase("start", start, *_pulls(2))
    await play.phase("a message", _puts(0), _pulled(0, 1))
    await play.phase("it is consumed", tells("go", "c"))
    await play.phase("stop", tells("stop", "c"), LEFT, _committed(0, 1))


async def orderly(play: Play) -> None:
    """An orderly consumer locks, consumes after a refusal, and unlocks."""
    start = tells("consumer", "c", group=GROUP, topic=T, orderly="yes", fail="1")
    await play.phase("start", start, *_pulls(2))
    await play.phase("a message", _puts(0), _pulled(0, 1))
    await play.phase("refused, then taken", tells("go", "c", times="2"), _committed(0, 1))
    await play.phase("stop", tells("stop", "c"), LEFT, counts=["UPDATE_CONSUMER_OFFSET"])


async def sends_back(play: Play) -> None:
    """A message is refused, and goes back to its broker."""
    start = tells("consumer", "c", group=GROUP, topic=T, fail="1")
    await play.phase("start", start, *_pulls(2), asked("PULL_MESSAGE", topic=RETRY))
    await play.phase("a message", _puts(0), _pulled(0, 1))
    await play.phase("refused", tells("go", "c"), asked("CONSUMER_SEND_MSG_BACK"))
    await play.phase("its offset is persisted", quietly(lambda side: None), _committed(0, 1))
    await play.phase("stop", tells("stop", "c"), LEFT, counts=["UPDATE_CONSUMER_OFFSET"])


async def broadcasting(play: Play) -> None:
    """A broadcasting consumer keeps its offsets to itself."""
    start = tells("consumer", "c", group=GROUP, topic=T, broadcasting="yes")
    await play.phase("start", start, *_pulls(2))
    await play.phase("a message", _puts(0), _pulled(0, 1))
    await play.phase("it is consumed", tells("go", "c"))
    await play.phase("stop", tells("stop", "c"), LEFT)


async def filters(play: Play) -> None:
    """Consumers that want some tags, or what SQL92 chooses."""
    tags = tells("consumer", "c", group=GROUP, topic=T, tags="new || changed || new")
    await play.phase("start with tags", tags, *_pulls(2))
    await play.phase("stop", tells("stop", "c"), LEFT)
    sql = tells("consumer", "d", group="auditors", topic=T, sql="a > 5 AND b = 'x'")
    await play.phase("start with SQL", sql, *_pulls(2))
    await play.phase("stop that too", tells("stop", "d"), LEFT)


def _joins(side: Side) -> None:
    side.peer.world.members.append("127.0.0.9@later")
    side.peer.notify(A, GROUP)


def _leaves(side: Side) -> None:
    side.peer.world.members.remove("127.0.0.9@later")
    side.peer.notify(A, GROUP)


async def shares(play: Play) -> None:
    """Another member comes, takes one of the queues, and goes again."""
    await play.phase("start", tells("consumer", "c", group=GROUP, topic=T), *_pulls(2))
    await play.phase("a message", _puts(1), _pulled(1, 1))
    await play.phase("its offset is persisted", tells("go", "c"), _committed(1, 1))
    members = "GET_CONSUMER_LIST_BY_GROUP"
    await play.phase("another joins", quietly(_joins), asked(members), counts=[members])
    back = asked("PULL_MESSAGE", topic=T, queueId="1")
    more = [members, "QUERY_CONSUMER_OFFSET", "PULL_MESSAGE"]
    await play.phase("it leaves", quietly(_leaves), back, counts=more)
    await play.phase("stop", tells("stop", "c"), LEFT, counts=["UPDATE_CONSUMER_OFFSET"])


async def shares_orderly(play: Play) -> None:
    """The same with locks."""
    start = tells("consumer", "c", group=GROUP, topic=T, orderly="yes")
    await play.phase("start", start, *_pulls(2))
    members = "GET_CONSUMER_LIST_BY_GROUP"
    gone = asked("UNLOCK_BATCH_MQ")
    await play.phase("another joins", quietly(_joins), asked(members), gone, counts=[members])
    back = asked("PULL_MESSAGE", topic=T, queueId="1")
    more = [members, "QUERY_CONSUMER_OFFSET", "PULL_MESSAGE"]
    await play.phase("it leaves", quietly(_leaves), back, counts=more)
    await play.phase("stop", tells("stop", "c"), LEFT)


async def illegal_offset(play: Play) -> None:
    """A broker says that it has not what is pulled, and where to go on."""
    await play.phase("start", tells("consumer", "c", group=GROUP, topic=T), *_pulls(1))
    moved = quietly(lambda side: side.peer.release(PULL_OFFSET_MOVED, next_offset=7))
    again = asked("PULL_MESSAGE", topic=T, queueId="0")
    more = ["QUERY_CONSUMER_OFFSET", "GET_CONSUMER_LIST_BY_GROUP"]
    await play.phase("moved", moved, _committed(0, 7), again, counts=more)
    await play.phase("stop", tells("stop", "c"), LEFT)


async def queues_added(play: Play) -> None:
    """A topic gets more queues, and then a second broker."""
    await play.phase(
        "start", tells("consumer", "c", group=GROUP, topic=T, poll_ms="1000"), *_pulls(2)
    )
    await play.phase("four queues", quietly(lambda side: _topic(side.peer, 4)), *_pulls(4)[2:])
    await play.phase(
        "two brokers", quietly(lambda side: _topic(side.peer, 4, A, B)),
        asked("PULL_MESSAGE", 4),
    )  # fmt: skip
    await play.phase("one broker", quietly(lambda side: _topic(side.peer, 4, B)))
    await play.phase("stop", tells("stop", "c"), LEFT)


async def broker_moves(play: Play) -> None:
    """A broker gets another address: what its consumer and a producer ask there."""
    await play.phase(
        "start", tells("consumer", "c", group=GROUP, topic=T, poll_ms="1000"), *_pulls(2)
    )
    await play.phase("start a producer", tells("producer", "p", group="makers", poll_ms="1000"))
    await play.phase("send", tells("send", "p", topic=T, body="x"), asked("SEND_MESSAGE_V2"))
    await play.phase("moved", lambda side: side.peer.move(A), *_pulls(2))
    await play.phase("send again", tells("send", "p", topic=T, body="y"), asked("SEND_MESSAGE_V2"))
    await play.phase("stop the producer", tells("stop", "p"), LEFT)
    await play.phase("stop the consumer", tells("stop", "c"), LEFT)


async def lost_connection(play: Play) -> None:
    """The broker closes its connections, then the name server does."""
    start = tells("consumer", "c", group=GROUP, topic=T)
    await play.phase("start", start, *_pulls(2))
    await play.phase("closed", quietly(lambda side: side.peer.close(A)), *_pulls(2))
    await play.phase(
        "closed by the name server", quietly(lambda side: side.peer.close("nameserver"))
    )
    await play.phase("stop", tells("stop", "c"), LEFT)


async def producer_loses(play: Play) -> None:
    """A producer's broker closes the connection between two sends."""
    await play.phase("start", tells("producer", "p", group="makers"))
    await play.phase("send", tells("send", "p", topic=T, body="x"), asked("SEND_MESSAGE_V2"))
    await play.phase("closed", quietly(lambda side: side.peer.close(A)))
    await play.phase("send again", tells("send", "p", topic=T, body="y"), asked("SEND_MESSAGE_V2"))
    await play.phase("stop", tells("stop", "p"), LEFT)


def _refuse(code: str, *answers: int) -> Callable[..., None]:
    return lambda side: side.peer.world.refusals.update({code: list(answers)})


async def busy_sends(play: Play) -> None:
    """SYSTEM_BUSY (2) to a send: once, and always."""
    send = tells("send", "p", topic=T, body="x")
    await play.phase("start", tells("producer", "p", group="makers"))

    async def both(side: Side) -> str:  # which one a send begins with is drawn: so connect to both
        one = {"topic": T, "body": "x", "how": "queue"}
        return str([await side.tell("send", "p", **one, broker=broker) for broker in (A, B)])

    await play.phase("send to both", both, asked("SEND_MESSAGE_V2", 2))
    await play.phase("busy once", quietly(_refuse("SEND_MESSAGE_V2", BUSY)))
    await play.phase("send to one that is busy", send, asked("SEND_MESSAGE_V2"))
    await play.phase("always busy", quietly(_refuse("SEND_MESSAGE_V2", *[BUSY] * 20)))
    await play.phase("send to none that is not", send, asked("SEND_MESSAGE_V2"))
    await play.phase("calm", quietly(_refuse("SEND_MESSAGE_V2")))
    await play.phase("stop", tells("stop", "p"), LEFT)


async def busy_pulls(play: Play) -> None:
    """SYSTEM_BUSY (2) to pulls, to the list of members and to a heartbeat."""
    start = tells("consumer", "c", group=GROUP, topic=T)
    await play.phase("start", start, *_pulls(2))
    await play.phase(
        "busy", quietly(lambda side: side.peer.release(BUSY, "[scripted] busy")), *_pulls(2),
        counts=["PULL_MESSAGE"],
    )  # fmt: skip
    await play.phase("stop", tells("stop", "c"), LEFT)


async def busy_start(play: Play) -> None:
    """SYSTEM_BUSY (2) to the first requests of a consumer."""
    start = tells("consumer", "c", group=GROUP, topic=T)
    again = asked("PULL_MESSAGE", 2, topic=T)
    await play.phase("start", start, again)
    await play.phase("stop", tells("stop", "c"), LEFT)


def _busy_at_first(peer: Peer) -> None:
    _topic(peer, 1)
    for code in ("GET_CONSUMER_LIST_BY_GROUP", "QUERY_CONSUMER_OFFSET", "PULL_MESSAGE"):
        peer.world.refusals[code] = [BUSY]


_ACKED = asked("ACK_MESSAGE")


async def pops(play: Play) -> None:
    """A consumer whose broker shares out: it pops, acks, and makes a refused message invisible."""
    start = tells("consumer", "c", group=GROUP, topic=T, pop="yes", fail="1")
    await play.phase("start", start, asked("POP_MESSAGE"))
    await play.phase("a message", _puts(0), asked("POP_MESSAGE"), counts=["POP_MESSAGE"])
    await play.phase("refused", tells("go", "c"), asked("CHANGE_MESSAGE_INVISIBLETIME"))
    await play.phase("another message", _puts(1), counts=["POP_MESSAGE"])
    await play.phase("consumed", tells("go", "c"), _ACKED)
    await play.phase("stop", tells("stop", "c"), LEFT)


async def pops_on(play: Play) -> None:
    """What a consumer that pops does when its group changes and when its broker is busy."""
    await play.phase(
        "start", tells("consumer", "c", group=GROUP, topic=T, pop="yes"), asked("POP_MESSAGE")
    )
    changed = quietly(lambda side: side.peer.notify(A, GROUP))
    share = "QUERY_ASSIGNMENT"
    await play.phase("the group changed", changed, asked(share), counts=[share])
    busy = quietly(lambda side: side.peer.release(BUSY, "[scripted] busy"))
    await play.phase("busy", busy, asked("POP_MESSAGE"), counts=["POP_MESSAGE"])
    await play.phase("a message", _puts(0), asked("POP_MESSAGE"), counts=["POP_MESSAGE"])
    await play.phase("consumed", tells("go", "c"), _ACKED)
    await play.phase("stop", tells("stop", "c"), LEFT)


def _of(queue: int, **options: str) -> dict[str, str]:
    return {"topic": T, "broker": A, "queue": str(queue), **options}


async def polls(play: Play) -> None:
    """A lite pull consumer gets a share of queues: it polls, commits and stops.

    It does not seek: Java's then interrupts the thread that pulls, which closes the connection.
    """
    pulled = [asked("LITE_PULL_MESSAGE", topic=T, queueId=str(queue)) for queue in (0, 1)]
    await play.phase("start", tells("puller", "l", group=GROUP, topic=T), *pulled)
    await play.phase("a message", _puts(1), pulled[1])
    await play.phase("poll", tells("poll", "l"))
    await play.phase("commit", tells("commit", "l"), _committed(1, 1))
    await play.phase("stop", tells("stop", "l"), LEFT, counts=["UPDATE_CONSUMER_OFFSET"])


async def polls_assigned(play: Play) -> None:
    """A lite pull consumer that says itself which queues it wants."""
    pulled = [asked("LITE_PULL_MESSAGE", topic=T, queueId=str(queue)) for queue in (0, 1)]
    # Another one opens the connection that both use: on a new one, which thread is first to ask
    # decides whether the heartbeat or the offset comes first.
    other = asked("LITE_PULL_MESSAGE", topic=OTHER)
    rare = {"poll_ms": "600000", "beat_ms": "600000"}  # no timer is due while this is played
    another = tells("puller", "k", group="auditors", topic=OTHER, **rare)
    await play.phase("start another", another, other)
    await play.phase("start", tells("puller", "l", group=GROUP, **rare))
    assigned = asked("LITE_PULL_MESSAGE", consumerGroup=GROUP, queueId="0")
    await play.phase("assign", tells("assign", "l", **_of(0)), assigned)
    await play.phase("a message", _puts(0), pulled[0])
    await play.phase("poll", tells("poll", "l"))
    await play.phase("assign another", tells("assign", "l", **_of(1)), pulled[1])
    await play.phase("a message there", _puts(1), pulled[1])
    await play.phase("poll there", tells("poll", "l"))
    await play.phase("commit", tells("commit", "l"), _committed(1, 1))
    await play.phase("stop", tells("stop", "l"), LEFT, counts=["UPDATE_CONSUMER_OFFSET"])
    await play.phase("stop the other", tells("stop", "k"), LEFT)


async def reads(play: Play) -> None:
    """A pull consumer reads queues by hand, and keeps its progress."""
    await play.phase("start", tells("reader", "r", group=GROUP))

    async def looks(side: Side) -> str:  # in one phase: clients introduce themselves in between
        queues = await side.tell("queues", "r", topic=T)
        return f"{queues}: {await side.tell('bounds', 'r', **_of(0))}"

    await play.phase("queues and bounds", looks, asked("GET_MAX_OFFSET"))
    await play.phase("two messages", quietly(_two))
    pulled = asked("PULL_MESSAGE")
    await play.phase("read", tells("read", "r", **_of(0, offset="0")), pulled)
    await play.phase("read the last", tells("read", "r", **_of(0, offset="1")), pulled)

    async def waits(side: Side) -> str:  # answered by a message that comes while it waits
        reading = asyncio.ensure_future(side.tell("read", "r", **_of(1, offset="0", wait="yes")))
        await side.until(lambda: side.peer.holds(A))
        side.peer.put(A, T, 1, b"one")
        return await reading

    await play.phase("read and wait", waits, pulled)
    stored = _of(0, stored="yes")
    await play.phase("no progress yet", tells("progress", "r", **stored))
    await play.phase("progress", tells("update", "r", **_of(0, offset="2")))
    await play.phase("as it is in memory", tells("progress", "r", **_of(0)))
    await play.phase("stop", tells("stop", "r"), LEFT, counts=["UPDATE_CONSUMER_OFFSET"])


def _two(side: Side) -> None:
    side.peer.put(A, T, 0, b"one")
    side.peer.put(A, T, 0, b"two")


def _default_topic(peer: Peer) -> None:
    peer.world.topics[TBW102] = {A: 8}


def _with_retry_topic(peer: Peer) -> None:
    _topic(peer, 2)
    peer.world.topics[RETRY] = {A: 1}


def _two_topics(peer: Peer) -> None:
    _topic(peer, 2)
    peer.world.topics[OTHER] = {A: 1}


SCENARIOS: dict[str, Scenario] = {
    "sends": Scenario(sends, sample=True),
    "unknown topic": Scenario(unknown_topic, prepare=_default_topic),
    "transactions": Scenario(transactions),
    "consumes": Scenario(consumes, sample=True),
    "stops soon": Scenario(stops_soon),
    "orderly": Scenario(orderly, sample=True),
    "sends back": Scenario(sends_back, prepare=_with_retry_topic),
    "broadcasting": Scenario(broadcasting),
    "filters": Scenario(filters, sample=True),
    "shares": Scenario(shares),
    "shares orderly": Scenario(shares_orderly),
    "illegal offset": Scenario(illegal_offset, prepare=lambda peer: _topic(peer, 1)),
    "queues added": Scenario(queues_added, brokers=(A, B)),
    "broker moves": Scenario(broker_moves),
    "lost connection": Scenario(lost_connection, sample=True),
    "producer loses": Scenario(producer_loses),
    "busy sends": Scenario(
        busy_sends, brokers=(A, B), prepare=lambda peer: _topic(peer, 2, A, B), sample=True
    ),
    "busy pulls": Scenario(busy_pulls, sample=True),
    "busy start": Scenario(busy_start, prepare=_busy_at_first),
    "pops": Scenario(pops, sample=True),
    "pops on": Scenario(pops_on),
    "polls": Scenario(polls, sample=True),
    "polls assigned": Scenario(polls_assigned, prepare=_two_topics),
    "reads": Scenario(reads),
}
