"""All consume queues of a store, by topic and queue id (RocketMQ's `ConsumeQueueStore`)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from pocketmq.broker.store.consume_queue import ConsumeQueue
from pocketmq.broker.store.disk import Disk
from pocketmq.broker.store.mapped_file import Mappings
from pocketmq.broker.store.rooted_disk import child
from pocketmq.broker.store.stored_message import StoredMessage


class ConsumeQueues:
    """Finds queues, makes them on demand (S-36), forgets them with their topic."""

    def __init__(self, disk: Disk, root: str, file_size: int, max_open_files: int) -> None:
        self.directory = os.path.join(root, "consumequeue")
        self.file_size = file_size
        """Bytes of each file."""
        self._disk = disk
        self._mappings = Mappings(max_open_files)
        self._topics: dict[str, dict[int, ConsumeQueue]] = {}

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """The queue, when it exists."""
        queues = self._topics.get(topic)
        return None if queues is None else queues.get(queue_id)

    def get_or_create(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, empty and without a file when it is new.

        Raises:
            IllegalPathError: the topic cannot be the name of a folder.
        """
        queue = self.get(topic, queue_id)
        if queue is None:
            queue = ConsumeQueue(
                self._disk, self.directory, topic, queue_id, self.file_size, self._mappings
            )
            self._topics.setdefault(topic, {})[queue_id] = queue
        return queue

    def of(self, messages: Sequence[StoredMessage]) -> list[ConsumeQueue]:
        """The queue of each message, made if it is new.

        Raises:
            IllegalPathError: a topic among them cannot be the name of a folder.
        """
        topics = self._topics
        try:
            return [topics[message.topic][message.queue_id] for message in messages]
        except KeyError:
            return [self.get_or_create(message.topic, message.queue_id) for message in messages]

    def __iter__(self) -> Iterator[ConsumeQueue]:
        for queues in self._topics.values():
            yield from queues.values()

    def by_topic(self) -> Iterator[tuple[str, list[ConsumeQueue]]]:
        """The queues of each topic."""
        for topic, queues in self._topics.items():
            yield topic, list(queues.values())

    def __len__(self) -> int:
        return sum(len(queues) for queues in self._topics.values())

    def topics_on_disk(self) -> list[str]:
        """The topics that have a directory, sorted."""
        return self._disk.list_directory(self.directory)

    def find_on_disk(self, topic: str) -> Iterator[ConsumeQueue]:
        """Queue objects, their files not yet loaded, for every directory of a topic's queue."""
        for name in self._disk.list_directory(child(self.directory, topic)):
            if name.isdigit():
                yield self.get_or_create(topic, int(name))

    def delete_topic(self, topic: str) -> list[ConsumeQueue]:
        """Remove a topic's queues and their files; the queues that are gone."""
        gone = list(self._topics.pop(topic, {}).values())
        for queue in gone:
            queue.files.remove_all()
        self._disk.remove_directory(child(self.directory, topic))
        return gone

    def close(self) -> None:
        """Let go of all mappings."""
        for queue in self:
            queue.files.close()
