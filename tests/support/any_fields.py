"""Requests whose fields no header class has to know."""

from __future__ import annotations

from pocketmq.protocol.command import Body, Encoding
from pocketmq.protocol.header import Header
from pocketmq.protocol.signing import Credentials


class Fixed(Credentials):
    """Fields that are sent as they are, in place of a header's."""

    def __init__(self, fields: dict[str, object]) -> None:
        self.fields: dict[str, object]
        object.__setattr__(self, "fields", fields)

    def signed(
        self, header: Header, body: Body, encoding: Encoding = Encoding.JSON
    ) -> dict[str, object]:
        return self.fields
