"""Signatures of requests: who asks, and proof of it (Y-10 to Y-12).

RocketMQ's clients add three fields to a request's header, of which the server takes the last away:

    AccessKey        the user's name
    SecurityToken    of temporary credentials only
    Signature        base64 of HMAC-SHA1 of secret key and text

The text is the *values* of all other fields, in the order of their names by UTF-16 code unit, one
right after the other, and then the body. Names, code and opaque are not signed, and there is no
number that is used once: whoever has recorded a request can send it again. That is RocketMQ's
protocol.

Header fields of encoding 77 have types; their text is what encoding 0 would carry.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pocketmq.protocol.command import Body, Encoding
from pocketmq.protocol.header import Header, to_text_value

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105 - the name of a field

_LAST_UNSIGNED: Final = 399
"""Up to this version (RocketMQ 4.9.3) clients do not sign what marks a query by unique key."""

_UNSIGNED_FLAG: Final = "_UNIQUE_KEY_QUERY"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Name and secret of a user; neither secret is part of its `repr`."""

    access_key: str
    """The user's name."""
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)
    """Of temporary credentials."""

    def __post_init__(self) -> None:
        if not self.access_key or not self.secret_key:
            raise ValueError(
                "credentials must have an access key and a secret key, and neither may be empty"
            )

    def signed(
        self, header: Header, body: Body, encoding: Encoding = Encoding.JSON
    ) -> dict[str, object]:
        """The fields of a request with those that prove who sent it.

        Args:
            header: Of the request.
            body: As it is sent; its bytes are part of what is signed.
            encoding: msgpack keeps the types of the values, the others carry texts.
        """
        if encoding is Encoding.MSGPACK:
            values = zip(
                header.__struct_encode_fields__, msgspec.structs.astuple(header), strict=True
            )
            fields: dict[str, object] = {name: each for name, each in values if each is not None}
        else:
            fields = dict(header.to_text())
        fields[ACCESS_KEY] = self.access_key
        if self.security_token is not None:
            fields[SECURITY_TOKEN] = self.security_token
        fields[SIGNATURE] = signature(fields, body, self.secret_key)
        return fields


def signature(fields: Mapping[str, object], body: Body, secret_key: str, version: int = 0) -> str:
    """What a request's `Signature` has to be.

    Args:
        fields: All of its header, as received; `Signature` itself does not count.
        body: Of the request.
        secret_key: Of the user.
        version: Of the sender, where it received the fields of another; 0 signs all of them.
    """
    old = 0 < version <= _LAST_UNSIGNED
    text = "".join(
        "null" if value is None else to_text_value(value)
        for name, value in sorted(fields.items(), key=_by_code_unit)
        if name != SIGNATURE and not (old and name == _UNSIGNED_FLAG)
    )
    digest = hmac.new(secret_key.encode(), text.encode("utf-8", "replace"), "sha1")
    for part in (body,) if isinstance(body, (bytes, bytearray, memoryview)) else body:
        digest.update(part)
    return base64.b64encode(digest.digest()).decode()


def is_signed(fields: Mapping[str, object], body: Body, secret_key: str, version: int) -> bool:
    """Whether a request that was received has the right `Signature`.

    How long it takes tells nothing of the right one.
    """
    given = fields.get(SIGNATURE)
    right = signature(fields, body, secret_key, version)
    return isinstance(given, str) and hmac.compare_digest(
        right.encode(), given.encode("utf-8", "replace")
    )


def _by_code_unit(item: tuple[str, object]) -> bytes:
    return item[0].encode("utf-16-be", "surrogatepass")
