"""The error with which a processor refuses a request."""

from __future__ import annotations

from collections.abc import Mapping

from pocketmq.protocol.header import Header
from pocketmq.runtime.errors import CallerError


class RequestRefusedError(CallerError):
    """A request that is understood and refused; the dispatcher answers `code` with the remark.

    Attributes:
        header: what RocketMQ's answer carries beside them; mostly nothing.
    """

    def __init__(
        self, code: int, remark: str, header: Header | Mapping[str, object] | None = None
    ) -> None:
        self.code = code
        self.header = header
        self.remark = remark
        super().__init__(remark)
