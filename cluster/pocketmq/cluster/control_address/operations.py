"""Executes the operations of the control address on a `ClusterControl`."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from pocketmq.client import Message, MessageExt, Producer, PullConsumer, SendResult
from pocketmq.cluster.control_address.declarations import (
    Advance,
    Clock,
    ClusterDescription,
    Deadline,
    Done,
    FaultState,
    Health,
    Logs,
    Moved,
    NewMessage,
    NewSnapshot,
    Partition,
    QueueBounds,
    Readiness,
    Resend,
    Resent,
    Role,
    Run,
    Seed,
    Seeded,
    SeedOffset,
    Stopping,
    Stored,
    StoredMessage,
    Topic,
    TopicDescription,
    TopicMade,
)
from pocketmq.cluster.control_address.declared_groups import GroupDescription
from pocketmq.cluster.group_view import GroupView, known_groups, look_at
from pocketmq.cluster.messages.again import dead_letters, resent
from pocketmq.cluster.messages.positions import END, START
from pocketmq.cluster.own_topics import peoples_topics
from pocketmq.cluster.steering.cluster_control import ClusterControl
from pocketmq.cluster.steering.errors import NotReachedError
from pocketmq.cluster.steering.snapshots import SnapshotInfo
from pocketmq.operation.faults.rule import FaultRule
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.validation import DLQ_PREFIX, dlq_topic, is_system_group
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import CallerError, PocketMQError
from pocketmq.runtime.manual_time import clock_members
from pocketmq.runtime.words import counted

SEND_GROUP = "pocketmq-control"
MAX_MESSAGES = 1000
MAX_LINES = 1000
MAX_FIRED = 1000
"""Maximum deadlines in an answer; an idle hour has some thousands."""

SEEDING = "seeding is not done"
"""Why a cluster is not ready."""

Parameters = Mapping[str, str]


class UnknownTopicError(CallerError):
    """No nameserver has a route for the topic."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"there is no topic {topic!r}; create it with POST /topics")


