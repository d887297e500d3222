"""Addresses as texts."""

from __future__ import annotations

import re

import pytest

from pocketmq.runtime.addresses import (
    address_text,
    as_written,
    host_of,
    in_brackets,
    split_address,
)


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("h:1", ("h", 1)),
        ("127.0.0.1:10911", ("127.0.0.1", 10911)),
        ("[::1]:9876", ("::1", 9876)),
        ("[fe80::1%eth0]:9876", ("fe80::1%eth0", 9876)),
        ("[::]:9876", ("::", 9876)),
    ],
)
def test_an_address_is_a_host_and_a_port(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts
    assert address_text(*parts) == address
    assert host_of(address) == parts[0]


def test_an_address_of_ipv6_may_lack_its_brackets_as_at_rocketmqs_brokers() -> None:
    assert split_address("::1:9876") == ("::1", 9876)
    assert as_written("::1:9876") == "[::1]:9876"
    assert as_written("name:1") == "name:1"
    assert address_text("[::1]", 9876) == "[::1]:9876"
    assert in_brackets("name") == "name"


@pytest.mark.parametrize(
    "address",
    [
        "",
        "h",
        "h:",
        ":1",
        "h:x",
        "h:-1",
        "h:\u0661",
        "::1",
        "2001:db8::5",
        "[::1:9876",
        "::1]:9876",
        "[h:1",
    ],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        split_address(address)


@pytest.mark.parametrize(
    ("address", "advice"),
    [
        ("127.0.0.1", "it has no port; write 127.0.0.1:PORT"),
        ("name", "it has no port; write name:PORT"),
        ("::1", "it has no port; write [::1]:PORT"),
        ("[2001:db8::5]", "it has no port; write [2001:db8::5]:PORT"),
        ("https://x", "write x:PORT, without https://"),
        ("http://127.0.0.1:9876/", "write 127.0.0.1:9876, without http://"),
        ("http://::1:9876", "write [::1]:9876, without http://"),
        ("https://", "write host:port, without https://"),
        ("h:x", "write host:port"),
        ("a b", "write host:port"),
    ],
)
def test_what_is_refused_says_what_to_type(address: str, advice: str) -> None:
    with pytest.raises(ValueError, match=re.escape(advice) + "$"):
        split_address(address)


def test_a_port_above_the_last_one_is_refused() -> None:
    with pytest.raises(ValueError, match="the highest port is 65535"):
        split_address("h:99999")
