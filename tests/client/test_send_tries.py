"""The tries of one send, as pure decisions."""

from __future__ import annotations

import pytest

from pocketmq.client.producer.send_result import SendResult, SendStatus
from pocketmq.client.producer.send_tries import SendFailedError, SendTimeoutError, SendTries
from pocketmq.protocol.codes import RETRIABLE_SEND_CODES, ClientErrorCode
from pocketmq.protocol.errors import (
    BrokerError,
    BrokerNotFoundError,
    ConnectError,
    RequestTimeoutError,
)
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.errors import ConfigError

OK = SendResult(SendStatus.SEND_OK, "k", "o", MessageQueue("T", "a", 0), 0)
NOT_FLUSHED = SendResult(SendStatus.FLUSH_DISK_TIMEOUT, "k", "o", MessageQueue("T", "a", 0), 0)


def plan(
    *,
    tries: int = 3,
    timeout_s: float = 3.0,
    retry_not_ok: bool = False,
    per_try: float | None = None,
) -> SendTries:
    return SendTries(
        "T",
        tries=tries,
        timeout_s=timeout_s,
        began_at=0.0,
        retry_when_not_stored_ok=retry_not_ok,
        max_timeout_per_try_s=per_try,
    )


def test_all_tries_share_one_timeout() -> None:  # P-40
    sending = plan()
    assert sending.begin_try("a", 0.0) == 3.0
    assert sending.failed(ConnectError("a", "no"), 1.0) is None
    assert sending.begin_try("b", 1.0) == 2.0
    assert sending.failed(ConnectError("b", "no"), 3.5) is None
    with pytest.raises(SendTimeoutError):
        sending.begin_try("a", 3.5)
    with pytest.raises(SendTimeoutError):
        sending.begin_try("a", 2.9995)  # nobody answers within half a millisecond


def test_a_first_try_that_was_answered_ends_the_send_however_short_its_time() -> None:  # P-40
    sending = plan(timeout_s=0.0005)
    assert sending.begin_try("a", 0.0) == 0.0005
    assert sending.answered(OK, 0.0004) is OK
    failing = plan(timeout_s=0.0005)
    failing.begin_try("a", 0.0)
    assert failing.failed(ConnectError("a", "no"), 0.0001) is None
    with pytest.raises(SendTimeoutError):
        failing.begin_try("b", 0.0001)


def test_a_bound_per_try_does_not_bind_the_last() -> None:  # P-40
    sending = plan(tries=2, per_try=0.5)
    assert sending.begin_try("a", 0.0) == 0.5
    assert sending.begin_try("b", 1.0) == 2.0


def test_after_the_last_try_the_error_names_the_brokers() -> None:  # P-40, P-41
    sending = plan()
    for name in "aba":
        sending.begin_try(name, 0.0)
        last = RequestTimeoutError(name, "SendMessage", 1)
        if len(sending.brokers_sent) < 3:
            assert sending.failed(last, 0.5) is None
    with pytest.raises(SendFailedError) as caught:
        sending.failed(last, 0.5)
    assert caught.value.brokers_sent == ["a", "b", "a"]
    assert caught.value.code == 10002
    assert caught.value.__cause__ is last
    assert sending.last_broker == "a"


@pytest.mark.parametrize("code", sorted(RETRIABLE_SEND_CODES))
def test_retryable_codes(code: int) -> None:  # P-41
    assert code in {17, 14, 1, 2, 16, 204, 205, 1500}
    sending = plan()
    sending.begin_try("a", 0.0)
    assert sending.failed(BrokerError(code, ""), 0.0) is None


def test_any_other_code_ends_the_send() -> None:  # P-41
    sending = plan()
    sending.begin_try("a", 0.0)
    with pytest.raises(BrokerError):
        sending.failed(BrokerError(13, "illegal"), 0.0)


