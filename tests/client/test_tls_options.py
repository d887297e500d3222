"""What a client is told of TLS: `tls`, `tls_ca_file`, `tls_server_name`, and the environment."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from pocketmq.client.config import ClientConfig, ClientOptions
from pocketmq.operation.membership.network import MemberNetwork
from pocketmq.protocol.transport.memory import MemoryNetwork
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.protocol.transport.tls.client_tls import ClientTls
from pocketmq.runtime.errors import ConfigError
from support.tls import own_pair

CA = str(own_pair().certificate)


def tls_of(options: ClientOptions, env: dict[str, str] | None = None) -> ClientTls | None:
    network = ClientConfig.of({"nameservers": "127.0.0.1:9876", **options}, env or {}).network
    assert isinstance(network, TcpNetwork)
    return network._client_tls


def test_a_client_speaks_plaintext_unless_it_is_told() -> None:
    assert tls_of({}) is None
    assert tls_of({"tls": False}, {"POCKETMQ_TLS": "true"}) is None


@pytest.mark.parametrize(
    ("options", "env"),
    [
        ({"tls": True, "tls_ca_file": CA}, {}),
        ({"tls_ca_file": Path(CA)}, {}),
        ({}, {"POCKETMQ_TLS": "true", "POCKETMQ_TLS_CA_FILE": CA}),
        ({"tls": True}, {"POCKETMQ_TLS_CA_FILE": CA}),
    ],
)
def test_with_a_ca_servers_are_checked(options: ClientOptions, env: dict[str, str]) -> None:
    found = tls_of(options, env)
    assert found is not None
    assert found.context.verify_mode is ssl.CERT_REQUIRED
    assert not found.context.check_hostname  # Y-4: names are not looked at


def test_without_a_ca_any_server_is_taken_as_by_rocketmq() -> None:
    # Y-4
    found = tls_of({"tls": True})
    assert found is not None
    assert found.context.verify_mode is ssl.CERT_NONE


def test_a_server_name_is_looked_at_when_it_is_given() -> None:
    found = tls_of({"tls": True, "tls_ca_file": CA, "tls_server_name": "localhost"})
    assert found is not None
    assert found.context.check_hostname
    assert found.server_name == "localhost"


def test_a_context_of_ones_own_is_taken() -> None:
    context = ssl.create_default_context()
    found = tls_of({"tls": context, "tls_server_name": "broker.example"})
    assert found is not None
    assert (found.context, found.server_name) == (context, "broker.example")


def test_clients_that_say_the_same_share_their_connections() -> None:
    one = ClientConfig.of({"nameservers": "127.0.0.1:9876", "tls": True, "tls_ca_file": CA}, {})
    two = ClientConfig.of({"nameservers": "127.0.0.1:9876", "tls": True, "tls_ca_file": CA}, {})
    assert one.network is two.network
    assert one.network is not ClientConfig.of({"nameservers": "127.0.0.1:9876"}, {}).network


@pytest.mark.parametrize("by", ["option", "variable"])
def test_a_member_secret_is_used_as_it_is_told(tmp_path: Path, by: str) -> None:
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_text("a secret of a cluster, of 32 bytes at least")
    env = {"POCKETMQ_MEMBER_SECRET_FILE": str(secret if by == "variable" else tmp_path / "not")}
    options: ClientOptions = {"nameservers": "127.0.0.1:9876", "tls": True}
    if by == "option":
        options["member_secret_file"] = secret
    one, two = ClientConfig.of(options, env).network, ClientConfig.of(options, env).network
    assert isinstance(one, MemberNetwork)
    assert one is two, "clients that say the same share their connections"


@pytest.mark.parametrize(
    ("options", "env", "why"),
    [
        ({"tls": True, "network": MemoryNetwork()}, {}, "decides how the client connects"),
        (
            {"member_secret_file": CA, "network": MemoryNetwork()},
            {},
            "member_secret_file: .* decides how the client connects",
        ),
        ({"member_secret_file": "/is/not"}, {}, "/is/not cannot be read"),
        ({}, {"POCKETMQ_MEMBER_SECRET_FILE": "/is/not"}, "environment POCKETMQ_MEMBER_SECRET_FILE"),
        ({"tls": False, "tls_ca_file": CA}, {}, "needs TLS"),
        (
            {"tls": ssl.create_default_context(), "tls_ca_file": CA},
            {},
            "decides which certificates to trust",
        ),
        ({"tls_ca_file": "/is/not/there"}, {}, "/is/not/there cannot be read"),
        ({"tls_ca_file": __file__}, {}, "must contain PEM certificates"),
        ({}, {"POCKETMQ_TLS": "perhaps"}, "environment POCKETMQ_TLS"),
    ],
)
def test_what_contradicts_itself_is_refused(
    options: ClientOptions, env: dict[str, str], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        tls_of(options, env)
