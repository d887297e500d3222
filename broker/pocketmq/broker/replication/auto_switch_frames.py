"""The bytes between master and slave in controller mode (H-100).

Every message begins with a state, int32: HANDSHAKE 1 or TRANSFER 2.

    slave handshake   16       state 1, int16 from last file, int16 async learner, int64 slave id
    master handshake  20+12n   state 1, int32 12n, int64 end of log, int32 last epoch,
                               n * (int32 epoch, int64 start offset)
    report            12       state 2, int64 end of the slave's log
    frame             36+body  state 2, int32 body size, int64 offset, int32 epoch,
                               int64 start offset of that epoch, int64 confirm offset

A reader waits for the whole size that the state asks for (H-101).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from pocketmq.broker.replication.epochs import Epoch
from pocketmq.broker.replication.ha_frames import MAX_BODY_BYTES, NO_LOG, HaStreamError

SLAVE_HANDSHAKE: Final = struct.Struct(">ihhq")
REPORT: Final = struct.Struct(">iq")
MASTER_HANDSHAKE: Final = struct.Struct(">iiqi")
EPOCH: Final = struct.Struct(">iq")
HEAD: Final = struct.Struct(">iiqiqq")

MAX_EPOCHS: Final = 1000
"""Most that RocketMQ's buffer holds (H-100)."""

_STATE: Final = struct.Struct(">i")
_STATE_AND_SIZE: Final = struct.Struct(">ii")


class LinkState(IntEnum):
    """First word of each message; ordinals of RocketMQ's HAConnectionState."""

    READY = 0
    HANDSHAKE = 1
    TRANSFER = 2
    SUSPEND = 3
    SHUTDOWN = 4


class SlaveHandshake(NamedTuple):
    """A slave asks for the master's epochs."""

    slave_id: int
    from_last_file: bool = False
    async_learner: bool = False


class SlaveReport(NamedTuple):
    """How far a slave's log is."""

    offset: int


class MasterHandshake(NamedTuple):
    """A master's epochs, ascending."""

    max_offset: int
    last_epoch: int
    epochs: tuple[Epoch, ...]


class EpochFrame(NamedTuple):
    """A piece of one epoch of the log; without body a heartbeat."""

    offset: int
    epoch: int
    epoch_start: int
    confirm_offset: int
    body: bytes | memoryview
    """A view of what was read, where that spares a copy."""


FromSlave: TypeAlias = SlaveHandshake | SlaveReport
FromMaster: TypeAlias = MasterHandshake | EpochFrame


def encode_slave_handshake(asked: SlaveHandshake) -> bytes:
    """16 bytes."""
    return SLAVE_HANDSHAKE.pack(
        LinkState.HANDSHAKE, asked.from_last_file, asked.async_learner, asked.slave_id
    )


def encode_report(offset: int) -> bytes:
    """12 bytes."""
    return REPORT.pack(LinkState.TRANSFER, offset)


def encode_master_handshake(max_offset: int, last_epoch: int, epochs: Sequence[Epoch]) -> bytes:
    """20 bytes and 12 for each epoch; the newest `MAX_EPOCHS` of them."""
    # RocketMQ's buffer holds no more; the newest epochs decide where two logs part.
    sent = epochs[-MAX_EPOCHS:]
    head = MASTER_HANDSHAKE.pack(
        LinkState.HANDSHAKE, EPOCH.size * len(sent), max_offset, last_epoch
    )
    return head + b"".join(EPOCH.pack(each.epoch, each.start) for each in sent)


def encode_head(offset: int, size: int, epoch: Epoch, confirm_offset: int) -> bytes:
    """36 bytes; `size` bytes of log follow. 0 makes a heartbeat."""
    return HEAD.pack(LinkState.TRANSFER, size, offset, epoch.epoch, epoch.start, confirm_offset)


class SlaveMessages:
    """Cuts what a slave sends into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[FromSlave]:
        """Take bytes; every message that is whole now. Run it to its end.

        Raises:
            HaStreamError: another state than HANDSHAKE or TRANSFER, or a negative offset.
        """
        buffer = self._buffer
        buffer += data
        while len(buffer) >= _STATE.size:
            (state,) = _STATE.unpack_from(buffer)
            # The state decides the length, so the stream cannot be split after an unknown one
            # (H-101, H-102).
            layout = {LinkState.HANDSHAKE: SLAVE_HANDSHAKE, LinkState.TRANSFER: REPORT}.get(state)
            if layout is None:
                raise HaStreamError(f"a slave's message of state {state}")
            if len(buffer) < layout.size:
                return
            fields = layout.unpack_from(buffer)
            # Cut it off before the yield: the receiver may close the connection.
            del buffer[: layout.size]
            if layout is SLAVE_HANDSHAKE:
                _, from_last_file, async_learner, slave_id = fields
                yield SlaveHandshake(slave_id, bool(from_last_file), bool(async_learner))
            elif fields[1] < 0:
                raise HaStreamError(f"a report of {fields[1]}")
            else:
                yield SlaveReport(fields[1])


class MasterMessages:
    """Cuts what a master sends into messages."""

    def __init__(self, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self._buffer = bytearray()
        self._wanted = 0
        """Length of the message that has begun, as far as its head tells."""
        self._max_body_bytes = max_body_bytes

    def feed(self, data: bytes) -> Iterator[FromMaster]:
        """Take bytes; every message that is whole now. Run it to its end.

        Raises:
            HaStreamError: a state, length or offset that no master sends.
        """
        buffer = self._buffer
        # The message is still incomplete: frames of 32 KiB come in many reads.
        if buffer and len(buffer) + len(data) < self._wanted:
            buffer += data
            return
        # Without a rest from earlier reads the data is not copied, which helps a slave that catches
        # up.
        view = memoryview(buffer + data if buffer else data)
        at, self._wanted = 0, _STATE.size + 4
        while len(view) - at >= _STATE.size + 4:
            state, size = _STATE_AND_SIZE.unpack_from(view, at)
            layout = {LinkState.HANDSHAKE: MASTER_HANDSHAKE, LinkState.TRANSFER: HEAD}.get(state)
            # With a length that no master sends, this side would wait for gigabytes.
            if layout is None or not 0 <= size <= self._max_body_bytes:
                raise HaStreamError(
                    f"a message of the master has an unknown state ({state}) or a wrong size "
                    f"({size} bytes)"
                )
            end = at + layout.size + size
            if end > len(view):
                self._wanted = end - at
                break
            fields = layout.unpack_from(view, at)
            body = view[at + layout.size : end]
            at = end
            if layout is MASTER_HANDSHAKE:
                yield _handshake(fields[2], fields[3], body)
            # -1 comes from a master without a log (H-100); anything below is no offset.
            elif fields[2] < NO_LOG:
                raise HaStreamError(f"a frame for offset {fields[2]}")
            else:
                yield EpochFrame(fields[2], fields[3], fields[4], fields[5], body)
        # Copied, because the view would keep the whole read in memory.
        self._buffer = bytearray(view[at:])


def _handshake(max_offset: int, last_epoch: int, body: memoryview) -> MasterHandshake:
    if len(body) % EPOCH.size:
        raise HaStreamError(
            f"the epochs in a handshake have {len(body)} bytes, which is not a multiple of "
            f"{EPOCH.size}, the size of one epoch"
        )
    epochs = tuple(Epoch(epoch, start) for epoch, start in EPOCH.iter_unpack(body))
    return MasterHandshake(max_offset, last_epoch, epochs)