def test_a_client_error_such_as_an_unknown_address_is_tried_again() -> None:  # P-41
    sending = plan()
    sending.begin_try("a", 0.0)
    assert sending.failed(BrokerNotFoundError("a"), 0.0) is None


def test_not_flushed_is_the_end_unless_asked_otherwise() -> None:  # P-42
    sending = plan()
    sending.begin_try("a", 0.0)
    assert sending.answered(NOT_FLUSHED, 0.0) is NOT_FLUSHED

    stubborn = plan(retry_not_ok=True, tries=2)
    stubborn.begin_try("a", 0.0)
    assert stubborn.answered(NOT_FLUSHED, 0.0) is None
    stubborn.begin_try("b", 0.0)
    assert stubborn.answered(OK, 0.0) is OK


def test_only_send_ok_is_ok() -> None:  # P-42
    assert OK.is_ok is True
    assert NOT_FLUSHED.is_ok is False


def test_an_earlier_not_flushed_result_beats_a_later_error() -> None:  # P-41, P-42
    for error in (BrokerError(13, ""), ConnectError("b", "no")):
        sending = plan(retry_not_ok=True, tries=2)
        sending.begin_try("a", 0.0)
        assert sending.answered(NOT_FLUSHED, 0.0) is None
        sending.begin_try("b", 0.0)
        assert sending.failed(error, 0.0) is NOT_FLUSHED


def test_the_last_result_is_returned_when_all_tries_end_so() -> None:  # P-42
    sending = plan(retry_not_ok=True, tries=1)
    sending.begin_try("a", 0.0)
    assert sending.answered(NOT_FLUSHED, 0.0) is NOT_FLUSHED


def test_the_time_of_all_tries_runs_from_the_first() -> None:  # P-40
    sending = SendTries("T", tries=3, timeout_s=3.0, began_at=100.0)
    assert sending.begin_try("a", 100.0) == 3.0
    assert sending.failed(ConnectError("a", "no"), 102.998) is None
    left = sending.begin_try("b", 102.998)
    assert left == pytest.approx(0.002), "two milliseconds are enough for a try"
    assert sending.failed(ConnectError("b", "no"), 103.0) is None
    with pytest.raises(SendTimeoutError) as caught:
        sending.begin_try("a", 103.0)
    assert caught.value.cost_ms == 3000


def test_a_millisecond_is_enough_for_another_try() -> None:  # P-40
    sending = plan(timeout_s=0.001)
    sending.begin_try("a", 0.0)
    assert sending.failed(ConnectError("a", "no"), 0.0) is None
    assert sending.begin_try("b", 0.0) == 0.001


def test_an_error_says_what_was_tried_and_for_how_long() -> None:
    sending = SendTries("Orders", tries=2, timeout_s=3.0, began_at=100.0)
    for name in "ab":
        sending.begin_try(name, 100.0)
    with pytest.raises(SendFailedError) as caught:
        sending.failed(ConnectError("b", "no"), 100.2514)
    failed = caught.value
    assert (failed.topic, failed.cost_ms) == ("Orders", 251)
    assert "'Orders' was sent 2 times to a, b and not stored for sure, 251 ms" in str(failed)
    assert "to nobody and" in str(SendFailedError("T", [], 0, None))
    assert SendFailedError("T", [], 0, None).code == ClientErrorCode.BROKER_NOT_EXIST


def test_by_default_a_message_that_is_not_safe_is_not_sent_again() -> None:  # P-42
    sending = SendTries("T", tries=3, timeout_s=3.0, began_at=0.0)
    sending.begin_try("a", 0.0)
    assert sending.answered(NOT_FLUSHED, 0.0) is NOT_FLUSHED


def test_an_error_that_is_not_of_the_way_to_a_broker_is_raised_as_it_is() -> None:
    sending = plan()
    sending.begin_try("a", 0.0)
    error = ConfigError("x", "wrong")
    with pytest.raises(ConfigError) as caught:
        sending.failed(error, 0.0)
    assert caught.value is error