class Operations:
    """A method for each `Operation`, with its name.

    Args:
        control: The cluster.
    """

    def __init__(self, control: ClusterControl) -> None:
        self._control = control

    # -- the cluster ------------------------------------------------------------------------

    async def health(self, _parameters: Parameters) -> Health:
        return Health()

    async def ready(self, parameters: Parameters) -> Readiness:
        control = self._control
        missing = [
            f"{name} is {state}"
            for name in control.roles.names
            if (state := control.roles.state(name)) != "running"
        ]
        missing += control.unfinished
        # Step by step: later checks make no sense while an earlier one fails.
        if not missing and (text := await control.missing_registrations()):
            missing.append(text)
        topic, group = parameters.get("topic"), parameters.get("group")
        if not missing and topic is not None:
            async with control.admin() as admin:
                if await admin.route(topic) is None:
                    missing.append(f"topic {topic} has no route")
        if not missing and group is not None:
            text = (await control.group_state(group)).missing_queues(None)
            missing += [text] if text else []
        return Readiness(not missing, missing)

    async def describe(self, _parameters: Parameters) -> ClusterDescription:
        control = self._control
        return ClusterDescription(
            control.nameservers,
            control.clock,
            control.time_ms(),
            str(control.roles.data),
            [
                Role(name, control.roles.role(name), control.roles.state(name), address)
                for name, address in control.roles.addresses.items()
            ],
        )

    async def stop(self, _parameters: Parameters) -> Stopping:
        self._control.request_stop()
        return Stopping(os.getpid())

    # -- topics, groups and messages --------------------------------------------------------

    async def topics(self, _parameters: Parameters) -> list[TopicDescription]:
        async with self._control.admin() as admin:
            names = await peoples_topics(admin)
        return [await self._topic(name) for name in names]

    async def topic(self, parameters: Parameters) -> TopicDescription:
        return await self._topic(parameters["topic"])

    async def create_topic(self, _parameters: Parameters, question: Topic) -> TopicMade:
        before = await self._control.create_topic(
            question.name, question.queues, question.message_type
        )
        made = await self._topic(question.name)
        return TopicMade(made.name, made.messages, made.queues, before)

    async def delete_topic(self, parameters: Parameters) -> Done:
        topic = parameters["topic"]
        await self._topic(topic)
        async with self._control.admin() as admin:
            await admin.delete_topic(topic)
        return Done(f"{topic} is deleted")

    async def groups(self, _parameters: Parameters) -> list[GroupDescription]:
        async with self._control.admin() as admin:
            names = [name for name in await known_groups(admin) if not is_system_group(name)]
            return [_described(await look_at(admin, name)) for name in names]

    async def group(self, parameters: Parameters) -> GroupDescription:
        async with self._control.admin() as admin:
            return _described(await look_at(admin, parameters["group"]))

    async def send(self, _parameters: Parameters, question: NewMessage) -> Stored:
        async with self._producer() as producer:
            return await _send(producer, question)

    async def dead_letters(self, parameters: Parameters) -> list[StoredMessage]:
        topic = dlq_topic(parameters["group"])
        try:
            return await self.messages({**parameters, "topic": topic})
        # The topic does not exist before the first dead letter.
        except UnknownTopicError:
            return []

    async def resend(self, parameters: Parameters, question: Resend) -> Resent:
        group, now_ms = parameters["group"], self._control.time_ms()
        async with self._control.admin() as admin, self._producer() as producer:
            letters = await dead_letters(admin, group, START, END, question.ids, now_ms)
            copies = [resent(letter) for letter in letters]  # all of them, or none is sent
            stored = [
                _stored(await producer.send(copy, key=letter.keys))
                for letter, copy in zip(letters, copies, strict=True)
            ]
        return Resent(f"{counted(len(stored), 'dead letter')} of {group} sent again", stored)

    async def messages(self, parameters: Parameters) -> list[StoredMessage]:
        limit = _number(parameters, "limit", 32, MAX_MESSAGES)
        description = await self._topic(parameters["topic"])
        found: list[MessageExt] = []
        consumer = PullConsumer(
            SEND_GROUP,
            nameservers=self._control.nameservers,
            clock=SystemClock(),
            credentials=self._control.roles.credentials,
            network=self._control.view.network,
        )
        async with consumer, self._control.admin() as admin:
            for queue in await admin.subscribe_queues(description.name):
                end, at = await admin.max_offset(queue), await admin.min_offset(queue)
                # Reading the last `limit` messages of each queue is enough to find the last ones of
                # all.
                at = max(at, end - limit)
                while at < end:
                    pulled = await consumer.pull(queue, "*", at, min(32, end - at))
                    found += pulled.messages
                    # Messages may have been deleted meanwhile; at least one step on, or this would
                    # never end.
                    at = max(pulled.next_begin_offset, at + 1)
        # Brokers have no common order; messages of equal times are ordered by their place in the
        # log.
        found.sort(key=lambda each: (each.store_timestamp_ms, each.commit_log_offset))
        return [_shown(each) for each in found[-limit:]]

    async def seed(self, _parameters: Parameters, question: Seed) -> Seeded:
        groups = {each.name for each in question.groups}
        groups.update(each.group for each in question.offsets)
        with self._control.before_ready(SEEDING):
            for topic in question.topics:
                await self._control.create_topic(topic.name, topic.queues, topic.message_type)
            # Topics for dead letters are created too, as a seed rarely names them.
            for name in _dead_letter_topics(question):
                await self._control.create_topic(name, 1)
            async with self._control.admin() as admin:
                for name in groups:
                    await admin.create_group(SubscriptionGroupConfig(group_name=name))
            if question.messages:
                async with self._producer() as producer:
                    for message in question.messages:
                        await _send(producer, message)
            # Last, since offsets are limited by the messages stored so far.
            for wanted in question.offsets:
                await self._set_offset(wanted)
        return Seeded(
            len(question.topics),
            len(question.messages),
            len(groups),
            len(question.offsets),
        )

    async def _set_offset(self, wanted: SeedOffset) -> None:
        async with self._control.admin() as admin:
            for queue in await admin.subscribe_queues(wanted.topic):
                if wanted.queue in (None, queue.queue_id):
                    end = await admin.max_offset(queue)
                    # Past the end a consumer would be told that its offset is out of range, and
                    # choose another.
                    at = end if wanted.offset == "end" else min(end, wanted.offset)
                    await admin.update_consumer_offset(wanted.group, queue, at)

    # -- faults -----------------------------------------------------------------------------

    async def list_faults(self, _parameters: Parameters) -> list[FaultState]:
        counts = await self._control.faults.counts()
        return [FaultState(each, counts.get(each.id, {})) for each in self._control.faults.rules]

    async def add_fault(self, _parameters: Parameters, question: FaultRule) -> FaultRule:
        return await self._control.add_fault(question)

    async def clear_faults(self, _parameters: Parameters) -> Done:
        return Done(f"{counted(await self._control.clear_faults(), 'fault rule')} cleared")

    async def clear_fault(self, parameters: Parameters) -> Done:
        await self._control.clear_faults(parameters["id"])
        return Done(f"fault rule {parameters['id']} is cleared")

    async def partition(self, parameters: Parameters, question: Partition) -> FaultRule:
        rule = FaultRule(do="partition", role=parameters["role"], other=question.other)
        return await self._control.add_fault(rule)

    # -- data -------------------------------------------------------------------------------

    async def list_snapshots(self, _parameters: Parameters) -> list[SnapshotInfo]:
        return self._control.snapshots.all()

    async def save_snapshot(self, _parameters: Parameters, question: NewSnapshot) -> SnapshotInfo:
        folder = self._control.snapshots.folder(question.name)
        return await self._control.save_snapshot(folder, with_secrets=question.with_secrets)

    async def load_snapshot(self, parameters: Parameters) -> SnapshotInfo:
        folder = self._control.snapshots.folder(parameters["name"])
        return await self._control.load_snapshot(folder)

    async def reset(self, _parameters: Parameters) -> Done:
        await self._control.reset()
        return Done("the cluster is empty")

    # -- time -------------------------------------------------------------------------------

    async def clock(self, _parameters: Parameters) -> Clock:
        now_ms = await self._control.refresh_time()
        found = await self._control.deadlines() if self._control.clock == "manual" else []
        return Clock(
            self._control.clock,
            now_ms,
            self._speed,
            [_deadline(each, now_ms) for each in found],
        )

    @property
    def _speed(self) -> float:
        return self._control.runner.speed if self._control.clock == "manual" else 1.0

    async def run_clock(self, parameters: Parameters, question: Run) -> Clock:
        await self._control.run_clock(question.speed)
        return await self.clock(parameters)

    async def freeze_clock(self, parameters: Parameters) -> Clock:
        await self._control.run_clock(0)
        return await self.clock(parameters)

    async def advance(self, _parameters: Parameters, question: Advance) -> Moved:
        if (question.seconds is None) == (question.to_ms is None):
            raise CallerError("give either seconds or to_ms")
        now_ms = await self._control.refresh_time()
        to_ms = question.to_ms
        if question.seconds is not None:
            to_ms = now_ms + round(question.seconds * 1000)
        assert to_ms is not None
        if to_ms < now_ms:
            raise CallerError(f"the clock stands at {now_ms} ms and cannot go back to {to_ms}")
        return await self._move(to_ms)

    async def next_deadline(self, _parameters: Parameters) -> Moved:
        deadlines = await self._control.deadlines()
        now_ms = self._control.time_ms()
        return await self._move(deadlines[0][0] if deadlines else now_ms)

    # -- roles ------------------------------------------------------------------------------

    async def logs(self, parameters: Parameters) -> Logs:
        role = self._control.known(parameters["role"])
        count = _number(parameters, "lines", 50, MAX_LINES)
        return Logs(role, self._control.roles.log_tail(role, count).splitlines())

    async def freeze(self, parameters: Parameters) -> Done:
        await self._control.freeze(parameters["role"])
        return Done(f"{parameters['role']} is frozen")

    async def thaw(self, parameters: Parameters) -> Done:
        await self._control.thaw(parameters["role"])
        return Done(f"{parameters['role']} runs again")

    async def kill(self, parameters: Parameters) -> Done:
        await self._control.kill(parameters["role"])
        return Done(f"{parameters['role']} is killed")

    async def restart(self, parameters: Parameters) -> Done:
        await self._control.restart(parameters["role"])
        return Done(f"{parameters['role']} runs again")

    # -- inside -----------------------------------------------------------------------------

    def _producer(self) -> Producer:
        return Producer(
            SEND_GROUP,
            nameservers=self._control.nameservers,
            # On real time: on a manual clock the send could wait until somebody moves it.
            clock=SystemClock(),
            credentials=self._control.roles.credentials,
            network=self._control.view.network,
        )

    async def _topic(self, name: str) -> TopicDescription:
        async with self._control.admin() as admin:
            if await admin.route(name) is None:
                raise UnknownTopicError(name)
            try:
                stats = await admin.topic_stats(name)
            # There is a route, but no broker answers: the roles may still be starting.
            except PocketMQError as exc:
                raise NotReachedError(f"the queues of {name}", 0, str(exc)) from exc
        queues = [
            QueueBounds(queue.broker_name, queue.queue_id, each.min_offset, each.max_offset)
            for queue, each in stats.items()
        ]
        return TopicDescription(
            name, sum(each.max_offset - each.min_offset for each in queues), queues
        )

    async def _move(self, to_ms: int) -> Moved:
        began_ms = self._control.time_ms()
        fired: list[Deadline] = []
        more = 0

        def note(deadline: clock_members.Deadline) -> None:
            nonlocal more
            # Counted but not kept: the heartbeats of an idle day would fill the answer.
            if len(fired) < MAX_FIRED:
                fired.append(_deadline(deadline, began_ms))
            else:
                more += 1

        await self._control.advance_to(to_ms, note)
        return Moved(self._control.time_ms(), fired, more)


