"""Widths and bit masks (E-4, E-40, E-41, E-42)."""

import msgspec
import pytest

from pocketmq.protocol.scalars import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    Int32,
    Int64,
    MessageSysFlag,
    Perm,
    PullSysFlag,
    RequestSource,
    TopicSysFlag,
)
from support.golden import codes_of_java

OWN_FLAGS = {
    "MessageSysFlag": {"TRANSACTION_MASK": 12, "HOSTS_V6_MASK": 48},
    "Perm": {"RW": 6, "RWX": 7},
}
"""Put together of others."""


@pytest.mark.parametrize("flags", [Perm, TopicSysFlag, PullSysFlag, MessageSysFlag])
def test_flags_are_the_bits_of_rocketmqs_classes(flags):  # E-40, E-41, E-42
    parts = {"PERM", "FLAG", "TYPE"}
    words = {"NOT": "NONE", "BORNHOST": "BORN_HOST", "STOREHOSTADDRESS": "STORE_HOST"}
    theirs = {
        "_".join(words.get(part, part) for part in name.split("_") if part not in parts): bits
        for name, bits in codes_of_java()[flags.__name__].items()
        if not name.startswith("INDEX_")
    }
    renamed = {"LITE_PULL_MESSAGE": "LITE_PULL", "COMPRESSION_COMPARATOR": "COMPRESSION_MASK"}
    expected = {renamed.get(name, name): bits for name, bits in theirs.items()}
    ours = {name: bits for name, bits in vars(flags).items() if name.isupper()}
    assert ours == expected | OWN_FLAGS.get(flags.__name__, {})


def test_a_pull_says_for_whom_it_is_made():  # B-36
    numbers = {name: number for name, number in vars(RequestSource).items() if name.isupper()}
    assert numbers == {
        "SDK": -1,
        "PROXY_FOR_ORDER": 0,
        "PROXY_FOR_BROADCAST": 1,
        "PROXY_FOR_STREAM": 2,
    }


@pytest.mark.parametrize(
    ("width", "low", "high", "bits"),
    [
        (Int32, INT32_MIN, INT32_MAX, 32),
        (Int64, INT64_MIN, INT64_MAX, 64),
    ],
)
def test_numbers_have_the_widths_of_java(width, low, high, bits):  # E-4
    assert (low, high) == (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for number in (low, high):
        assert msgspec.convert(number, width) == number
    for number in (low - 1, high + 1):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(number, width)


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
