"""What both ends of these ports know: the body of an answer that says what went wrong, a cookie."""

from __future__ import annotations

from typing import Final

import msgspec

TOKEN_COOKIE: Final = "pocketmq_token"  # noqa: S105 - its name


class Problem(msgspec.Struct, forbid_unknown_fields=True):
    """An error, with what to do."""

    error: str
