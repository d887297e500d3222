"""`python -m pocketmq.cluster.demo.consumer_worker`: consumes flights and writes them down.

A record is in the file before success is reported, so a kill loses none: at worst the queue's next
owner gets messages again that are already in the file.
"""

from pocketmq.runtime.process import RoleContext, report, run_role  # isort: skip

import os
import random
import sys
from collections.abc import Sequence

from pocketmq.client import (
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    MessageModel,
    PushConsumer,
)
from pocketmq.client.consumer.settings import PushOptions
from pocketmq.cluster.control_port import client_port_door, control_port
from pocketmq.cluster.demo.modes import MAX_RECONSUME_TIMES, POP_INVISIBLE_MS, WITH_IDS
from pocketmq.cluster.demo.record_file import RecordWriter
from pocketmq.cluster.demo.workers import (
    CONSUMER_GROUP,
    TOPIC,
    ConsumerOptions,
    client_events,
    identity,
    load_options,
    now_ms,
    tell,
)
from pocketmq.operation.events.sink import EventSink
from pocketmq.protocol.messages.message import MessageExt, MessageQueue
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import PocketMQError

BATCH = 32


class RandomFailureError(Exception):
    """Raised by a listener that is to fail."""


class FlakyListener:
    """Writes messages to the file one by one, or fails, half of the times with an exception.

    Args:
        records: The file.
        rate: Share of calls that fail.
        seed: Decides which calls fail.
    """

    def __init__(self, records: RecordWriter, rate: float, seed: str) -> None:
        self._records = records
        self._rate = rate
        self._random = random.Random(seed)

    async def consume(self, message: MessageExt) -> ConsumeConcurrentlyStatus:
        """A listener for single messages."""
        # One draw for both kinds of failure, so that the same seed gives the same run.
        drawn = self._random.random()
        if drawn < self._rate / 2:
            raise RandomFailureError(f"the demo chose message {message.msg_id} at random to fail")
        if drawn < self._rate:
            return ConsumeConcurrentlyStatus.RECONSUME_LATER
        # Written only on success: a failed message comes again, and must not be counted twice.
        await self._records.consume([message], None)
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS


class Ownership:
    """Reports to the director which queues this consumer owns, and the first pull of each."""

    def __init__(self) -> None:
        self._owned: set[MessageQueue] = set()
        self._pulled: dict[MessageQueue, int] = {}

    def changed(self, topic: str, _all: object, mine: Sequence[MessageQueue]) -> None:
        """Called by the consumer after a rebalance with changes."""
        # The group also has a retry topic, whose queues the demo does not show.
        if topic != TOPIC:
            return
        self._owned = set(mine)
        queues = sorted((queue.broker_name, queue.queue_id) for queue in mine)
        tell("assigned", queues=queues, at_ms=now_ms())
        # A pull that came before this assignment is reported now.
        for queue in list(self._pulled):
            if queue in self._owned:
                self._tell_pulled(queue)
            else:
                del self._pulled[queue]

    def pulled(self, queue: MessageQueue) -> None:
        """Called for each pull; the first one may come before the consumer calls `changed`."""
        if queue.topic == TOPIC and queue not in self._pulled:
            self._pulled[queue] = now_ms()
            if queue in self._owned:
                self._tell_pulled(queue)

    def _tell_pulled(self, queue: MessageQueue) -> None:
        at_ms = self._pulled[queue]
        tell("pulled", broker=queue.broker_name, queue=queue.queue_id, at_ms=at_ms)


def consumer_options(options: ConsumerOptions, clock: Clock, events: EventSink) -> PushOptions:
    """The consumer's options, those of its mode included."""
    known = identity(options.name, events)
    found: PushOptions = {
        "nameservers": options.nameservers,
        "clock": clock,
        # By default a group without offsets begins at the end, and would miss the first flights.
        "consume_from_where": ConsumeFromWhere.FIRST_OFFSET,
        "client_ip": known["client_ip"],
        "instance_name": known["instance_name"],
        "events": known["events"],
    }
    # Single messages, since each must fail or succeed by itself.
    if options.mode == "failures":
        found["max_reconsume_times"] = MAX_RECONSUME_TIMES
    else:
        found["consume_message_batch_max_size"] = BATCH
    # With pop the broker shares out the messages; a client that rebalances would pull instead.
    if options.mode == "pop":
        found["client_rebalance"] = False
        found["pop_invisible_time_ms"] = POP_INVISIBLE_MS
    if options.mode == "broadcast":
        found["message_model"] = MessageModel.BROADCASTING
        # Beside the records, so that a kept folder also has the offsets.
        found["local_offset_store_dir"] = options.records.parent / "offsets"
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Consume until asked to stop; returns the exit status."""
    try:
        role_options, options = load_options(ConsumerOptions, "Consumes flights.", arguments)
        door = client_port_door(os.environ)
    except PocketMQError as exc:
        return report(exc, "consumer")

    async def consume(role: RoleContext) -> None:
        events = client_events(options.name, role.clock, is_on=role_options.events)
        ownership = Ownership()
        consumer = PushConsumer(
            CONSUMER_GROUP,
            on_assignment_changed=ownership.changed,
            on_pull=ownership.pulled,
            **consumer_options(options, role.clock, events),
        )
        consumer.subscribe(TOPIC)
        failing = options.mode == "failures"
        # Opened before the consumer and closed after it, as the consumer still writes while it
        # stops.
        with RecordWriter(options.records, with_ids=options.mode in WITH_IDS) as records:
            if failing:
                seed = f"{options.seed} {options.name}"
                consumer.listen(FlakyListener(records, options.failure_rate, seed).consume)
            else:
                consumer.listen_batch(records.consume, orderly=options.mode == "orderly")
            async with control_port(
                options.name, role.clock, records.status, door=door, events=events
            ) as port:
                # Ready before the consumer starts, as the director measures from the event below.
                role.ready(port=port)
                tell("joining", at_ms=now_ms())
                async with consumer:
                    await role.stopped()

    return run_role(consume, role="consumer", name=options.name, options=role_options)


if __name__ == "__main__":
    sys.exit(main())
