"""Errors of the wire, sorted by who must act. The number is the response code, or RocketMQ's
client-side error code (10001 and up).

    PocketMQError                        (pocketmq.runtime.errors draws the rest of the tree)
    ├── CallerError
    │   └── ClientError                  code; refused before anything was sent
    │       ├── IllegalNameError         a topic, group or host that no broker takes
    │       ├── IllegalMessageError      a message over a limit                        13
    │       ├── SubscriptionError        an expression that cannot be read             23
    │       ├── FilterError              SQL92 text that is none; says where           23
    │       ├── NoNameServerError        none is configured or reachable            10004
    │       ├── TopicNotFoundError       no name server knows a route               10005
    │       └── BrokerNotFoundError      no address for a broker name               10003
    ├── PeerError
    │   ├── FrameError                   bytes that are no frame: close that connection
    │   ├── BadRequestError              a frame whose fields or body are wrong
    │   │   └── BatchError               a batch whose lengths contradict each other   13
    │   ├── OverBudgetError              a request that would cost more than a peer may
    │   ├── BrokerError                  the answer carries an error code
    │   ├── BodyError                    a message body that cannot be inflated
    │   │   └── BodyTooLargeError        ... or would grow beyond the limit
    │   └── RemotingError                the peer did not answer
    │       ├── ConnectError             10001
    │       ├── ConnectionLostError      10001
    │       └── RequestTimeoutError      10002
    ├── RecordError                      stored bytes that are no record: the disk's fault, or of
    │                                    whoever stored them; a pull reply only carries them
    └── EnvironmentFault
        └── MissingToolError
            └── CompressionUnavailableError   lz4 or zstd came, and the library is not there

Each holds its facts as attributes and builds its message from them.
`code` is the number for the wire (or the client-side number that never travels).
`retriable`: whether a send tries another broker after it (P-41; the codes stand in
`codes.RETRIABLE_SEND_CODES`).
"""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.codes import (
    RETRIABLE_SEND_CODES,
    ClientErrorCode,
    ResponseCode,
    response_name,
)
from pocketmq.runtime.errors import CallerError, MissingToolError, PeerError, PocketMQError


def _shown(value: str, limit: int = 80) -> str:
    """A name as a message may show it: quoted, control characters escaped, never long."""
    return repr(value) if len(value) <= limit else f"{value[:limit]!r}... ({len(value)} characters)"


# -- the caller's fault


class ClientError(CallerError):
    """Refused before anything was sent (RocketMQ's MQClientException)."""

    code: int = ResponseCode.SYSTEM_ERROR
    retriable: bool = False


class IllegalNameError(ClientError):
    """An illegal name; names become folders, keys and addresses."""

    code = ResponseCode.INVALID_PARAMETER
    """INVALID_PARAMETER (29), as 5.x answers; 4.9 answers SYSTEM_ERROR (1) (`Profile`)."""

    def __init__(self, kind: str, name: str, reason: str) -> None:
        self.kind = kind
        """`topic`, `group`, `host` or `message id`."""
        self.name = name
        self.reason = reason
        super().__init__(f"{kind} {_shown(name)} {reason}")


class IllegalMessageError(ClientError):
    """A message that breaks a limit; the broker would answer MESSAGE_ILLEGAL (13) (P-22, S-11)."""

    code = ResponseCode.MESSAGE_ILLEGAL

    def __init__(self, reason: str, *, topic: str = "") -> None:
        self.reason = reason
        self.topic = topic
        super().__init__(f"message for topic {_shown(topic)}: {reason}" if topic else reason)


class SubscriptionError(ClientError):
    """A subscription expression that selects nothing or cannot be read (C-15)."""

    code = ResponseCode.SUBSCRIPTION_PARSE_FAILED

    def __init__(self, topic: str, expression: str, reason: str) -> None:
        self.topic = topic
        self.expression = expression
        self.reason = reason
        super().__init__(
            f"subscription {_shown(expression)} to topic {_shown(topic)}: {reason}; "
            "write '*' for everything or tags as 'TagA || TagB'"
        )


class FilterError(ClientError):
    """An SQL92 expression that cannot be compiled, or is too long or too deep (Q-2, Q-10)."""

    code = ResponseCode.SUBSCRIPTION_PARSE_FAILED

    def __init__(self, expression: str, position: int, reason: str) -> None:
        self.expression = expression
        self.position = position
        """Of the first character that is wrong, from 1."""
        self.reason = reason
        super().__init__(f"SQL92 {_shown(expression)}: at character {position}: {reason}")


class NoNameServerError(ClientError):
    """No name server is configured, or none of them answers (P-15).

    Args:
        addresses: Of those that are configured.
        reason: What the last one of them lacked, if it is more than that nobody listens there.
    """

    code = ClientErrorCode.NO_NAME_SERVER

    def __init__(self, addresses: tuple[str, ...] = (), reason: str = "") -> None:
        self.addresses = addresses
        self.reason = reason
        what = f"none of {', '.join(addresses)} answers" if addresses else "none is configured"
        super().__init__(
            f"no name server: {what}; start a cluster with `pocketmq up`, or set the address "
            "(nameservers=..., NAMESRV_ADDR=host:port;host:port)"
            f"{'; ' if reason else ''}{reason}"
        )


