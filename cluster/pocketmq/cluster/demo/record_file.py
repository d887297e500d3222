"""The file in which a consumer of the demo writes down what it consumed: the lines of `tally`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Self

import msgspec

from pocketmq.cluster.demo.tally import FlightId, record_line
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.runtime.errors import DiskError


class FlightBody(msgspec.Struct):
    """The fields of a flight's JSON object that the demo adds up."""

    carrier: str
    dep_delay: int | None = None


class RecordWriter:
    """Appends record lines; each batch is one write, which survives the death of this process.

    Args:
        path: The file.
        with_ids: Add each message's id, which its retries keep.
    """

    def __init__(self, path: Path, *, with_ids: bool = False) -> None:
        try:
            # Unbuffered, so that lines written before a kill are in the page cache, which outlives
            # the process.
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as exc:
            raise DiskError(path, exc.strerror or str(exc)) from exc
        self.count = 0
        self._with_ids = with_ids
        self._decode = msgspec.json.Decoder(FlightBody).decode

    async def consume(self, messages: list[MessageExt], _context: object) -> None:
        """A listener: write messages to the file; success is reported when it returns."""
        lines = []
        for message in messages:
            body = self._decode(message.body)
            flight = FlightId(message.keys or "", body.carrier, body.dep_delay)
            place = (message.broker_name, message.queue_id, message.queue_offset)
            message_id = message.msg_id if self._with_ids else ""
            lines.append(record_line(*place, flight, message_id=message_id))
        # One write for the batch, so that a kill leaves all of it or its beginning. could be
        # better: a short write, as on a full disk, is not noticed.
        os.write(self._fd, b"".join(lines))
        self.count += len(lines)

    def status(self) -> dict[str, str]:
        """The answer to ROLE_STATUS (30003)."""
        return {"consumed": str(self.count)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        os.close(self._fd)


@dataclass(slots=True)
class RecordReader:
    """Reads what a consumer appends to its file, which it may not have made yet."""

    path: Path
    file: BinaryIO | None = field(default=None)

    def read_on(self) -> bytes:
        """The bytes appended since the last call."""
        if self.file is None:
            # The consumer creates the file when it starts.
            if not self.path.exists():
                return b""
            self.file = self.path.open("rb")
        return self.file.read()

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
