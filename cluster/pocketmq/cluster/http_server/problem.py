"""The body of an answer that says what went wrong."""

from __future__ import annotations

import msgspec


class Problem(msgspec.Struct, forbid_unknown_fields=True):
    """An error, with what to do."""

    error: str
