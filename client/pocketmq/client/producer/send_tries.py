"""The tries of one send: go on or not, with how much time, and what to end with (P-40..P-42).

Pure. The first try of a send needs none of this; `SendTries` counts on when it did not end well.

    outcome of a try                         then
    SEND_OK                                  end with it
    FLUSH_DISK_TIMEOUT (10),                 end with it; try again with
    FLUSH_SLAVE_TIMEOUT (12),                `retry_another_broker_when_not_store_ok` (P-42)
    SLAVE_NOT_AVAILABLE (11)
    client or remoting error                 try again on another broker
    broker error, `BrokerError.retriable`    try again on another broker (P-41)
    broker error, any other code             raise it, or end with an earlier answer "stored"
"""

from __future__ import annotations

from typing import Final

from pocketmq.client.producer.send_result import SendResult, SendStatus
from pocketmq.protocol.codes import ClientErrorCode
from pocketmq.protocol.errors import BrokerError, ClientError, RemotingError
from pocketmq.runtime.errors import PeerError, PocketMQError
from pocketmq.runtime.words import counted

LEAST_TRY_S: Final = 0.001
"""With less time left no further try begins: no broker answers so soon, and the message might be
stored twice."""


class SendFailedError(PeerError):
    """All tries of a send failed; `__cause__` is the last one's error.

    Whether the message was stored by a try that was not answered is open.
    """

    def __init__(
        self, topic: str, brokers_sent: list[str], cost_ms: int, last_error: Exception | None
    ) -> None:
        self.topic = topic
        self.brokers_sent = brokers_sent
        """Broker names in the order in which they were tried."""
        self.cost_ms = cost_ms
        code = getattr(last_error, "code", None)
        self.code: int = code if isinstance(code, int) else ClientErrorCode.BROKER_NOT_EXIST
        super().__init__(
            f"message for topic {topic!r} was sent {counted(len(brokers_sent), 'time')} to "
            f"{', '.join(brokers_sent) or 'nobody'} and not stored for sure, {cost_ms} ms: "
            f"{last_error}"
        )


class SendTimeoutError(SendFailedError):
    """The send's time was over before a try could begin (P-40)."""


class SendTries:
    """One synchronous send.

    Args:
        topic: For the error text.
        tries: 1 + `retry_times_when_send_failed`.
        timeout_s: For all tries together (P-40).
        began_at: When the first try began, in the caller's seconds.
        retry_when_not_stored_ok: Whether FLUSH_DISK_TIMEOUT (10), SLAVE_NOT_AVAILABLE (11) and
            FLUSH_SLAVE_TIMEOUT (12) are tried again elsewhere (P-42).
        max_timeout_per_try_s: Bounds every try but the last; None for no bound.
    """

    __slots__ = (
        "_began_at",
        "_last_error",
        "_max_timeout_per_try_s",
        "_result",
        "_retry_when_not_stored_ok",
        "_timeout_s",
        "_topic",
        "_tries",
        "brokers_sent",
    )

    def __init__(
        self,
        topic: str,
        *,
        tries: int,
        timeout_s: float,
        began_at: float,
        retry_when_not_stored_ok: bool = False,
        max_timeout_per_try_s: float | None = None,
    ) -> None:
        self.brokers_sent: list[str] = []
        self._topic = topic
        self._tries = tries
        self._timeout_s = timeout_s
        self._began_at = began_at
        self._retry_when_not_stored_ok = retry_when_not_stored_ok
        self._max_timeout_per_try_s = max_timeout_per_try_s
        self._result: SendResult | None = None
        self._last_error: Exception | None = None

    @property
    def last_broker(self) -> str | None:
        """The broker that the next try should avoid (P-31)."""
        return self.brokers_sent[-1] if self.brokers_sent else None

    def begin_try(self, broker_name: str, now: float) -> float:
        """Count a try; the real seconds that it may take.

        The first try always begins, however short the time of the send is.

        Raises:
            SendTimeoutError: too little time is left for another try.
        """
        left = self._timeout_s - (now - self._began_at)
        if left < LEAST_TRY_S and self.brokers_sent:
            raise SendTimeoutError(
                self._topic, self.brokers_sent, self._cost_ms(now), self._last_error
            ) from self._last_error
        self.brokers_sent.append(broker_name)
        if self._max_timeout_per_try_s is not None and len(self.brokers_sent) < self._tries:
            left = min(left, self._max_timeout_per_try_s)
        return left

    def answered(self, result: SendResult, now: float) -> SendResult | None:
        """A try was answered; what the send ends with, or None to try again."""
        self._result = result
        if result.status is SendStatus.SEND_OK or not self._retry_when_not_stored_ok:
            return result
        return self._next(now)

    def failed(self, error: PocketMQError, now: float) -> SendResult | None:
        """A try failed; what the send ends with, or None to try again.

        Raises:
            SendFailedError: that was the last try.
            BrokerError: another broker would not answer otherwise.
        """
        self._last_error = error
        if isinstance(error, BrokerError) and not error.retriable:
            if self._result is not None:
                return self._result
            raise error
        if not isinstance(error, (BrokerError, RemotingError, ClientError)):
            raise error
        return self._next(now)

    def _next(self, now: float) -> SendResult | None:
        if len(self.brokers_sent) < self._tries:
            return None
        if self._result is not None:
            return self._result
        raise SendFailedError(
            self._topic, self.brokers_sent, self._cost_ms(now), self._last_error
        ) from self._last_error

    def _cost_ms(self, now: float) -> int:
        return round((now - self._began_at) * 1000)
