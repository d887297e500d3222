"""Ports that are chosen, and kept, beside a system that gives any to others."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pocketmq.runtime.errors import EnvironmentFault, PortInUseError
from pocketmq.runtime.ports import addresses_of, check_port_free, free_ports, hold_port
from support.ipv6 import needs_ipv6

GIVEN = Path("/proc/sys/net/ipv4/ip_local_port_range")


@pytest.mark.skipif(not GIVEN.exists(), reason="only Linux says which ports it gives")
def test_chosen_ports_are_none_that_the_system_gives_to_others() -> None:
    first, last = map(int, GIVEN.read_text().split())
    ports = free_ports("127.0.0.1", 50)
    assert len(set(ports)) == 50
    assert not set(ports) & set(range(first, last + 1))


@needs_ipv6
def test_ports_of_ipv6_are_looked_at_there() -> None:
    (port,) = free_ports("::1", 1)
    check_port_free("::1", port)
    with socket.create_server(("::1", port), family=socket.AF_INET6):
        check_port_free("127.0.0.1", port)
        with pytest.raises(PortInUseError):
            check_port_free("::1", port)


def test_each_address_of_a_name_is_looked_at() -> None:
    (port,) = free_ports("localhost", 1)
    with socket.create_server(("127.0.0.1", port)), pytest.raises(PortInUseError):
        check_port_free("localhost", port)
    with pytest.raises(EnvironmentFault, match=r"cannot listen on no\.\.such:1: "):
        check_port_free("no..such", 1)


def test_a_port_that_somebody_has_cannot_be_held() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert hold_port("127.0.0.1", taken.getsockname()[1]) is None


def test_a_name_is_not_looked_up() -> None:
    assert hold_port("localhost", 1) is None


def test_a_name_has_addresses_ipv4_first_and_an_address_is_its_own() -> None:  # B-1
    assert addresses_of("::1") == ["::1"]
    assert addresses_of("10.0.0.7") == ["10.0.0.7"]
    assert addresses_of("localhost")[0] == "127.0.0.1"
    for nobody in ("no.such.invalid", "no..such"):
        with pytest.raises(OSError):
            addresses_of(nobody)