def _deadline(found: clock_members.Deadline, from_ms: int) -> Deadline:
    in_s = (found.at_ms - from_ms) / 1000
    return Deadline(found.name, found.at_ms, in_s, found.what)


async def _send(producer: Producer, wanted: NewMessage) -> Stored:
    message = Message(
        wanted.topic,
        wanted.body.encode(),
        tags=wanted.tag,
        keys=wanted.key,
        delay_level=wanted.delay_level,
        # `message resend` reads a dead letter's original topic from this property.
        properties=None if wanted.origin is None else {names.DLQ_ORIGIN_TOPIC: wanted.origin},
    )
    for name, text in wanted.properties.items():
        message.put_user_property(name, text)
    return _stored(await producer.send(message))


def _stored(result: SendResult) -> Stored:
    return Stored(
        result.queue.broker_name, result.queue.queue_id, result.queue_offset, result.msg_id
    )


def _dead_letter_topics(seed: Seed) -> list[str]:
    """Topics of dead letters that its messages are for, and that it does not name itself."""
    named = {topic.name for topic in seed.topics}
    found = {each.topic for each in seed.messages if each.topic.startswith(DLQ_PREFIX)}
    return sorted(found - named)


def _described(view: GroupView) -> GroupDescription:
    return msgspec.convert(view.as_dict(), GroupDescription)


def _shown(message: MessageExt) -> StoredMessage:
    return StoredMessage(
        message.topic,
        message.broker_name,
        message.queue_id,
        message.queue_offset,
        message.uniq_key or "",
        message.body.decode("utf-8", "replace"),
        message.tags,
        message.keys,
        message.born_timestamp_ms,
        message.store_timestamp_ms,
        message.reconsume_times,
        dict(message.properties),
    )


def _number(parameters: Parameters, name: str, default: int, most: int) -> int:
    try:
        number = msgspec.convert(parameters.get(name, default), int, strict=False)
    except msgspec.ValidationError as exc:
        raise CallerError(f"{name} is no number") from exc
    if not 1 <= number <= most:
        raise CallerError(f"{name} is {number}; write a number from 1 to {most}")
    return number
