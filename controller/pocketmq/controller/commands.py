"""What controllers agree on: commands, in the order of their log. Values only.

A command is decided when it is applied, on every controller alike. So it brings along what only the
proposer can know: who was alive, what it took the state to be (I-15), and its limits.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from pocketmq.controller.election import Candidate
from pocketmq.controller.limits import Limits
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.scalars import Int32, Int64


class ApplyId(msgspec.Struct, frozen=True, tag="apply-id"):
    """A broker claims an id (D-21)."""

    cluster: str
    name: str
    broker_id: Int64
    check_code: str
    limits: Limits = Limits()


class SetAddress(msgspec.Struct, frozen=True, tag="set-address"):
    """A broker is at another address than before (D-22)."""

    cluster: str
    name: str
    broker_id: Int64
    address: str
    limits: Limits = Limits()


class Elect(msgspec.Struct, frozen=True, tag="elect"):
    """Find a master (D-25)."""

    cluster: str
    """Empty: not told."""
    name: str
    asked_by: Int64
    """A broker; -1: the controller, because the master is dead."""
    is_designated: bool
    """`asked_by` or nobody."""
    candidates: list[Candidate]
    """All living replicas."""
    allow_unclean: bool
    expected_epoch: Int32 | None = None
    """Nothing changes if the master's epoch is another one by then."""


class AlterSet(msgspec.Struct, frozen=True, tag="alter-set"):
    """A master says who is in sync (D-24)."""

    name: str
    master_id: Int64
    master_epoch: Int32
    in_sync: list[Int64]
    set_epoch: Int32
    alive: list[Int64]


class Clean(msgspec.Struct, frozen=True, tag="clean"):
    """Forget replicas (D-26)."""

    cluster: str
    name: str
    broker_ids: list[Int64]
    """Empty: all."""
    is_forced: bool
    """Also living ones."""
    alive: list[Int64]


Command: TypeAlias = ApplyId | SetAddress | Elect | AlterSet | Clean

_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Command] = msgspec.json.Decoder(Command)


def encode(command: Command) -> str:
    """As it stands in the log."""
    return _ENCODER.encode(command).decode()


def decode(text: str) -> Command:
    """A command from the log.

    Raises:
        BadRequestError: it is none, say of a newer version.
    """
    try:
        return _DECODER.decode(text)
    except msgspec.MsgspecError as exc:
        # A newer version may have decided it; this version cannot carry it out.
        raise BadRequestError(f"not a controller's command: {exc}") from exc
