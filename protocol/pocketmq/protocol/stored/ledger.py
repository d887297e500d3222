"""Logs that DLedger wrote (`enableDLegerCommitLog`), told from plain ones and stepped through.

Each record lies in an entry whose head takes 48 bytes. Queues and index lead to the records, not to
the entries, and a record says where it lies itself. So a reader by queues needs to know nothing of
entries; one that goes from record to record steps over the heads (D-234).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pocketmq.protocol.messages.message import Buffer
from pocketmq.protocol.store_layout import LEDGER_ENTRY

FOLDER_PREFIX: Final = "dledger-"
"""`dledger-n0/data` of a store holds the files, beside a plain log of before (D-230, D-235)."""
HEAD_SIZE: Final = LEDGER_ENTRY.offset_of("BODY")
MAGIC: Final = 1
"""First word of an entry; no plain record has so few bytes."""
BLANK_MAGIC: Final = -1
"""First word of what covers the end of a file (D-232)."""
REST_OF_FILE: Final = -1

_WORDS: Final = LEDGER_ENTRY.picking("magic", "size", "position", "body length")


def ledger_of(plain: Sequence[str], ledgers: Mapping[str, Sequence[str]]) -> str:
    """Which folder has the log that DLedger wrote, of those that a store has.

    Args:
        plain: names of the files in `commitlog`.
        ledgers: names of the files in each `dledger-*/data`, of which there is one at least.

    Raises:
        ValueError: there are several, or it is not behind the plain log; the text says so.
    """
    first, *others = sorted(ledgers)
    if others:
        raise ValueError(
            f"a store may have only one log of DLedger, but this store has {first} and {others[0]}"
        )
    # The ledger must begin after the plain log, or both hold the same offsets.
    if plain and max(plain) >= min(ledgers[first]):
        raise ValueError(
            f"commitlog/{max(plain)} and {first} contain the same log offsets, but the log of "
            "DLedger must begin after the log in commitlog"
        )
    return first


def record_place(buffer: Buffer, at: int, offset: int) -> int:
    """Where the record of an entry begins that stands at byte `at`, which has log offset `offset`.

    `at` itself where no entry stands, and `REST_OF_FILE` where the file has no more of them.
    """
    if len(buffer) - at < HEAD_SIZE:
        # The rest is too short for an entry's head.
        if len(buffer) - at >= 4 and _is_blank(buffer, at):
            return REST_OF_FILE
        return at
    magic, size, position, body_size = _WORDS.unpack_from(buffer, at)
    # An entry's head repeats its offset and size, which is how it is recognized (D-234).
    if magic == MAGIC and position == offset and size == body_size + HEAD_SIZE:
        return at + HEAD_SIZE
    return REST_OF_FILE if magic == BLANK_MAGIC else at


def _is_blank(buffer: Buffer, at: int) -> bool:
    return int.from_bytes(buffer[at : at + 4], "big", signed=True) == BLANK_MAGIC
