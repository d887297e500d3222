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


FACTS = [
    (
        lambda: errors.IllegalNameError("topic", "a b", "is bad"),
        {"kind": "topic", "name": "a b", "reason": "is bad", "code": 29, "retriable": False},
        "topic 'a b' is bad",
    ),
    (
        lambda: errors.IllegalMessageError("is empty", topic="T"),
        {"reason": "is empty", "topic": "T", "code": 13},
        "message for topic 'T': is empty",
    ),
    (lambda: errors.IllegalMessageError("is empty"), {"topic": ""}, "is empty"),
    (
        lambda: errors.SubscriptionError("T", "a ||", "is open"),
        {"topic": "T", "expression": "a ||", "reason": "is open", "code": 23},
        "subscription 'a ||' to topic 'T': is open; write '*' for everything or tags as "
        "'TagA || TagB'",
    ),
    (
        lambda: errors.FilterError("a = ", 5, "a value is missing"),
        {"expression": "a = ", "position": 5, "reason": "a value is missing", "code": 23},
        "SQL92 'a = ': at character 5: a value is missing",
    ),
    (lambda: errors.NoNameServerError(("a:1",)), {"addresses": ("a:1",)}, None),
    (lambda: errors.TopicNotFoundError("T", "why"), {"topic": "T", "reason": "why"}, None),
    (
        lambda: errors.BrokerNotFoundError("b"),
        {"broker_name": "b", "code": 10003, "retriable": True},
        "broker 'b' has no known address; it is down or not yet registered, or has another name: "
        "`pocketmq cluster show` lists those that are known",
    ),
    (lambda: errors.BadRequestError("x", field="f", code=7), {"field": "f", "code": 7}, "x"),
    (lambda: errors.BadRequestError("x"), {"field": "", "code": 1}, "x"),
    (
        lambda: errors.BatchError("is cut", at=9),
        {"reason": "is cut", "at": 9, "field": "body", "code": 13},
        "batch body at byte 9: is cut; nothing of it was stored",
    ),
    (
        lambda: errors.OverBudgetError("topics", 5, 4, "topics_max", "send fewer", 29),
        {
            "what": "topics", "found": 5, "limit": 4, "option": "topics_max",
            "advice": "send fewer", "code": 29,
        },
        "topics: 5 is over the limit of 4 (topics_max); send fewer",
    ),
    (
        lambda: errors.BrokerError(1, "why", address="a:1"),
        {"code": 1, "remark": "why", "address": "a:1"},
        "a:1 answered SYSTEM_ERROR (1): why",
    ),
    (lambda: errors.BrokerError(1, None), {"remark": "", "address": ""}, "SYSTEM_ERROR (1)"),
    (
        lambda: errors.BodyError("is cut"),
        {"reason": "is cut"},
        "message body cannot be inflated: is cut; its producer wrote it so",
    ),
    (lambda: errors.BodyTooLargeError(10, 99), {"compressed_bytes": 10, "max_bytes": 99}, None),
    (
        lambda: errors.ConnectError("a:1", "refused"),
        {"address": "a:1", "code": 10001, "retriable": True},
        "a:1: cannot connect: refused; is the process running?",
    ),
    (
        lambda: errors.ConnectionLostError("a:1", "it left"),
        {"reason": "it left before it answered", "code": 10001},
        "a:1: it left before it answered",
    ),
    (
        lambda: errors.RequestTimeoutError("a:1", "HEART_BEAT (34)", 5),
        {"request": "HEART_BEAT (34)", "timeout_ms": 5, "code": 10002},
        None,
    ),
    (
        lambda: errors.RecordError("is short", at=7),
        {"reason": "is short", "at": 7},
        "no record at byte 7: is short",
    ),
    (lambda: errors.RecordError("is short"), {"at": 0}, None),
    (
        lambda: errors.CompressionUnavailableError("lz4", "python-lz4"),
        {"kind": "lz4", "package": "python-lz4"},
        None,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("make", "facts", "text"), FACTS)
def test_facts_are_attributes_and_the_message_says_them(make, facts, text):
    error = make()
    assert {name: getattr(error, name) for name in facts} == facts
    assert str(error) == text or text is None


def test_advice_and_amounts_are_in_the_message():
    assert "10 bytes inflate to more than the limit of 99" in str(errors.BodyTooLargeError(10, 99))
    assert "pip install zstandard" in str(errors.CompressionUnavailableError("zstd", "zstandard"))
    assert str(errors.IllegalNameError("topic", "x" * 80, "is bad")) == f"topic '{'x' * 80}' is bad"
    long = str(errors.IllegalNameError("topic", "x" * 81, "is bad"))
    assert long == f"topic '{'x' * 80}'... (81 characters) is bad"
