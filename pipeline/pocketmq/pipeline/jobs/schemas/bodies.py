"""A body that was decoded by a schema, the shape of its decoder, and the error of one that does not
fit."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from pocketmq.runtime.errors import CallerError


class BadBodyError(CallerError):
    """A body does not fit its schema."""


class Decoder(Protocol):
    """Decodes bodies of one schema."""

    def __call__(self, body: bytes) -> dict[str, Any]:
        """The body's fields.

        Raises:
            BadBodyError: It does not fit.
        """


class Body(NamedTuple):
    """A body that was decoded."""

    fields: dict[str, Any]
    message: str = ""
    """Full name of the Protobuf message, or of the record of an Avro union, where it is not that
    of the topic's newest schema."""
