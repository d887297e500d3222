"""The certificates of a role's ports (Y-3 to Y-6): from files, made here, renewed, broken."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shlex
import shutil
import stat
import sys
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

import pytest

from pocketmq.operation.tls.certificate import make_certificate
from pocketmq.operation.tls.contexts import KeyPair, client_context, client_tls
from pocketmq.operation.tls.options import TlsOptions
from pocketmq.operation.tls.role_tls import RoleTls
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.errors import ConnectError, RemotingError
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.protocol.transport.tls.client_tls import ClientTls
from pocketmq.runtime.configuration.flags import add_arguments
from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.own_logs import own_logs
from support.tls import own_pair
from support.wire_pair import Echo, Word, connected, served

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tls.md"


def files_in(folder: Path, name: str) -> tuple[KeyPair, TlsOptions]:
    """The certificate of this name in a folder, and the options of a role that shows it."""
    pair = copied(folder, name)
    return pair, TlsOptions(
        tls_config_file=folder / "none",
        tls_test_mode_enable=False,
        tls_server_cert_path=pair.certificate,
        tls_server_key_path=pair.key,
    )


def copied(folder: Path, name: str) -> KeyPair:
    pair = own_pair(name)
    shutil.copy(pair.certificate, folder / "certificate.pem")
    shutil.copy(pair.key, folder / "key.pem")
    return KeyPair(folder / "certificate.pem", folder / "key.pem")


def trusting(name: str) -> TcpNetwork:
    tls = client_tls(True, ca_file=own_pair(name).certificate)
    return TcpNetwork(client_tls=tls)


async def shows(address: str) -> str:
    """Which of the certificates `one` and `two` a port shows."""
    for name in ("one", "two"):
        try:
            async with connected(trusting(name), address) as channel:
                await channel.request(Word(word="hello"))
            return name
        except ConnectError:
            continue
    return "none"


# -- made here ------------------------------------------------------------------------------------


async def test_without_files_a_certificate_is_made_at_the_first_tls_peer(tmp_path: Path) -> None:
    # Y-3: test mode
    tls = RoleTls(TlsOptions(tls_config_file=tmp_path / "none"))
    assert tls.server is not None
    assert not tls.is_watching
    async with served(TcpNetwork(server_tls=tls.server), Echo().dispatcher) as (_, address):
        with own_logs() as logs:
            async with connected(TcpNetwork(), address) as plain:
                await plain.request(Word(word="hello"))
            assert "tls.certificate_made" not in [each["event"] for each in logs]
            for _ in range(2):
                async with connected(TcpNetwork(client_tls=client_tls(True)), address) as secured:
                    await secured.request(Word(word="hello"))
        assert [each["event"] for each in logs].count("tls.certificate_made") == 1


async def test_without_cryptography_a_tls_peer_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    tls = RoleTls(TlsOptions(tls_config_file=tmp_path / "none"))
    async with served(TcpNetwork(server_tls=tls.server), Echo().dispatcher) as (_, address):
        with own_logs() as logs:
            for _ in range(2):
                with pytest.raises(ConnectError):
                    await TcpNetwork(client_tls=client_tls(True)).connect(address, Dispatcher())
    [said] = [each for each in logs if each["event"] == "tls.unavailable"]
    assert "pip install 'pocketmq[tls]'" in said["reason"]


async def test_a_full_temporary_folder_is_said_once_and_not_for_each_peer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkdtemp", full)
    tls = RoleTls(TlsOptions(tls_config_file=tmp_path / "none"))
    async with served(TcpNetwork(server_tls=tls.server), Echo().dispatcher) as (_, address):
        with own_logs() as logs:
            for _ in range(3):
                with pytest.raises(ConnectError):
                    await TcpNetwork(client_tls=client_tls(True)).connect(address, Dispatcher())
    [said] = [each for each in logs if each["event"] == "tls.unavailable"]
    assert "No space left" in said["reason"]


def test_a_key_that_is_made_is_readable_for_its_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        pair = make_certificate(tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(pair.key.stat().st_mode) == 0o600
    assert b"BEGIN PRIVATE KEY" in pair.key.read_bytes()  # PKCS#8: RocketMQ could read it, too
    assert make_certificate(tmp_path) == pair  # made anew


# -- from files -----------------------------------------------------------------------------------


async def test_certificate_and_key_are_renewed_together_while_a_role_runs(tmp_path: Path) -> None:
    # Y-6
    _, options = files_in(tmp_path, "one")
    tls = RoleTls(options)
    assert tls.is_watching
    async with served(TcpNetwork(server_tls=tls.server), Echo().dispatcher) as (_, address):
        assert await shows(address) == "one"
        async with connected(trusting("one"), address) as old:
            shutil.copy(own_pair("two").certificate, tmp_path / "certificate.pem")
            await tls.look()
            assert await shows(address) == "one"  # its key is still the old one
            shutil.copy(own_pair("two").key, tmp_path / "key.pem")
            await tls.look()
            assert await shows(address) == "two"
            assert (await old.request(Word(word="still here"))).code == 0


async def test_files_are_looked_at_every_half_second(tmp_path: Path) -> None:
    _, options = files_in(tmp_path, "one")
    tls = RoleTls(options)
    clock = ManualClock(1_700_000_000_000)
    task = asyncio.get_running_loop().create_task(tls.watch(clock))
    async with served(TcpNetwork(server_tls=tls.server), Echo().dispatcher) as (_, address):
        copied(tmp_path, "two")
        await clock.move_to(clock.time_ms() + 400)
        assert await shows(address) == "one"
        await clock.move_to(clock.time_ms() + 200)
        assert await shows(address) == "two"
    task.cancel()


async def test_a_renewal_waits_for_a_file_of_options_that_cannot_be_read(tmp_path: Path) -> None:
    _, options = files_in(tmp_path, "one")
    tls = RoleTls(options)
    async with served(TcpNetwork(server_tls=tls.server), Echo().dispatcher) as (_, address):
        options.tls_config_file.write_text("tls.test.mode.enable=perhaps\n")
        copied(tmp_path, "two")
        with own_logs() as logs:
            for _ in range(3):
                await tls.look()
        assert [each["event"] for each in logs] == ["tls.certificate_refused"], "it says so once"
        assert await shows(address) == "one"
        options.tls_config_file.unlink()
        await tls.look()
        assert await shows(address) == "two"


@pytest.mark.parametrize("broken", ["certificate.pem", "key.pem"])
async def test_a_broken_file_leaves_the_old_certificate_in_place_and_says_so(
    tmp_path: Path, broken: str
) -> None:
    _, options = files_in(tmp_path, "one")
    tls = RoleTls(options)
    async with served(TcpNetwork(server_tls=tls.server), Echo().dispatcher) as (_, address):
        copied(tmp_path, "two")
        (tmp_path / broken).write_text("-----BEGIN NOTHING-----\n")
        with own_logs() as logs:
            await tls.look()
        [said] = [each for each in logs if each["event"] == "tls.certificate_refused"]
        assert str(tmp_path) in said["reason"]
        assert "the certificate of before" in said["what_now"]
        assert await shows(address) == "one"
        copied(tmp_path, "two")
        await tls.look()
        if broken == "certificate.pem":
            assert await shows(address) == "one"  # RocketMQ waits for the key to change as well


async def test_a_file_that_is_gone_is_waited_for(tmp_path: Path) -> None:
    # Y-6: a deletion is ignored
    _, options = files_in(tmp_path, "one")
    tls = RoleTls(options)
    (tmp_path / "certificate.pem").unlink()
    (tmp_path / "key.pem").unlink()
    with own_logs() as logs:
        await tls.look()
        assert logs == []
        copied(tmp_path, "two")
        await tls.look()
    assert [each["event"] for each in logs] == ["tls.certificate_loaded"]


async def test_a_role_whose_files_cannot_be_used_starts_and_hangs_up_on_tls_peers(
    tmp_path: Path,
) -> None:
    # Y-4
    pair, options = files_in(tmp_path, "one")
    pair.key.write_text("")
    with own_logs() as logs:
        tls = RoleTls(options)
        async with served(TcpNetwork(server_tls=tls.server), Echo().dispatcher) as (_, address):
            assert await shows(address) == "none"
            async with connected(TcpNetwork(), address) as plain:
                assert (await plain.request(Word(word="hello"))).code == 0
    assert "tls.certificate_refused" in [each["event"] for each in logs]


@pytest.mark.parametrize("missing", [["key.pem"], ["certificate.pem", "key.pem"], ["ca.pem"]])
async def test_a_file_that_was_missing_at_the_start_is_used_when_it_comes(
    tmp_path: Path, missing: list[str]
) -> None:
    _, options = files_in(tmp_path, "one")
    shutil.copy(own_pair("friend").certificate, tmp_path / "ca.pem")
    for name in missing:
        (tmp_path / name).rename(tmp_path / f"later-{name}")
    tls = RoleTls(
        replace(
            options,
            tls_server_need_client_auth="optional",
            tls_server_auth_client=True,
            tls_server_trust_cert_path=tmp_path / "ca.pem",
        )
    )
    assert tls.is_watching
    async with served(TcpNetwork(server_tls=tls.server), Echo().dispatcher) as (_, address):
        assert await shows(address) == "none"
        for name in missing:
            (tmp_path / f"later-{name}").rename(tmp_path / name)
            await tls.look()
        assert await shows(address) == "one"


async def test_what_a_role_trusts_and_shows_where_it_connects_is_renewed_too(
    tmp_path: Path,
) -> None:
    pair, options = files_in(tmp_path, "one")
    shutil.copy(pair.certificate, tmp_path / "ca.pem")
    role = RoleTls(
        replace(
            options,
            tls_enable=True,
            tls_client_auth_server=True,
            tls_client_trust_cert_path=tmp_path / "ca.pem",
            tls_client_cert_path=pair.certificate,
            tls_client_key_path=pair.key,
            tls_server_need_client_auth="require",
            tls_server_auth_client=True,
            tls_server_trust_cert_path=tmp_path / "ca.pem",
        )
    )
    # Both ends of a cluster with one certificate, which are members of it by that.
    network = TcpNetwork(server_tls=role.server, client_tls=role.client)

    async def talks() -> bool:
        try:
            async with connected(network, address) as channel:
                await channel.request(Word(word="hello"))
        except RemotingError:
            return False
        return True

    async with served(network, Echo().dispatcher) as (_, address):
        assert await talks()
        async with connected(network, address) as old:
            copied(tmp_path, "two")
            await role.look()
            assert not await talks()  # nobody trusts the new one yet
            shutil.copy(own_pair("two").certificate, tmp_path / "ca.pem")
            with own_logs() as logs:
                await role.look()
            assert {each["event"] for each in logs} >= {
                "tls.certificate_loaded",
                "tls.client_files_loaded",
            }
            assert await talks()
            (tmp_path / "ca.pem").write_text("-----BEGIN NOTHING-----\n")
            with own_logs() as logs:
                await role.look()
            told = [each.get("what_now") for each in logs]
            assert "the role connects as before" in told
            assert await talks()
            assert (await old.request(Word(word="still here"))).code == 0


async def test_a_key_for_connections_that_was_half_written_is_read_again(tmp_path: Path) -> None:
    pair, options = files_in(tmp_path, "one")
    role = RoleTls(
        replace(
            options,
            tls_enable=True,
            tls_server_mode="disabled",
            tls_client_cert_path=pair.certificate,
            tls_client_key_path=pair.key,
        )
    )
    assert role.client is not None
    before = role.client.context
    key = copied(tmp_path, "two").key
    whole = key.read_bytes()
    key.write_bytes(whole[: len(whole) // 2])
    await role.look()
    assert role.client.context is before
    key.write_bytes(whole)
    await role.look()
    assert role.client.context is not before


def test_a_key_that_rocketmq_cannot_read_is_refused_with_how_to_convert_it(tmp_path: Path) -> None:
    # Y-4: PKCS#8 only
    from cryptography.hazmat.primitives import serialization

    pair = copied(tmp_path, "one")
    key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
    pair.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    with pytest.raises(ConfigError, match="openssl pkcs8 -topk8"):
        client_context(own=pair)


def test_a_key_may_have_a_password(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    pair = copied(tmp_path, "one")
    key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
    pair.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"1234"),
        )
    )
    client_context(own=KeyPair(pair.certificate, pair.key, "1234"))
    with pytest.raises(ConfigError, match="password"):
        client_context(own=pair)


async def test_peers_must_show_a_certificate_that_is_trusted(tmp_path: Path) -> None:
    # Y-8: enforcing, require, both ends verified
    pair, options = files_in(tmp_path, "one")
    tls = RoleTls(
        replace(
            options,
            tls_server_mode="enforcing",
            tls_server_need_client_auth="require",
            tls_server_auth_client=True,
            tls_server_trust_cert_path=own_pair("friend").certificate,
        )
    )
    echo = Echo()
    async with served(TcpNetwork(server_tls=tls.server), echo.dispatcher) as (_, address):
        for own, is_let_in in ((own_pair("friend"), True), (own_pair("two"), False), (None, False)):
            context = client_context(verify=True, trust=pair.certificate, own=own)
            network = TcpNetwork(client_tls=ClientTls(context))
            echo.codes.clear()
            try:  # with TLS 1.3 the client is done before the server has looked
                async with connected(network, address) as channel:
                    await channel.request(Word(word="hello"))
            except RemotingError:
                assert not is_let_in
            assert bool(echo.codes) is is_let_in, own


def test_the_file_of_options_goes_before_what_was_given(tmp_path: Path) -> None:
    # Y-3
    file = tmp_path / "tls.properties"
    file.write_text(
        "tls.test.mode.enable=false\ntls.server.certPath=/from/file\ntls.server.mode=disabled\n"
    )
    options = TlsOptions(tls_config_file=file, tls_server_key_path=Path("/given")).with_file()
    assert not options.tls_test_mode_enable
    assert options.tls_server_cert_path == Path("/from/file")
    assert options.tls_server_key_path == Path("/given")
    assert options.tls_server_mode == "permissive"  # RocketMQ does not read it there


@pytest.mark.parametrize("from_files", [True, False], ids=["files", "test_mode"])
@pytest.mark.parametrize(
    ("protocols", "ciphers", "spoken"),
    [
        ("", "", ("TLSv1.3", None)),
        ("TLSv1.2", "", ("TLSv1.2", None)),
        ("TLSv1.1, TLSv1.2,TLSv1.3", "", ("TLSv1.3", None)),
        (
            "",
            "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            ("TLSv1.2", "ECDHE-*-AES256-GCM-SHA384"),
        ),
        ("", "TLS_AES_128_GCM_SHA256,ECDHE-RSA-AES128-GCM-SHA256", ("TLSv1.3", None)),
        ("TLSv1.2,TLSv1.3", "TLS_AES_128_GCM_SHA256", ("TLSv1.3", None)),
    ],
)
async def test_a_port_speaks_the_protocols_and_ciphers_that_are_named(
    tmp_path: Path, from_files: bool, protocols: str, ciphers: str, spoken: tuple[str, str | None]
) -> None:  # Y-5
    _, options = files_in(tmp_path, "one")
    if not from_files:
        options = TlsOptions(tls_config_file=tmp_path / "none")
    tls = RoleTls(replace(options, tls_protocols=protocols, tls_ciphers=ciphers))
    assert tls.server is not None
    async with served(TcpNetwork(server_tls=tls.server), Echo().dispatcher) as (_, address):
        version, cipher = await handshaken(address)
    assert version == spoken[0]
    assert spoken[1] is None or fnmatch(cipher, spoken[1])


async def handshaken(address: str) -> tuple[str | None, str]:
    """Version and cipher that a port and a client without limits agree on."""
    host, _, port = address.rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=client_context())
    found = writer.get_extra_info("ssl_object")
    writer.close()
    await writer.wait_closed()
    cipher: str = found.cipher()[0]
    return found.version(), cipher


@pytest.mark.parametrize(
    ("protocols", "ciphers", "why"),
    [
        ("TLSv1.4", "", "TLSv1.4 is not spoken"),
        ("TLSv1,TLSv1.1", "", "TLSv1, TLSv1.1 is not spoken"),
        ("", "TLS_OF_MINE", "no TLS_OF_MINE"),
        ("TLSv1.2", "TLS_AES_128_GCM_SHA256", "none of these ciphers"),
        ("TLSv1.3", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "none of these ciphers"),
    ],
)
def test_what_no_peer_could_speak_is_refused(
    tmp_path: Path, protocols: str, ciphers: str, why: str
) -> None:  # Y-5
    pair, options = files_in(tmp_path, "one")
    options = replace(options, tls_protocols=protocols, tls_ciphers=ciphers)
    assert pair.key.exists()
    with own_logs() as logs:
        RoleTls(options)  # as with a file that cannot be used, its TLS peers are hung up on
    [said] = [each for each in logs if each["event"] == "tls.certificate_refused"]
    assert why in said["reason"]
    with pytest.raises(ConfigError, match=why):
        RoleTls(replace(options, tls_enable=True))


def test_a_port_without_tls_has_no_layer_at_all(tmp_path: Path) -> None:
    tls = RoleTls(TlsOptions(tls_config_file=tmp_path / "none", tls_server_mode="disabled"))
    assert tls.server is None


def test_a_role_that_cannot_show_its_own_certificate_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="missing"):
        RoleTls(
            TlsOptions(
                tls_config_file=tmp_path / "none",
                tls_enable=True,
                tls_test_mode_enable=False,
                tls_client_cert_path=tmp_path / "missing",
                tls_client_key_path=tmp_path / "missing",
            )
        )


def test_the_flags_on_the_page_can_be_typed() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser, TlsOptions)
    shown = re.findall(r"`(?:pocketmq broker )?(--tls-[^`]*)`", PAGE.read_text(encoding="utf-8"))
    assert len(shown) >= 5
    for line in shown:
        parser.parse_args(shlex.split(line))
