r"""A line for a message by a format like kcat's, such as '%t %p %o: %s\n': pure.

%t topic      %b broker     %p queue      %o offset     %k keys       %g tag
%s body       %S its bytes  %R they as int32, big endian  %K keys' bytes
%h properties, a=1,b=2
%T time of storing, epoch ms             %B time of birth, epoch ms
%i message id               %I offset message id        %r retries
%% a percent sign           \n \t \r \0 \\ \xHH         that character
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pocketmq.protocol.messages.message import MessageExt
from pocketmq.runtime.errors import CallerError

Part = Callable[[MessageExt], bytes]

_FIELDS: Final[dict[str, Callable[[MessageExt], object]]] = {
    "t": lambda message: message.topic,
    "b": lambda message: message.broker_name,
    "p": lambda message: message.queue_id,
    "o": lambda message: message.queue_offset,
    "k": lambda message: message.keys or "",
    "g": lambda message: message.tags or "",
    "S": lambda message: len(message.body),
    "K": lambda message: len((message.keys or "").encode()),
    "h": lambda message: ",".join(f"{name}={text}" for name, text in message.properties.items()),
    "T": lambda message: message.store_timestamp_ms,
    "B": lambda message: message.born_timestamp_ms,
    "i": lambda message: message.msg_id,
    "I": lambda message: message.offset_msg_id,
    "r": lambda message: message.reconsume_times,
    "%": lambda _message: "%",
}
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


class MessageFormat:
    """A compiled format.

    Args:
        text: See above.

    Raises:
        CallerError: it has a % or a backslash with a letter that means nothing.
    """

    def __init__(self, text: str) -> None:
        self._parts = list(_parts(text))

    def line(self, message: MessageExt) -> bytes:
        """The message's bytes; bodies are as they are, whatever their encoding."""
        return b"".join(part(message) for part in self._parts)


def _parts(text: str) -> list[Part]:
    parts: list[Part] = []
    at = 0
    while at < len(text):
        here, following = text[at], text[at + 1 : at + 2]
        size = 2
        if here == "%":
            parts.append(_field(text, at, following))
        elif here == "\\":
            if following == "x":
                size = 4
            parts.append(_constant(_escape(text, at, following)))
        else:
            size = 1
            # Bytes of the command line that are no UTF-8 are restored.
            parts.append(_constant(here.encode(errors="surrogateescape")))
        at += size
    return parts


def _field(text: str, at: int, letter: str) -> Part:
    if letter == "s":
        return lambda message: message.body
    if letter == "R":
        return lambda message: len(message.body).to_bytes(4, "big")
    read = _FIELDS.get(letter)
    if read is None:
        raise _illegal(text, at, f"%{letter}")
    # The function is looked up once per format and not per message.
    return lambda message: str(read(message)).encode()


def _escape(text: str, at: int, letter: str) -> bytes:
    if letter == "x":
        try:
            digits = text[at + 2 : at + 4]
            # `int` would also accept ` 1` and `+1`.
            if len(digits) != 2 or not digits.isalnum():
                raise ValueError
            return bytes([int(digits, 16)])
        except ValueError:
            raise _illegal(text, at, text[at : at + 4]) from None
    if letter not in _ESCAPES:
        raise _illegal(text, at, f"\\{letter}")
    return _ESCAPES[letter]


def _constant(data: bytes) -> Part:
    return lambda _message: data


def _illegal(text: str, at: int, what: str) -> CallerError:
    known = " ".join(f"%{letter}" for letter in (*_FIELDS, "s", "R"))
    return CallerError(
        f"format {text!r}: {what!r} at character {at + 1} means nothing; it knows {known} and "
        r"\n \t \r \0 \\ \xHH"
    )
