"""The tries of one send, as pure decisions."""

from __future__ import annotations

import pytest

from pocketmq.client.producer.send_result import SendResult, SendStatus
from pocketmq.client.producer.send_tries import (
    SendFailedError,
    SendTimeoutError,
    SendTries,
    first_try_s,
)
from pocketmq.client.producer.settings import ProducerSettings
from pocketmq.protocol.codes import RETRIABLE_SEND_CODES, ClientErrorCode
from pocketmq.protocol.errors import (
    BrokerError,
    BrokerNotFoundError,
    ConnectError,
    RequestTimeoutError,
)
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.profile import PROFILE_4_9, PROFILES, Profile

OK = SendResult(SendStatus.SEND_OK, "k", "o", MessageQueue("T", "a", 0), 0)
NOT_FLUSHED = SendResult(SendStatus.FLUSH_DISK_TIMEOUT, "k", "o", MessageQueue("T", "a", 0), 0)


def plan(
    *,
    tries: int = 3,
    timeout_s: float = 3.0,
    retry_not_ok: bool = False,
    per_try_ms: int | None = None,
    began_at: float = 0.0,
    busy_again: bool = True,
) -> SendTries:
    settings = ProducerSettings(
        retry_times_when_send_failed=tries - 1,
        retry_another_broker_when_not_store_ok=retry_not_ok,
        send_timeout_per_request_ms=per_try_ms,
    )
    return SendTries("T", settings, timeout_s, began_at, busy_again=busy_again)


def test_all_tries_share_one_timeout() -> None:  # P-40
    sending = plan()
    assert sending.begin_try("a", 0.0) == 3.0
    assert sending.ended(ConnectError("a", "no"), 1.0) is None
    assert sending.begin_try("b", 1.0) == 2.0
    assert sending.ended(ConnectError("b", "no"), 3.5) is None
    with pytest.raises(SendTimeoutError):
        sending.begin_try("a", 3.5)
    with pytest.raises(SendTimeoutError):
        sending.begin_try("a", 2.9995)  # nobody answers within half a millisecond


def test_a_first_try_that_was_answered_ends_the_send_however_short_its_time() -> None:  # P-40
    sending = plan(timeout_s=0.0005)
    assert sending.begin_try("a", 0.0) == 0.0005
    assert sending.ended(OK, 0.0004) is OK
    failing = plan(timeout_s=0.0005)
    failing.begin_try("a", 0.0)
    assert failing.ended(ConnectError("a", "no"), 0.0001) is None
    with pytest.raises(SendTimeoutError):
        failing.begin_try("b", 0.0001)


def test_a_bound_per_try_does_not_bind_the_last() -> None:  # P-40
    sending = plan(tries=2, per_try_ms=500)
    assert sending.begin_try("a", 0.0) == 0.5
    assert sending.begin_try("b", 1.0) == 2.0


@pytest.mark.parametrize(
    ("retries", "limit_ms", "seconds"),
    [(2, None, 3.0), (2, 500, 0.5), (2, 9_000, 3.0), (0, 500, 3.0)],
)
def test_the_first_try_has_the_time_that_its_count_begins_with(
    retries: int, limit_ms: int | None, seconds: float
) -> None:  # P-40
    settings = ProducerSettings(
        retry_times_when_send_failed=retries, send_timeout_per_request_ms=limit_ms
    )
    assert first_try_s(settings, 3.0) == seconds
    assert SendTries("T", settings, 3.0, 0.0).begin_try("a", 0.0) == seconds


def test_after_the_last_try_the_error_names_the_brokers() -> None:  # P-40, P-41
    sending = plan()
    for name in "aba":
        sending.begin_try(name, 0.0)
        last = RequestTimeoutError(name, "SendMessage", 1)
        if len(sending.brokers_sent) < 3:
            assert sending.ended(last, 0.5) is None
    with pytest.raises(SendFailedError) as caught:
        sending.ended(last, 0.5)
    assert caught.value.brokers_sent == ["a", "b", "a"]
    assert caught.value.code == 10002
    assert caught.value.__cause__ is last


