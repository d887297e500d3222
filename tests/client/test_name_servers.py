"""NameServers: which one is asked, and what a list of addresses may look like."""

from __future__ import annotations

import random

import pytest

from pocketmq.client.config import ClientConfig
from pocketmq.client.name_servers import NameServers, parse_addresses
from pocketmq.runtime.errors import ConfigError

ADDRESSES = [f"10.0.0.{number}:9876" for number in range(5)]


def test_clients_begin_with_different_servers_and_keep_theirs() -> None:  # P-9
    orders = set()
    for seed in range(20):
        servers = NameServers(ADDRESSES, rng=random.Random(seed))
        assert sorted(servers.addresses) == ADDRESSES
        assert servers.current == servers.current
        orders.add(tuple(servers.addresses))
    assert len(orders) > 10


def test_the_start_is_drawn_from_999_as_rocketmq_does() -> None:  # P-9
    class Draws(random.Random):
        asked: int | None = None

        def randrange(self, start: int, *args: int, **more: int) -> int:
            Draws.asked = start
            return 2

        def shuffle(self, x: object) -> None:
            pass

    servers = NameServers(ADDRESSES, rng=Draws())
    assert (Draws.asked, servers.current) == (999, ADDRESSES[2])


def test_a_failure_goes_on_to_the_next_server_once() -> None:  # P-9
    servers = NameServers(ADDRESSES, rng=random.Random(1))
    first = servers.current
    place = servers.addresses.index(first)
    servers.failed(first)
    assert servers.current == servers.addresses[(place + 1) % 5]
    servers.failed(first)  # somebody else's failure of the same server
    assert servers.current == servers.addresses[(place + 1) % 5]


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        (None, ()),
        ("", ()),
        (" a:1 ; b:2;;a:1", ("a:1", "b:2")),
        (["b:2", "a:1", "b:2"], ("b:2", "a:1")),
    ],
)
def test_addresses_are_parted_by_semicolons(text: str | None, addresses: tuple[str, ...]) -> None:
    assert parse_addresses(text) == addresses


@pytest.mark.parametrize("text", ["http://127.0.0.1:9876", "a:1;https://b:2/c", "nonsense"])
def test_a_client_says_at_once_what_is_no_address(text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"nameservers: '.*' is not an address of the form host:port"
    ):
        ClientConfig.of({"nameservers": text})
