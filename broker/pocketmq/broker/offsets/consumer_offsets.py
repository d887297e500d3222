"""Committed, pulled and pending reset offsets of each group (B-31 to B-36).

An offset is the *next* one to consume. 0 is an offset like any other; "none" is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from pocketmq.broker.offsets.topic_groups import TopicGroups
from pocketmq.broker.tables.unsaved import Unsaved
from pocketmq.operation.events.messages import OffsetCommitted
from pocketmq.operation.events.sink import NO_EVENTS, EventSink, Place
from pocketmq.protocol.bodies.offsets import ConsumerOffsetTable
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.messages.validation import SYSTEM_GROUP_PREFIX

SEPARATOR = "@"
"""Separates topic and group. No topic contains it; the group in `T@g@broadcast` does (B-36)."""
COMMITS_PER_VERSION = 500
"""The data version is bumped once in so many commits (B-32)."""

_NONE: Mapping[int, int] = {}


class ConsumerOffsetManager:
    """(topic, group) -> queue id -> offset. Every operation on one queue is O(1).

    Args:
        events: Told of commits.
        broker: Name of the broker, for them.
    """

    def __init__(self, events: EventSink = NO_EVENTS, broker: str = "") -> None:
        self._events = events
        self._broker = broker
        self.data_version = DataVersion()
        self.unsaved = Unsaved()
        """Something was committed since the table was last saved."""
        self._committed: dict[tuple[str, str], dict[int, int]] = {}
        self._stored: dict[str, dict[int, int]] = {}
        """The same by `topic@group`: it is saved often, and 100,000 names take 20 ms to make."""
        self._pulled: dict[tuple[str, str], dict[int, int]] = {}
        self._resets: dict[tuple[str, str], dict[int, int]] = {}
        self._committed_by = TopicGroups()
        self._pulled_by = TopicGroups()
        self._commits = 0
        self._count = 0

    @property
    def count(self) -> int:
        """Committed offsets of all groups in all queues."""
        return self._count

    # -- committed ----------------------------------------------------------------------------

    def commit(self, group: str, topic: str, queue_id: int, offset: int, now_ms: int) -> int | None:
        """Store the offset, even when it is smaller than the old one, which is returned (B-32).

        The caller may warn when the result is larger than `offset`.
        """
        key = (topic, group)
        queues = self._committed.get(key)
        if queues is None:
            queues = self._add(key)
        before = queues.get(queue_id)
        if before is None:
            self._count += 1
        queues[queue_id] = offset
        self._commits += 1
        # As in RocketMQ, 500 commits raise the version once; slaves compare versions (B-32, Z-10).
        if self._commits % COMMITS_PER_VERSION == 0:
            self.data_version = self.data_version.next_version(now_ms)
        elif before == offset:
            return before  # an idle member commits the same every 5 s: nothing new to save
        if self._events.is_on and before != offset:
            self._tell(group, topic, queue_id, offset, before)
        self.unsaved.note()
        return before

    def _tell(self, group: str, topic: str, queue_id: int, offset: int, before: int | None) -> None:
        events = self._events
        if not events.wants(OffsetCommitted):
            events.count(OffsetCommitted, Place(topic, queue_id, self._broker, group), 0)
            return
        event = OffsetCommitted(
            *events.stamp(),
            topic=topic,
            broker=self._broker,
            queue=queue_id,
            offset=offset,
            group=group,
            before=before,
        )
        events.emit(event)

    def query(self, group: str, topic: str, queue_id: int) -> int | None:
        """The stored offset; None when there is none, also for a stored negative one."""
        # Some clients commit -1 for a queue that they have not read.
        offset = self._committed.get((topic, group), _NONE).get(queue_id, -1)
        return offset if offset >= 0 else None

    def queues(self, group: str, topic: str) -> Mapping[int, int]:
        """Queue id -> committed offset."""
        return self._committed.get((topic, group), _NONE)

    def topics_of(self, group: str) -> frozenset[str]:
        """Topics in which the group has committed."""
        return frozenset(self._committed_by.topics_of(group))

    def groups_of(self, topic: str) -> frozenset[str]:
        """Groups that have committed in the topic, but not as `group@broadcast` (B-36)."""
        groups = self._committed_by.groups_of(topic)
        return frozenset(group for group in groups if SEPARATOR not in group)

    def entries(self) -> Iterator[tuple[str, str, Mapping[int, int]]]:
        """(topic, group, queue id -> offset) of everything committed."""
        for (topic, group), queues in self._committed.items():
            yield topic, group, queues

    # -- pulled -------------------------------------------------------------------------------

    def note_pull(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Remember up to where the group last pulled; kept in memory only (B-35)."""
        key = (topic, group)
        queues = self._pulled.get(key)
        if queues is None:
            queues = self._pulled[key] = {}
            self._pulled_by.add(topic, group)
        queues[queue_id] = offset

    def pulled(self, group: str, topic: str, queue_id: int) -> int:
        """Up to where the group last pulled, or its committed offset, or 0."""
        offset = self._pulled.get((topic, group), _NONE).get(queue_id)
        return offset if offset is not None else self.query(group, topic, queue_id) or 0

    def pulls(self) -> Iterator[tuple[str, str, int, int]]:
        """(topic, group, queue id, offset) of the last pull of every queue."""
        for (topic, group), queues in self._pulled.items():
            for queue_id, offset in queues.items():
                yield topic, group, queue_id, offset

    # -- resets -------------------------------------------------------------------------------

    def assign_reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Have the group's next pull of the queue moved to `offset` (B-59, E-30).

        Commits of the queue are ignored until then: they belong to the progress before the reset.
        """
        key = (topic, group)
        self._resets.setdefault(key, {})[queue_id] = offset
        # Set the committed offset too: a client that was away asks for its offset before it pulls,
        # and must get that of the reset.
        queues = self._committed.get(key)
        if queues is None:
            queues = self._add(key)
        self._count += queue_id not in queues
        queues[queue_id] = offset
        self.unsaved.note()

    def pending_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """The offset that the next pull of the queue is moved to, if any."""
        # Resets are rare, and this is called at every pull and commit.
        if not self._resets:
            return None
        return self._resets.get((topic, group), _NONE).get(queue_id)

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """As `pending_reset`, and removes it: the reset is carried out."""
        if not self._resets:
            return None
        key = (topic, group)
        queues = self._resets.get(key)
        if queues is None:
            return None
        offset = queues.pop(queue_id, None)
        if not queues:
            del self._resets[key]
        return offset

    # -- removing -----------------------------------------------------------------------------

    def forget_topic(self, topic: str) -> None:
        """The topic was deleted (B-16)."""
        for group in {*self._committed_by.groups_of(topic), *self._pulled_by.groups_of(topic)}:
            self.forget(group, topic)

    def forget_group(self, group: str) -> None:
        """Remove the offsets of a deleted group: DELETE_SUBSCRIPTIONGROUP (207)."""
        for topic in {*self._committed_by.topics_of(group), *self._pulled_by.topics_of(group)}:
            self.forget(group, topic)

    def forget(self, group: str, topic: str) -> None:
        """Remove all offsets of the group in the topic."""
        key = (topic, group)
        self._count -= len(self._committed.get(key, ()))
        for table in (self._committed, self._pulled, self._resets):
            table.pop(key, None)
        self._stored.pop(f"{topic}{SEPARATOR}{group}", None)
        self._committed_by.discard(topic, group)
        self._pulled_by.discard(topic, group)
        self.unsaved.note()

    def forget_pulls(self, is_subscribed: Callable[[str, str], bool]) -> None:
        """Forget up to where those pulled that neither committed anything nor subscribe now.

        Else names that nobody uses any more would take memory for ever; one that is still used is
        known again with its next pull.

        Args:
            is_subscribed: whether (group, topic) has a member.
        """
        for topic, group in [key for key in self._pulled if key not in self._committed]:
            if not is_subscribed(group, topic):
                del self._pulled[topic, group]
                self._pulled_by.discard(topic, group)

    # -- storing ------------------------------------------------------------------------------

    def load(self, stored: ConsumerOffsetTable) -> None:
        """Take over what `consumerOffset.json` holds."""
        for name, queues in stored.offset_table.items():
            # An operator may have edited the file: without a separator the name has no group.
            topic, separator, group = name.partition(SEPARATOR)
            if separator:
                known = self._add((topic, group))
                known.update(queues)
        self._count = sum(map(len, self._committed.values()))
        self.data_version = stored.data_version

    def merge(self, master: ConsumerOffsetTable) -> None:
        """Take over the master's offsets; groups that it does not know keep theirs (H-70).

        What was committed here to a queue that the master knows is lost (H-12).
        """
        for name, queues in master.offset_table.items():
            topic, separator, group = name.partition(SEPARATOR)
            if not separator:
                continue
            mine = self._add((topic, group))
            if mine != queues:
                self._count += len(queues) - len(mine)
                mine.clear()
                mine.update(queues)
                self.unsaved.note()
        # Take the version too, because this table is a copy of the master's.
        self.data_version = master.data_version

    def note_acting(self, now_ms: int) -> None:
        """Commits come to this slave from now on: its table is newer than the copy was (Z-10)."""
        self.data_version = self.data_version.next_version(now_ms, self.data_version.state_version)
        self.unsaved.note()

    def take_back(self, slave: ConsumerOffsetTable, max_offset: Callable[[str, int], int]) -> int:
        """Take over what was committed to a slave that acted as master; how many changed (Z-9).

        A slave's table that is as new as this one, or newer, is right; its version moves once in
        500 commits, so it often is as new (Z-10). Of an older one only what is further counts, and
        of the broker's own groups always: their work does not go on at a slave.

        Args:
            slave: its table.
            max_offset: where (topic, queue id) ends here; no offset is taken beyond it.
        """
        is_newer = _age(slave.data_version) >= _age(self.data_version)
        changed = 0
        for name, queues in slave.offset_table.items():
            topic, separator, group = name.partition(SEPARATOR)
            if not separator:
                continue
            mine = self._committed.get((topic, group), _NONE)
            # Groups of the broker itself keep their offsets: their work continues here, not on the
            # slave (Z-9).
            wins = is_newer and not group.startswith(SYSTEM_GROUP_PREFIX)
            for queue_id, theirs in queues.items():
                # Never beyond the end of this log, which may be shorter than the slave's was (Z-9).
                offset = min(theirs, max_offset(topic, queue_id))
                before = mine.get(queue_id)
                if offset == before or (before is not None and offset < before and not wins):
                    continue
                self._add((topic, group))[queue_id] = offset
                self._count += before is None
                changed += 1
        if is_newer:
            self.data_version = slave.data_version
        self.unsaved.note()
        return changed

    def clamp(self, max_offset: Callable[[str, int], int]) -> list[tuple[str, str, int, int]]:
        """Pull offsets beyond their queue's end back to it; (topic, group, queue, offset) of each.

        After a power cut the log may end before what consumers had committed. Messages that come
        then would lie below the offset, and the group would never see them.
        """
        fallen = []
        for (topic, group), queues in self._committed.items():
            for queue_id, offset in queues.items():
                end = max_offset(topic, queue_id)
                # A power cut may have lost messages whose offsets were already committed (F-25).
                if offset > end:
                    fallen.append((topic, group, queue_id, offset))
                    queues[queue_id] = end
                    self.unsaved.note()
        return fallen

    def wrapper(self) -> ConsumerOffsetTable:
        """The table as it is stored and shown: GET_ALL_CONSUMER_OFFSET (43)."""
        return ConsumerOffsetTable(data_version=self.data_version, offset_table=dict(self._stored))

    def _add(self, key: tuple[str, str]) -> dict[int, int]:
        queues = self._committed.get(key)
        if queues is None:
            queues = self._committed[key] = self._stored[SEPARATOR.join(key)] = {}
            self._committed_by.add(*key)
        return queues


def _age(version: DataVersion) -> tuple[int, int, int]:
    """Orders versions of one table (N-10)."""
    return (version.state_version, version.counter, version.timestamp)
