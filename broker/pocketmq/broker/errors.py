"""The error with which a processor refuses a request."""

from __future__ import annotations

from pocketmq.runtime.errors import CallerError


class RequestRefusedError(CallerError):
    """A request that is understood and refused; the dispatcher answers `code` with the remark."""

    def __init__(self, code: int, remark: str) -> None:
        self.code = code
        self.remark = remark
        super().__init__(remark)
