"""Waits until failed messages are consumed with success; sends dead letters again.

A message that fails is stored in `%RETRY%group` after a delay, and after the last retry in
`%DLQ%group`, which no consumer of the group reads. From there it is read and sent to its topic
again, with the same message id, until the group has nothing left to consume.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pocketmq.client import Admin, Message, MessageQueue, Producer, PullConsumer
from pocketmq.client.config import ClientOptions
from pocketmq.cluster.demo.workers import CONSUMER_GROUP, PRODUCER_GROUP, TOPIC
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.validation import dlq_topic, retry_topic
from pocketmq.runtime.clock import SystemClock

DEAD_LETTER_GROUP: Final = "flights-dead-letters"
LOOK_S: Final = 0.5
SCHEDULED: Final = "scheduleMessageOffset_"
"""Prefix of the figures per delay level in GET_BROKER_RUNTIME_INFO (28): `delivered,stored`."""

KEPT_PROPERTIES: Final = (names.TAGS, names.KEYS, names.UNIQ_KEY)


@dataclass(frozen=True, slots=True)
class Backlog:
    """How many messages of the group are not finished, and how many were ever stored."""

    waiting: int
    """Messages in the topic and the retry topic that the group has not consumed."""
    delayed: int
    dead: int
    """Dead letters that were not sent again."""
    stored: int
    """Messages ever stored in the topic, the retry topic and the dead letter topic."""

    @property
    def is_empty(self) -> bool:
        """Whether the group has nothing left to consume now."""
        return not (self.waiting or self.delayed or self.dead)


class Retries:
    """Waits for the retries of the demo's group, and repeats its dead letters.

    Args:
        clients: Options of clients that may do everything in the cluster.
    """

    def __init__(self, clients: ClientOptions) -> None:
        self._clients = clients
        self._clock = SystemClock()
        self._offsets: dict[MessageQueue, int] = {}
        self.retried = 0
        """Messages stored in the retry topic."""
        self.resent = 0
        """Number of dead letters that were sent to their topic again."""

    async def drain(self) -> None:
        """Send dead letters again until the backlog is empty and unchanged twice in a row.

        Raises:
            PocketMQError: A request to the cluster failed.
        """
        async with (
            Admin(**self._clients) as admin,
            PullConsumer(DEAD_LETTER_GROUP, **self._clients) as reader,
            Producer(PRODUCER_GROUP, **self._clients) as producer,
        ):
            before: Backlog | None = None
            while True:
                backlog = await self._look(admin)
                # Empty twice in a row: a message may be on its way from one topic to the next.
                if backlog.is_empty and backlog == before:
                    return
                before = backlog
                # could be better: dead letters are read once per look, so many of them take many
                # looks.
                if backlog.dead:
                    await self._resend(reader, producer)
                await self._clock.sleep(LOOK_S)

    async def _look(self, admin: Admin) -> Backlog:
        retry, dead_letters = retry_topic(CONSUMER_GROUP), dlq_topic(CONSUMER_GROUP)
        ends: dict[MessageQueue, int] = {}
        for topic in (TOPIC, retry, dead_letters):
            # Topics for retries and dead letters exist only after the first failure.
            if await admin.route(topic) is not None:
                stats = await admin.topic_stats(topic)
                ends |= {queue: offset.max_offset for queue, offset in stats.items()}
        done = {
            queue: progress.consumer_offset
            for queue, progress in (await admin.consume_stats(CONSUMER_GROUP)).items()
        }
        for queue in ends:
            if queue.topic == dead_letters:
                # Only this program reads dead letters, so its own offsets count, beginning with 0.
                self._offsets.setdefault(queue, 0)
        delayed = 0
        for broker in await admin.brokers():
            for name, value in (await admin.broker_runtime_info(broker)).items():
                # All delay levels together: brokers do not report whose messages are waiting.
                if name.startswith(SCHEDULED):
                    delivered, stored = map(int, value.split(","))
                    delayed += stored - delivered
        self.retried = sum(end for queue, end in ends.items() if queue.topic == retry)
        return Backlog(
            waiting=sum(
                # Without dead letters, which the group never consumes.
                end - done.get(queue, 0)
                for queue, end in ends.items()
                if queue not in self._offsets
            ),
            delayed=delayed,
            dead=sum(ends[queue] - offset for queue, offset in self._offsets.items()),
            stored=sum(ends.values()),
        )

    async def _resend(self, reader: PullConsumer, producer: Producer) -> None:
        for queue, offset in list(self._offsets.items()):
            result = await reader.pull(queue, "*", offset)
            for letter in result.messages:
                # With its key, so that it goes to the queue of its aircraft's flights.
                await producer.send(again(letter), key=letter.keys or "")
                self.resent += 1
            # Only after the sends: after an error the same dead letters are read again.
            self._offsets[queue] = result.next_begin_offset

    def notes(self, deliveries: int) -> list[str]:
        """Lines for the end of a run.

        Args:
            deliveries: Number of failures after which a message is a dead letter.
        """
        return [
            f"{self.retried:,} failed deliveries were retried from {retry_topic(CONSUMER_GROUP)}",
            f"{self.resent:,} messages failed {deliveries} times, became dead letters in "
            f"{dlq_topic(CONSUMER_GROUP)}, and were sent again",
        ]


def again(letter: MessageExt) -> Message:
    """A dead letter as a message to send, with the same message id."""
    # Including the unique id, by which the tally recognizes the message.
    kept: dict[str, str] = {
        name: letter.properties[name] for name in KEPT_PROPERTIES if name in letter.properties
    }
    return Message(TOPIC, letter.body, properties=kept)