@pytest.mark.parametrize("code", sorted(RETRIABLE_SEND_CODES))
@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_retryable_codes(profile: Profile, code: int) -> None:  # P-41
    assert code in {17, 14, 1, 2, 16, 204, 205, 1500}
    sending = plan(busy_again=profile.client.busy_sends_are_tried_again)
    sending.begin_try("a", 0.0)
    error = BrokerError(code, "")
    if profile is PROFILE_4_9 and code in {2, 1500}:
        with pytest.raises(BrokerError):
            sending.ended(error, 0.0)
    else:
        assert sending.ended(error, 0.0) is None


def test_any_other_code_ends_the_send() -> None:  # P-41
    sending = plan()
    sending.begin_try("a", 0.0)
    with pytest.raises(BrokerError):
        sending.ended(BrokerError(13, "illegal"), 0.0)


def test_a_client_error_such_as_an_unknown_address_is_tried_again() -> None:  # P-41
    sending = plan()
    sending.begin_try("a", 0.0)
    assert sending.ended(BrokerNotFoundError("a"), 0.0) is None


def test_not_flushed_is_the_end_unless_asked_otherwise() -> None:  # P-42
    sending = plan()
    sending.begin_try("a", 0.0)
    assert sending.ended(NOT_FLUSHED, 0.0) is NOT_FLUSHED

    stubborn = plan(retry_not_ok=True, tries=2)
    stubborn.begin_try("a", 0.0)
    assert stubborn.ended(NOT_FLUSHED, 0.0) is None
    stubborn.begin_try("b", 0.0)
    assert stubborn.ended(OK, 0.0) is OK


def test_only_send_ok_is_ok() -> None:  # P-42
    assert OK.is_ok is True
    assert NOT_FLUSHED.is_ok is False


def test_an_earlier_not_flushed_result_beats_a_later_error() -> None:  # P-41, P-42
    for error in (BrokerError(13, ""), ConnectError("b", "no")):
        sending = plan(retry_not_ok=True, tries=2)
        sending.begin_try("a", 0.0)
        assert sending.ended(NOT_FLUSHED, 0.0) is None
        sending.begin_try("b", 0.0)
        assert sending.ended(error, 0.0) is NOT_FLUSHED


def test_the_last_result_is_returned_when_all_tries_end_so() -> None:  # P-42
    sending = plan(retry_not_ok=True, tries=1)
    sending.begin_try("a", 0.0)
    assert sending.ended(NOT_FLUSHED, 0.0) is NOT_FLUSHED


def test_the_time_of_all_tries_runs_from_the_first() -> None:  # P-40
    sending = plan(began_at=100.0)
    assert sending.begin_try("a", 100.0) == 3.0
    assert sending.ended(ConnectError("a", "no"), 102.998) is None
    left = sending.begin_try("b", 102.998)
    assert left == pytest.approx(0.002), "two milliseconds are enough for a try"
    assert sending.ended(ConnectError("b", "no"), 103.0) is None
    with pytest.raises(SendTimeoutError) as caught:
        sending.begin_try("a", 103.0)
    assert caught.value.cost_ms == 3000


def test_a_millisecond_is_enough_for_another_try() -> None:  # P-40
    sending = plan(timeout_s=0.001)
    sending.begin_try("a", 0.0)
    assert sending.ended(ConnectError("a", "no"), 0.0) is None
    assert sending.begin_try("b", 0.0) == 0.001


def test_an_error_says_what_was_tried_and_for_how_long() -> None:
    sending = plan(tries=2, began_at=100.0)
    for name in "ab":
        sending.begin_try(name, 100.0)
    with pytest.raises(SendFailedError) as caught:
        sending.ended(ConnectError("b", "no"), 100.2514)
    failed = caught.value
    assert (failed.topic, failed.cost_ms) == ("T", 251)
    assert "'T' was sent 2 times to a, b and not stored for sure, 251 ms" in str(failed)
    assert "to nobody and" in str(SendFailedError("T", [], 0, None))
    assert SendFailedError("T", [], 0, None).code == ClientErrorCode.BROKER_NOT_EXIST


def test_by_default_a_message_that_is_not_safe_is_not_sent_again() -> None:  # P-42
    sending = plan()
    sending.begin_try("a", 0.0)
    assert sending.ended(NOT_FLUSHED, 0.0) is NOT_FLUSHED
