"""What an SDK is refused with, and which fault becomes which `Status` (G-1, G-4, G-5)."""

from __future__ import annotations

from typing import Any, Final

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import BrokerError, RequestTimeoutError
from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import Code
from pocketmq.runtime.errors import PocketMQError

BROKER_CODES: Final = {
    int(ResponseCode.SUCCESS): Code.OK,
    int(ResponseCode.SYSTEM_BUSY): Code.TOO_MANY_REQUESTS,
    int(ResponseCode.REQUEST_CODE_NOT_SUPPORTED): Code.NOT_IMPLEMENTED,
    int(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST): Code.CONSUMER_GROUP_NOT_FOUND,
    int(ResponseCode.TOPIC_NOT_EXIST): Code.TOPIC_NOT_FOUND,
}
"""Every other code of a broker is INTERNAL_SERVER_ERROR (G-4)."""


class Refusal(PocketMQError):
    """An answer that is a code and a sentence, as RocketMQ's proxy says it.

    Args:
        code: What the SDK decides by.
        sentence: What its user reads.
    """

    def __init__(self, code: Code, sentence: str) -> None:
        self.code = code
        self.sentence = sentence
        super().__init__(sentence)


def status(code: Code, sentence: str | None = None) -> Any:
    """A `Status`; without a sentence it says the code's name, as RocketMQ's does."""
    return pb.Status(code=code, message=code.name if sentence is None else sentence)


OK: Final[Any] = status(Code.OK)


def status_of(error: BaseException) -> Any:
    """The `Status` of whatever went wrong (G-4)."""
    if isinstance(error, Refusal):
        return status(error.code, error.sentence)
    if isinstance(error, BrokerError):
        code = BROKER_CODES.get(error.code, Code.INTERNAL_SERVER_ERROR)
        # Some brokers answer without a remark; an SDK's user then reads at least the number.
        return status(code, str(error.code) if error.remark is None else error.remark)
    # Before `PocketMQError`, its base class: SDKs must see that a broker was slow.
    if isinstance(error, RequestTimeoutError):
        return status(Code.PROXY_TIMEOUT, str(error))
    if isinstance(error, PocketMQError):
        return status(Code.INTERNAL_SERVER_ERROR, str(error))
    return status(Code.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")
