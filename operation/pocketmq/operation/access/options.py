"""Options whose value is a user's name and secret, as JSON."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from pocketmq.protocol.signing import Credentials
from pocketmq.runtime.errors import ConfigError

T = TypeVar("T", bound=msgspec.Struct)


class _InnerClient(msgspec.Struct, rename="camel"):
    access_key: str
    secret_key: str


def inner_credentials(text: str) -> Credentials | None:
    """What signs a role's own requests: `innerClientAuthenticationCredentials`; None if empty.

    Raises:
        ConfigError: it cannot be read.
    """
    found = read_json("innerClientAuthenticationCredentials", text, _InnerClient)
    return None if found is None else Credentials(found.access_key, found.secret_key)


def read_json(name: str, text: str, cls: type[T]) -> T | None:
    """The JSON of an option, of which no part is shown; None if it is empty.

    Raises:
        ConfigError: it is no such JSON, or has an empty text.
    """
    if not text.strip():
        return None
    try:
        found = msgspec.json.decode(text, type=cls)
    # The error's own text is dropped: it may quote the secret.
    except msgspec.MsgspecError:
        found = None
    # No user has an empty key or secret.
    if found is None or not all(msgspec.structs.astuple(found)):
        keys = ", ".join(f'"{key}"' for key in cls.__struct_encode_fields__)
        raise ConfigError(name, f"this is no JSON object with texts for {keys}")
    return found