class TopicNotFoundError(ClientError):
    """No name server knows a route for the topic (P-15)."""

    code = ClientErrorCode.NOT_FOUND_TOPIC

    def __init__(self, topic: str, reason: str = "no name server knows a route for it") -> None:
        self.topic = topic
        self.reason = reason
        super().__init__(
            f"topic {_shown(topic)}: {reason}; create it with `pocketmq topic create`, or start a "
            "broker that creates topics by itself (auto_create_topic_enable)"
        )


class BrokerNotFoundError(ClientError):
    """No address is known for a broker name; the next route refresh may bring one."""

    code = ClientErrorCode.BROKER_NOT_EXIST
    retriable = True

    def __init__(self, broker_name: str) -> None:
        self.broker_name = broker_name
        super().__init__(
            f"broker {_shown(broker_name)} has no known address; it is down or not yet registered, "
            "or has another name: `pocketmq cluster show` lists those that are known"
        )


# -- the peer's fault


class FrameError(PeerError):
    """Bytes that are no frame. Reading cannot continue at a safe place: close the connection."""


class BadRequestError(PeerError):
    """A well-framed request or answer whose fields or body are wrong; the message names the field.

    Where a reply is possible the processor's edge answers `code` with the message as remark.
    """

    def __init__(
        self, message: str, *, field: str = "", code: int = ResponseCode.SYSTEM_ERROR
    ) -> None:
        self.field = field
        self.code = code
        super().__init__(message)


class BatchError(BadRequestError):
    """A batch body that does not split into messages; none of them may be stored (B-19)."""

    def __init__(self, reason: str, *, at: int) -> None:
        self.reason = reason
        self.at = at
        """Byte in the batch body where the broken message begins."""
        super().__init__(
            f"batch body at byte {at}: {reason}; nothing of it was stored",
            field="body",
            code=ResponseCode.MESSAGE_ILLEGAL,
        )


class OverBudgetError(PeerError):
    """A request that would cost more than one peer may (`pocketmq.protocol.budget`)."""

    def __init__(
        self, what: str, found: int, limit: int, option: str, advice: str, code: int
    ) -> None:
        self.what = what
        self.found = found
        self.limit = limit
        self.option = option
        """Its name in `pocketmq config show`."""
        self.advice = advice
        self.code = code
        super().__init__(f"{what}: {found} is over the limit of {limit} ({option}); {advice}")


class BrokerError(PeerError):
    """A broker or name server answered with an error code (RocketMQ's MQBrokerException)."""

    def __init__(self, code: int, remark: str | None, *, address: str = "") -> None:
        self.code = code
        self.remark = remark or ""
        self.address = address
        who = f"{address} answered " if address else ""
        super().__init__(f"{who}{response_name(code)}" + (f": {remark}" if remark else ""))

    @property
    def retriable(self) -> bool:
        """Whether a synchronous send tries another broker (P-41); in 4.9 not after `BUSY_CODES`."""
        return self.code in RETRIABLE_SEND_CODES


class BodyError(PeerError):
    """A message body that claims to be compressed and cannot be inflated."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"message body cannot be inflated: {reason}; its producer wrote it so")


class BodyTooLargeError(BodyError):
    """A compressed body that would inflate beyond the limit; inflating stopped there."""

    def __init__(self, compressed_bytes: int, max_bytes: int) -> None:
        self.compressed_bytes = compressed_bytes
        self.max_bytes = max_bytes
        super().__init__(
            f"{compressed_bytes} bytes inflate to more than the limit of {max_bytes}; "
            "if such messages are meant, raise the consumer's max_body_bytes"
        )


class RemotingError(PeerError):
    """The peer could not be asked, or did not answer (RocketMQ's RemotingException)."""

    code: int = ClientErrorCode.CONNECT_BROKER
    retriable: ClassVar[bool] = True

    def __init__(self, address: str, reason: str) -> None:
        self.address = address
        self.reason = reason
        super().__init__(f"{address}: {reason}")


class ConnectError(RemotingError):
    """No connection could be made."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, f"cannot connect: {reason}; is the process running?")


class ConnectionLostError(RemotingError):
    """The connection closed before the answer; whether the request was carried out is open."""

    def __init__(self, address: str, reason: str = "the peer closed the connection") -> None:
        super().__init__(address, f"{reason} before it answered")


class RequestTimeoutError(RemotingError):
    """No answer came in time; whether the request was carried out is open."""

    code = ClientErrorCode.ACCESS_BROKER_TIMEOUT

    def __init__(self, address: str, request: str, timeout_ms: int) -> None:
        self.request = request
        self.timeout_ms = timeout_ms
        super().__init__(address, f"no answer to {request} within {timeout_ms} ms")


# -- the disk's fault


class RecordError(PocketMQError):
    """Bytes that should be a stored record and are none."""

    def __init__(self, reason: str, *, at: int = 0) -> None:
        self.reason = reason
        self.at = at
        """Byte in the buffer where the record begins."""
        super().__init__(f"no record at byte {at}: {reason}")


# -- the environment's fault


class CompressionUnavailableError(MissingToolError):
    """A body is compressed by a library that is not installed here."""

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self.package = package
        super().__init__(package, f"{kind} compression", f"`pip install {package}`, or use zlib")
