"""The tries of one send: go on or not, with how much time, and what to end with (P-40..P-42).

Pure: the caller says what time it is.

    outcome of a try                         then
    SEND_OK                                  end with it
    FLUSH_DISK_TIMEOUT (10),                 end with it; try again with
    FLUSH_SLAVE_TIMEOUT (12),                `retry_another_broker_when_not_store_ok` (P-42)
    SLAVE_NOT_AVAILABLE (11)
    client or remoting error                 try again on another broker
    broker error, `BrokerError.retriable`    try again on another broker (P-41)
    SYSTEM_BUSY (2), GO_AWAY (1500)          try again, but in 4.9 as any other code (P-41)
    broker error, any other code             raise it, or end with an earlier answer "stored"
"""

from __future__ import annotations

from typing import Final

from pocketmq.client.producer.send_result import SendResult, SendStatus
from pocketmq.client.producer.settings import ProducerSettings
from pocketmq.protocol.codes import BUSY_CODES, ClientErrorCode
from pocketmq.protocol.errors import BrokerError
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


def first_try_s(settings: ProducerSettings, timeout_s: float) -> float:
    """Real seconds that the first try of a send may take."""
    limit_ms = settings.send_timeout_per_request_ms
    if limit_ms is None or not settings.retry_times_when_send_failed:
        return timeout_s  # the last try has all the time that is left
    return min(timeout_s, limit_ms / 1000)


class SendTries:
    """One synchronous send.

    Args:
        topic: For the error text.
        settings: How many tries, how long one may take, and which answers are tried again.
        timeout_s: For all tries together (P-40).
        began_at: When the first try began, in the caller's seconds.
        busy_again: Whether a busy broker's answer is tried again; 4.9 does not.
    """

    __slots__ = (
        "_began_at",
        "_busy_again",
        "_last_error",
        "_result",
        "_settings",
        "_timeout_s",
        "_topic",
        "brokers_sent",
    )

    def __init__(
        self,
        topic: str,
        settings: ProducerSettings,
        timeout_s: float,
        began_at: float,
        *,
        busy_again: bool = True,
    ) -> None:
        self.brokers_sent: list[str] = []
        self._topic = topic
        self._settings = settings
        self._timeout_s = timeout_s
        self._began_at = began_at
        self._busy_again = busy_again
        self._result: SendResult | None = None
        self._last_error: Exception | None = None

    @property
    def _is_last(self) -> bool:
        """Whether no try may follow the one that has begun."""
        return len(self.brokers_sent) > self._settings.retry_times_when_send_failed

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
        limit_ms = self._settings.send_timeout_per_request_ms
        if limit_ms is not None and not self._is_last:
            left = min(left, limit_ms / 1000)
        return left

    def ended(self, outcome: SendResult | PocketMQError, now: float) -> SendResult | None:
        """A try ended with this; what the send ends with, or None to try again.

        Raises:
            SendFailedError: that was the last try.
            BrokerError: another broker would not answer otherwise.
        """
        if isinstance(outcome, SendResult):
            self._result = outcome
            if (
                outcome.status is SendStatus.SEND_OK
                or not self._settings.retry_another_broker_when_not_store_ok  # P-42
            ):
                return outcome
            return self._next(now)
        self._last_error = outcome
        if isinstance(outcome, BrokerError) and self._is_final(outcome):
            if self._result is not None:
                return self._result  # stored at least once, whatever this broker says
            raise outcome
        return self._next(now)

    def _is_final(self, error: BrokerError) -> bool:
        """Whether no other broker is asked after this answer (P-41)."""
        return not error.retriable or (error.code in BUSY_CODES and not self._busy_again)

    def _next(self, now: float) -> SendResult | None:
        if not self._is_last:
            return None
        if self._result is not None:
            return self._result
        raise SendFailedError(
            self._topic, self.brokers_sent, self._cost_ms(now), self._last_error
        ) from self._last_error

    def _cost_ms(self, now: float) -> int:
        return round((now - self._began_at) * 1000)
