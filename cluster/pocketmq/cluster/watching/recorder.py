"""Writes what a running cluster tells into a recording: `pocketmq watch --record FILE`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from pocketmq.cluster.control_address.client import ControlClient
from pocketmq.cluster.control_address.declarations import ClusterDescription
from pocketmq.cluster.recordings.writer import RecordingWriter
from pocketmq.operation.events import AnyEvent
from pocketmq.runtime.errors import PeerError


def record(client: ControlClient, path: Path, *, most_s: float | None = None) -> int:
    """Record until Ctrl-C, until the cluster ends, or for some seconds; returns how many events.

    Raises:
        PeerError: No control address answers.
        DiskError: The file cannot be written.
    """
    cluster = client.get("/cluster", ClusterDescription)
    roles = [role.name for role in cluster.roles]
    with RecordingWriter(path, path.stem, cluster.time_ms, roles) as writer:
        try:
            # The feed is opened before the present is asked for, so that nothing is missed in
            # between.
            feed = client.lines("/events", most_s=most_s)
            if next(feed, None) is None:  # the time is over before the cluster answered
                return writer.events
            # From now on nothing is missed.
            for event in client.get("/watch/now", list[AnyEvent]):
                writer.write(event)
            for line in feed:
                if line.startswith(b"data:"):
                    for told in _decoded(line[5:]):
                        writer.write(told)
        except (KeyboardInterrupt, PeerError):
            # Without any event there is no recording, and the error says why.
            if not writer.events:
                raise
        return writer.events


def _decoded(data: bytes) -> Iterator[AnyEvent]:
    try:
        yield msgspec.json.decode(data, type=AnyEvent)
    except msgspec.DecodeError as exc:
        raise PeerError(
            f"the cluster sent an event that this version of PocketMQ cannot read: {exc}; use "
            "the cluster's version"
        ) from exc
