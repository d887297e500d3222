"""Typed request and response headers: each is declared once, every codec derives from it.

A header is a `msgspec.Struct` whose Python names become RocketMQ's camelCase on the wire. Widths
are part of the declaration (`Int32`, `Int64`), so a value that one codec could carry and another
could not is refused in all of them. JSON (0) and RocketMQ binary (1) carry every value as text,
msgpack (77) carries it typed; unknown fields are ignored in all three (E-3, E-20).

    class PullMessageRequestHeader(Header, kw_only=True):
        CODE: ClassVar[int] = RequestCode.PULL_MESSAGE
        consumer_group: str
        queue_id: Int32

Declaring `CODE` enters the class in `REQUEST_HEADERS`; nothing else has to be registered.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Self, TypeVar

import msgspec

from pocketmq.protocol.errors import BadRequestError

REQUEST_HEADERS: dict[int, type[Header]] = {}
"""Request code -> the header class that declares it."""


class Header(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """Base of all typed headers. msgpack leaves out what equals its default, text only None."""

    CODE: ClassVar[int] = -1
    """Request code, on request headers only."""

    RESPONSE: ClassVar[type[Header] | None] = None
    """Header of the reply, where it has one; its structured body is `RESPONSE_BODY`."""

    BODY: ClassVar[type[msgspec.Struct] | None] = None
    """Structured body of the request, where it has one."""

    ON_EVERY_ANSWER: ClassVar[bool] = False
    """Of a reply's header: also on refusals, with its defaults, as Java's `long` is never null."""

    RESPONSE_BODY: ClassVar[type[msgspec.Struct] | None] = None
    """Structured body of the reply, where it has one."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        code = cls.__dict__.get("CODE")
        if code is not None:
            REQUEST_HEADERS[int(code)] = cls

    def to_text(self) -> dict[str, str]:
        """The fields as JSON and RocketMQ binary carry them: decimal numbers, `true`/`false`.

        Only None is left out: RocketMQ declares fields mandatory that have a default here, and
        refuses a request without them.
        """
        return {
            name: value if type(value) is str else to_text_value(value)
            for name, value in zip(
                self.__struct_encode_fields__, msgspec.structs.astuple(self), strict=True
            )
            if value is not None
        }

    @property
    def text_bytes(self) -> int:
        """Memory that its texts take at most: 4 bytes a character."""
        return 4 * sum(len(each) for each in msgspec.structs.astuple(self) if type(each) is str)

    @classmethod
    def from_fields(cls, fields: Mapping[str, object]) -> Self:
        """Read a header from text or typed fields.

        Numbers and booleans in text fields are accepted as their text: Node and C++ clients send
        them so (E-3).

        Raises:
            BadRequestError: a field is missing, of the wrong type or out of its width; names it.
        """
        return convert(fields, cls)


NO_FIELDS: Mapping[str, object] = {}

HeaderT = TypeVar("HeaderT", bound=Header)


def to_text_value(value: object) -> str:
    """`True` -> "true", 7 -> "7"; text stays."""
    if value is True:
        return "true"
    if value is False:
        return "false"
    return value if isinstance(value, str) else str(value)


def convert(fields: Mapping[str, object], cls: type[HeaderT]) -> HeaderT:
    """`Header.from_fields` as a function, for codecs."""
    try:
        # Not strict: two of the three encodings send numbers as text.
        return msgspec.convert(fields, cls, strict=False)
    except msgspec.ValidationError:
        # Node and C++ clients send numbers as text fields; lists and maps are nobody's text.
        texts = {
            name: to_text_value(value) if isinstance(value, (str, int, float)) else value
            for name, value in fields.items()
            if value is not None
        }
    for name in _booleans(cls):  # `Boolean.parseBoolean`: whatever is not "true" is false
        if isinstance(text := texts.get(name), str) and text:
            texts[name] = "true" if text.lower() == "true" else "false"
    try:
        return msgspec.convert(texts, cls, strict=False)
    except msgspec.ValidationError as exc:
        error = bad_header(cls, exc)
    # Without empty fields a second try would fail the same way.
    if "" not in texts.values():
        raise error
    try:  # an empty number or boolean is an absent one
        return msgspec.convert(
            {n: text for n, text in texts.items() if text != ""}, cls, strict=False
        )
    except msgspec.ValidationError:
        # Report the first error: the fields missing now were only empty.
        raise error from None


@cache
def _booleans(cls: type[Header]) -> tuple[str, ...]:
    """Wire names of the fields that are true, false or, some of them, None."""
    fields = msgspec.structs.fields(cls)
    return tuple(each.encode_name for each in fields if each.type in (bool, bool | None))


def bad_header(cls: type[Header], exc: msgspec.ValidationError) -> BadRequestError:
    """The error a peer gets for a header that does not fit; its text names the field."""
    return BadRequestError(f"{cls.__name__}: {exc}")
