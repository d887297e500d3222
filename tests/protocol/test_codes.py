"""Codes and their meaning (E-6, E-11, E-12)."""

import pytest

from pocketmq.protocol.codes import (
    RETRIABLE_SEND_CODES,
    ClientErrorCode,
    LanguageCode,
    RequestCode,
    ResponseCode,
    request_name,
    response_name,
)
from pocketmq.protocol.scalars import INT16_MAX, INT16_MIN
from support.golden import codes_of_java

OWN = {
    "GET_BROKER_CLUSTER_ACL_CONFIG": 54,  # of versions before 4.9.8
    "GET_CLOCK": 30001,
    "MOVE_CLOCK": 30002,
    "ROLE_STATUS": 30003,
    "SET_FAULTS": 30004,
    "GET_FAULTS": 30005,
    "RAFT_MESSAGE": 30006,
    "GET_EVENTS": 30007,
    "GET_METRICS": 30008,
    "REGISTER_PROXY": 30009,
    "GET_PROXIES": 30010,
    "GET_MEMBER_CHALLENGE": 30011,
    "PROVE_MEMBER": 30012,
}
"""Requests that are not in RocketMQ's class: PocketMQ's own, and one of old versions."""


@pytest.mark.parametrize("codes", [RequestCode, ResponseCode, ClientErrorCode, LanguageCode])
def test_every_code_has_its_own_number_and_a_meaning(codes):
    members = list(codes.__members__.values())
    assert len({int(code) for code in members}) == len(members)
    for code in members:
        assert code.meaning, code.name
        assert codes(int(code)) is code


@pytest.mark.parametrize("codes", [RequestCode, ResponseCode, ClientErrorCode, LanguageCode])
def test_codes_are_the_numbers_of_rocketmqs_classes(codes):
    theirs = codes_of_java()[codes.__name__] | (OWN if codes is RequestCode else {})
    numbers = {name.removesuffix("_EXCEPTION"): number for name, number in theirs.items()}
    ours = {name: int(code) for name, code in codes.__members__.items()}
    differing = {f"{name} = {number}" for name, number in ours.items() ^ numbers.items()}
    assert not differing, (
        "only in protocol/codes.py, or only in RocketMQ's class; PocketMQ's own requests stand in "
        "OWN of tests/protocol/test_codes.py"
    )


def test_a_code_without_a_version_is_of_4_9():
    assert (RequestCode.PULL_MESSAGE.since, RequestCode.POP_MESSAGE.since) == ("4.9", "5.0")


def test_response_codes_fit_the_int16_that_go_clients_read():  # trap 7
    assert all(INT16_MIN <= code <= INT16_MAX for code in ResponseCode)


def test_pocketmqs_own_requests_fit_the_binary_headers_int16():  # E-4
    own = [code for code in RequestCode if code.since == "pocketmq"]
    assert own == list(range(30001, 30001 + len(own))), "take the next free number after 30000"
    assert all(code <= INT16_MAX for code in own)


def test_a_send_is_retried_after_these_codes_and_no_others():  # P-41
    assert {int(code) for code in RETRIABLE_SEND_CODES} == {17, 14, 1, 2, 16, 204, 205, 1500}


def test_numbers_are_named_for_people():
    assert request_name(11) == "PULL_MESSAGE (11)"
    assert request_name(999999) == "999999"
    assert response_name(17) == "TOPIC_NOT_EXIST (17)"
    assert response_name(10005) == "NOT_FOUND_TOPIC (10005)"
    assert response_name(-5) == "-5"
