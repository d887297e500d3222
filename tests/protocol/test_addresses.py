"""Addresses as texts."""

from __future__ import annotations

import pytest

from pocketmq.protocol.transport.network import split_address


@pytest.mark.parametrize(
    ("address", "parts"),
    [("h:1", ("h", 1)), ("127.0.0.1:10911", ("127.0.0.1", 10911)), ("[::1]:9876", ("::1", 9876))],
)
def test_an_address_is_a_host_and_a_port(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts


@pytest.mark.parametrize("address", ["", "h", "h:", ":1", "h:x", "h:-1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        split_address(address)


def test_a_port_above_the_last_one_is_refused() -> None:
    with pytest.raises(ValueError, match="ports end at 65535"):
        split_address("h:99999")
