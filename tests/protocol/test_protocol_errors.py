"""Errors say whose fault it is, carry their facts, and tell what to do."""

import inspect

import pytest

from pocketmq.protocol import errors
from pocketmq.protocol.codes import RETRIABLE_SEND_CODES
from pocketmq.runtime.errors import (
    CallerError,
    DiskError,
    EnvironmentFault,
    PeerError,
    PocketMQError,
)

OWN = [
    found
    for _, found in inspect.getmembers(errors, inspect.isclass)
    if issubclass(found, Exception) and found.__module__ == errors.__name__
]


@pytest.mark.parametrize("error", OWN)
def test_each_error_is_one_partys_fault_and_stands_in_the_tree(error):
    assert issubclass(error, PocketMQError)
    parties = [
        p for p in (CallerError, PeerError, DiskError, EnvironmentFault) if issubclass(error, p)
    ]
    assert len(parties) == (0 if error is errors.RecordError else 1)
    assert errors.__doc__ is not None
    assert error.__name__ in errors.__doc__


@pytest.mark.parametrize("code", sorted(RETRIABLE_SEND_CODES))
def test_these_answers_make_a_send_try_another_broker(code):  # P-41
    assert errors.BrokerError(code, None).retriable


@pytest.mark.parametrize("code", [0, 3, 10, 13, 19, 26, 29, 12345])
def test_other_answers_do_not(code):  # P-41
    assert not errors.BrokerError(code, "why").retriable


def test_a_silent_peer_is_retried_and_a_wrong_name_is_not():  # P-41
    assert errors.RequestTimeoutError("a:1", "SEND_MESSAGE (10)", 3000).retriable
    assert errors.ConnectError("a:1", "refused").retriable
    assert errors.BrokerNotFoundError("b").retriable
    assert not errors.IllegalNameError("topic", "a b", "is bad").retriable
    assert not errors.TopicNotFoundError("T").retriable


def test_messages_hold_the_facts_and_the_advice():
    assert str(errors.BrokerError(17, "no T", address="1.2.3.4:10911")) == (
        "1.2.3.4:10911 answered TOPIC_NOT_EXIST (17): no T"
    )
    assert str(errors.BrokerError(999, None)) == "999"
    late = errors.RequestTimeoutError("a:1", "PULL_MESSAGE (11)", 30000)
    assert str(late) == "a:1: no answer to PULL_MESSAGE (11) within 30000 ms"
    assert (late.code, late.timeout_ms) == (10002, 30000)
    assert "NAMESRV_ADDR" in str(errors.NoNameServerError())
    assert "none of a:1, b:2 answers" in str(errors.NoNameServerError(("a:1", "b:2")))
    assert "topic create" in str(errors.TopicNotFoundError("T"))
    assert errors.NoNameServerError().code == 10004
    assert errors.TopicNotFoundError("T").code == 10005
    assert "closed the connection before it answered" in str(errors.ConnectionLostError("a:1"))
    assert (
        str(errors.BadRequestError("queueId is missing", field="queueId")) == "queueId is missing"
    )


def test_a_long_or_dirty_name_does_not_flood_the_message():
    text = str(errors.IllegalNameError("topic", "\n\0" * 5000, "is bad"))
    assert len(text) < 400
    assert text.isprintable()
