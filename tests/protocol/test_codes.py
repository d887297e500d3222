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
from pocketmq.protocol.scalars import INT16_MAX, INT16_MIN, MessageSysFlag, Perm


@pytest.mark.parametrize("codes", [RequestCode, ResponseCode, ClientErrorCode, LanguageCode])
def test_every_code_has_its_own_number_and_a_meaning(codes):
    members = list(codes.__members__.values())
    assert len({int(code) for code in members}) == len(members)
    for code in members:
        assert code.meaning, code.name
        assert codes(int(code)) is code


def test_codes_are_the_numbers_of_the_wire():
    assert RequestCode.SEND_MESSAGE_V2 == 310
    assert RequestCode.BATCH_ACK_MESSAGE == 200151
    assert ResponseCode.PULL_OFFSET_MOVED == 21
    assert ResponseCode.RPC_TIME_OUT == -1006
    assert LanguageCode.NODE_JS == 13
    assert (RequestCode.GET_CLOCK, RequestCode.MOVE_CLOCK, RequestCode.ROLE_STATUS) == (
        30001,
        30002,
        30003,
    )


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


def test_perm_bits_read_as_rights():  # E-40, E-41, E-42
    assert Perm.text(Perm.RW) == "RW-"
    assert Perm.text(Perm.RWX) == "RWX"
    assert Perm.text(0) == "---"
    assert Perm.is_readable(4)
    assert not Perm.is_readable(3)
    assert Perm.is_writable(2)
    assert not Perm.is_writable(5)
    assert Perm.is_inherited(7)
    assert not Perm.is_inherited(6)
    assert [Perm.is_valid(perm) for perm in (-1, 0, 7, 8)] == [False, True, True, False]


def test_the_transaction_type_is_two_bits_of_the_sys_flag():  # E-42
    flag = MessageSysFlag.COMPRESSED | MessageSysFlag.TRANSACTION_PREPARED
    assert MessageSysFlag.transaction_type(flag) == MessageSysFlag.TRANSACTION_PREPARED
    committed = MessageSysFlag.with_transaction_type(flag, MessageSysFlag.TRANSACTION_COMMIT)
    assert committed == MessageSysFlag.COMPRESSED | MessageSysFlag.TRANSACTION_COMMIT
