"""Who an RPC says that it is from, and the proof: the header `authorization` (G-6).

    MQv2-HMAC-SHA1 Credential=shop/region/service, SignedHeaders=x-mq-date-time, Signature=1A2B...

The signature is HMAC-SHA1 of the user's secret and the header `x-mq-date-time`, in hexadecimal
digits. Nothing else of a call is signed, and no date is too old: who has seen one can use it for
ever, for any call. That is RocketMQ's protocol. `x-mq-session-token` is not looked at there either.
"""

from __future__ import annotations

import binascii
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pocketmq.operation.access.decisions import WRONG_SIGNATURE, AccessDeniedError
from pocketmq.protocol.java import java_split

_JAVA_TRIMS: Final = "".join(map(chr, range(0x21)))


@dataclass(frozen=True, slots=True)
class Claim:
    """What one call says."""

    username: str = ""
    """Empty: the call names nobody."""
    signature: bytes | None = field(default=None, repr=False)
    signed: bytes = b""

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> Claim:
        """Of a call's headers.

        Raises:
            AccessDeniedError: what is there makes no sense; with RocketMQ's words.
        """
        text = headers.get("authorization", "")
        if not text:
            return cls()
        date = headers.get("x-mq-date-time", "")
        # Only the date is signed, so without it the signature cannot be checked.
        if not date:
            raise AccessDeniedError("datetime is null.")
        _scheme, space, rest = text.partition(" ")
        if not space:
            raise AccessDeniedError("authentication header is incorrect.")
        username, signature = "", None
        for item in java_split(rest, ","):
            name, equal, value = item.strip(_JAVA_TRIMS).partition("=")
            if not equal:
                raise AccessDeniedError(
                    "authentication keyValues length is incorrect, actual length=1."
                )
            if name == "Credential":
                # Region and service stand behind the name, and no SDK's signature covers them.
                parts = java_split(value, "/")
                if not parts:
                    raise AccessDeniedError(
                        "authentication credential length is incorrect, actual length=0."
                    )
                username = parts[0]
            elif name == "Signature":
                try:
                    signature = binascii.unhexlify(value)
                # An odd number of digits, or something that is no digit.
                except ValueError as exc:
                    raise AccessDeniedError("create authentication context error.") from exc
        return cls(username, signature, date.encode())

    def check(self, secret: str) -> None:
        """Return if the signature is made with a secret.

        How long it takes tells nothing of the right one.

        Raises:
            AccessDeniedError: it is not, or there is none.
        """
        right = hmac.digest(secret.encode(), self.signed, "sha1")
        # `compare_digest` takes equally long, wherever a signature is wrong.
        if self.signature is None or not hmac.compare_digest(right, self.signature):
            raise AccessDeniedError(WRONG_SIGNATURE)
