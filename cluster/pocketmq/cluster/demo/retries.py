"""What failed on its way to success: delayed, in retry queues, dead. Dead letters are sent again.

A delivery that fails is stored in `%RETRY%group` after a delay; the last one in `%DLQ%group`, which
no consumer of the group reads. Here they are read and sent to their topic once more, with their own
message ids, until nothing of the group is on its way any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pocketmq.client import Admin, Message, MessageQueue, Producer, PullConsumer
from pocketmq.cluster.demo.workers import CONSUMER_GROUP, PRODUCER_GROUP, TOPIC
from pocketmq.protocol import properties as names
from pocketmq.protocol.message import MessageExt
from pocketmq.protocol.validation import dlq_topic, retry_topic
from pocketmq.runtime.clock import SystemClock

DEAD_LETTER_GROUP: Final = "flights-dead-letters"
LOOK_S: Final = 0.5
SCHEDULED: Final = "scheduleMessageOffset_"
"""Start of a broker's figure `delivered,stored` for one delay level (28)."""

KEPT_PROPERTIES: Final = (names.TAGS, names.KEYS, names.UNIQ_KEY)


@dataclass(frozen=True, slots=True)
class Backlog:
    """How much of the group is on its way, and how much has ever been."""

    waiting: int
    """Messages in the topic and the retry topic that the group has not finished."""
    delayed: int
    dead: int
    """Dead letters that were not sent again."""
    stored: int
    """All messages ever stored in the topic, the retry topic and the dead letter topic."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is on its way, at this look."""
        return not (self.waiting or self.delayed or self.dead)


class Retries:
    """Drains the group of a running cluster.

    Args:
        nameservers: Where the cluster is.
    """

    def __init__(self, nameservers: str) -> None:
        self._nameservers = nameservers
        self._clock = SystemClock()
        self._offsets: dict[MessageQueue, int] = {}
        self.retried = 0
        """Messages stored in the retry topic."""
        self.resent = 0
        """Dead letters that were sent to their topic again."""

    async def drain(self) -> None:
        """Send dead letters again until two looks in a row find nothing and nothing new.

        Raises:
            PocketMQError: the cluster could not be asked or told.
        """
        async with (
            Admin(nameservers=self._nameservers) as admin,
            PullConsumer(DEAD_LETTER_GROUP, nameservers=self._nameservers) as reader,
            Producer(PRODUCER_GROUP, nameservers=self._nameservers) as producer,
        ):
            before: Backlog | None = None
            while True:
                backlog = await self._look(admin)
                if backlog.is_empty and backlog == before:
                    return
                before = backlog
                if backlog.dead:
                    await self._resend(reader, producer)
                await self._clock.sleep(LOOK_S)

    async def _look(self, admin: Admin) -> Backlog:
        retry, dead_letters = retry_topic(CONSUMER_GROUP), dlq_topic(CONSUMER_GROUP)
        ends: dict[MessageQueue, int] = {}
        for topic in (TOPIC, retry, dead_letters):
            if await admin.route(topic) is not None:
                stats = await admin.topic_stats(topic)
                ends |= {queue: offset.max_offset for queue, offset in stats.items()}
        done = {
            queue: progress.consumer_offset
            for queue, progress in (await admin.consume_stats(CONSUMER_GROUP)).items()
        }
        for queue in ends:
            if queue.topic == dead_letters:
                self._offsets.setdefault(queue, 0)
        delayed = 0
        for broker in await admin.brokers():
            for name, value in (await admin.broker_runtime_info(broker)).items():
                if name.startswith(SCHEDULED):
                    delivered, stored = map(int, value.split(","))
                    delayed += stored - delivered
        self.retried = sum(end for queue, end in ends.items() if queue.topic == retry)
        return Backlog(
            waiting=sum(
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
                await producer.send(again(letter), key=letter.keys or "")
                self.resent += 1
            self._offsets[queue] = result.next_begin_offset

    def notes(self, deliveries: int) -> list[str]:
        """What is worth saying at the end of a run.

        Args:
            deliveries: A message that failed so often was dead.
        """
        return [
            f"{self.retried:,} failed deliveries came again from {retry_topic(CONSUMER_GROUP)}",
            f"{self.resent:,} messages failed {deliveries} times, were dead letters in "
            f"{dlq_topic(CONSUMER_GROUP)}, and were sent again",
        ]


def again(letter: MessageExt) -> Message:
    """A dead letter as a new message that is still the same one: its id stays."""
    kept: dict[str, str] = {
        name: letter.properties[name] for name in KEPT_PROPERTIES if name in letter.properties
    }
    return Message(TOPIC, letter.body, properties=kept)
