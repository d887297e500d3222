"""Messages as lines of JSON: `message export` and the page `watch` write them, and `message import`
reads them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing

from pocketmq.client import Admin, MessageExt
from pocketmq.cluster.messages.reading import QueueRange, read_range
from pocketmq.protocol.messages.message_json import as_json

LineOf = Callable[[MessageExt], bytes]


def json_line(message: MessageExt, *, base64_body: bool = False) -> bytes:
    """A message as one line of JSON.

    Args:
        message: As it is stored.
        base64_body: Write every body in base64, also one that is text.
    """
    told = as_json(message, base64_body=base64_body)
    # A property may contain a lone surrogate, which UTF-8 cannot encode.
    return json.dumps(told, ensure_ascii=False).encode(errors="replace") + b"\n"


async def exported(
    admin: Admin, wanted: Iterable[QueueRange], line_of: LineOf = json_line
) -> AsyncGenerator[bytes, None]:
    """A line for each message of some ranges, range by range.

    Close it after use (`contextlib.aclosing`).
    """
    for each in wanted:
        async with aclosing(read_range(admin, each)) as messages:
            async for message in messages:
                yield line_of(message)
