"""The class of each message under its name, of `pool.POOL`; they are made as protobuf starts.

Type checkers know them as `Any`: they are made from descriptors while a program runs.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

from pocketmq.proxy.protos.pool import message_class
from pocketmq.proxy.protos.shapes import MESSAGES

pb: Final[Any] = SimpleNamespace(
    **{name: message_class(name) for name in (*MESSAGES, "Duration", "Timestamp")}
)
