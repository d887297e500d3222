"""When a replay sends a message, and how far it has come: no I/O but the state's file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pocketmq.pipeline.progress.checkpoint import Checkpoint, Mark
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.errors import CallerError
from pocketmq.runtime.files.new_folders import make_lasting
from pocketmq.runtime.files.replaced_folder import rename, sync


@dataclass(slots=True)
class Pace:
    """Says when the next message is due.

    Args:
        speed: 1.0 for the original pace, 10.0 for ten times as fast, 0 for as fast as possible.
        rate: Most messages a second; 0 for no limit.
    """

    speed: float = 0.0
    rate: float = 0.0
    _first_ms: int | None = None
    _sent: int = 0

    def due_s(self, stored_ms: int) -> float:
        """Seconds after the first message at which one that was stored then is due.

        Call it once for each message, in their order.
        """
        if self._first_ms is None:
            self._first_ms = stored_ms
        self._sent += 1
        return self.lasts_s(self._sent, self._first_ms, stored_ms)

    def lasts_s(self, count: int, first_ms: int, last_ms: int) -> float:
        """Seconds until the last of so many messages is due, which were stored in this time."""
        # The slower of the two decides: the rate also holds where the original was faster.
        by_time = (last_ms - first_ms) / 1000 / self.speed if self.speed > 0 else 0.0
        by_rate = (count - 1) / self.rate if self.rate > 0 else 0.0
        return max(by_time, by_rate)


@dataclass(slots=True)
class ReplayState:
    """What of a replay is done for certain; kept in a file."""

    source: str
    topic: str
    done: dict[MessageQueue, int] = field(default_factory=dict)
    """Of each queue of the source, the offset behind the last message that was acknowledged, or its
    begin."""
    ends: dict[MessageQueue, int] = field(default_factory=dict)
    """Of each queue of the target, its end when this was written: what was sent and is not in
    `done` stands behind it."""
    marks: dict[MessageQueue, Mark] = field(default_factory=dict)
    """Of the messages before `done`: how a queue made anew is noticed. States of earlier versions
    have none."""
    gone: set[MessageQueue] = field(default_factory=set)
    """Queues that have gone away, as was told."""

    @property
    def stand(self) -> Checkpoint:
        """Up to where the source was read."""
        return Checkpoint(self.done, self.marks, self.gone)

    @classmethod
    def load(cls, path: Path, source: str, topic: str) -> ReplayState | None:
        """The state in a file; None without a file.

        Raises:
            CallerError: It belongs to another replay, or is no state.
        """
        try:
            text = path.read_text()
        except FileNotFoundError:
            return None
        try:
            said: dict[str, Any] = json.loads(text)
            marks = {
                MessageQueue(topic, broker, queue_id): Mark.of(mark)
                # States of earlier versions have neither marks nor gone queues.
                for topic, broker, queue_id, mark in said.get("marks", ())
            }
            offsets = _offsets(said["done"]), _offsets(said["ends"])
            gone = {MessageQueue(*each) for each in said.get("gone", ())}
            found = cls(said["source"], said["topic"], *offsets, marks, gone)
        except (ValueError, KeyError, TypeError) as exc:
            raise CallerError(
                f"{path}: the file is not the state of a replay: {exc}; delete it, or name "
                "another file"
            ) from (exc)
        # Its offsets belong to other queues, and messages would be left out.
        if (found.source, found.topic) != (source, topic):
            raise CallerError(
                f"{path}: the file is the state of another replay, from {found.source} to "
                f"{found.topic}; name another file"
            )
        return found

    def save(self, path: Path) -> None:
        """Replace the file."""
        part = path.with_name(path.name + ".part")
        said = {
            "source": self.source,
            "topic": self.topic,
            "done": _listed(self.done),
            "ends": _listed(self.ends),
            "marks": _listed({queue: str(mark) for queue, mark in self.marks.items()}),
            "gone": [[each.topic, each.broker_name, each.queue_id] for each in sorted(self.gone)],
        }
        make_lasting(path.parent)
        part.write_text(json.dumps(said, indent=1))
        # On the disk before the rename: after a power cut the state is the old one or the new one.
        sync(part)
        rename(part, path)


def _offsets(listed: list[list[Any]]) -> dict[MessageQueue, int]:
    return {
        MessageQueue(topic, broker, queue_id): int(offset)
        for topic, broker, queue_id, offset in listed
    }


def _listed(by_queue: Mapping[MessageQueue, int | str]) -> list[list[Any]]:
    return [
        [queue.topic, queue.broker_name, queue.queue_id, by_queue[queue]]
        for queue in sorted(by_queue)
    ]
