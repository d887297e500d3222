"""A broker's medium made by hand, and the rules of durability that look at it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from pocketmq.protocol.command import Command
from pocketmq.protocol.headers.send import SendMessageResponseHeader
from pocketmq.protocol.messages.ids import offset_msg_id
from pocketmq.protocol.messages.properties import encode_properties
from pocketmq.protocol.stored.record import encode_record
from pocketmq.simulation.invariants.durability import DurabilityLedger

HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
LOG = "/a/commitlog/" + "0" * 20


class Medium:
    """A broker's disk: what is written, and what of it a power cut would leave."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {LOG: b""}
        self.ledger = DurabilityLedger("a", "/a", self.files.get, lambda: self.files, lambda: 7.0)
        self._written = b""
        self._next: dict[tuple[str, int], count[int]] = {}

    def write(
        self,
        body: bytes,
        topic: str = "T",
        queue_id: int = 0,
        times: int = 0,
        waits_for: str = "",
        *,
        key: str = "",
        properties: Mapping[str, str] | None = None,
        sys_flag: int = 0,
    ) -> int:
        """Append a record; where it begins."""
        at = len(self._written)
        offset = next(self._next.setdefault((topic, queue_id), count()))
        stored = {"UNIQ_KEY": key or body.decode(), **(properties or {})}
        if waits_for:
            stored |= {"REAL_TOPIC": waits_for, "REAL_QID": "0"}
        self._written += encode_record(
            topic=topic.encode(),
            flag=0,
            sys_flag=sys_flag,
            prepared_transaction_offset=0,
            queue_id=queue_id,
            body=body,
            properties=encode_properties(stored).encode(),
            reconsume_times=times,
            queue_offset=offset,
            physical_offset=at,
            store_timestamp_ms=1_700_000_000_000,
            born_timestamp_ms=1_700_000_000_000,
            born_host=HOST,
            store_host=HOST,
        )
        return at

    def sync(self) -> None:
        """Bring the log to the disk."""
        self.files[LOG] = self._written
        self.ledger.kept(LOG, self._written)

    def keep(self, path: str, content: bytes) -> None:
        """A small file is on the disk."""
        self.files[path] = content
        self.ledger.kept(path, content)

    def note(self, path: str, content: bytes) -> list[str]:
        """What the ledger says of a file that may be on the disk from now on."""
        self.ledger.noted(path, content)
        return self.found()

    def answer(self, request: Command, answer: Command) -> list[str]:
        """What the ledger says of a request that is answered."""
        self.ledger.asked(request)
        self.ledger.answered(request, answer)
        return self.found()

    def answer_send(self, *offsets: int) -> list[str]:
        """What the ledger says of an answer to a send."""
        ids = ",".join(offset_msg_id(HOST, at) for at in offsets)
        header = SendMessageResponseHeader(msg_id=ids, queue_id=0, queue_offset=0)
        self.ledger.answered(None, Command(0, header))
        return self.found()

    def found(self) -> list[str]:
        """New violations."""
        found, self.ledger.violations[:] = list(self.ledger.violations), []
        return found
