"""SSL contexts from files, as RocketMQ takes them (Y-4, Y-5): TLS 1.2 and 1.3.

Nothing is renegotiated: each time would cost a signature, and a peer could ask for it without end.
ALPN `h2` is taken where it is offered: gRPC clients hang up otherwise, and nobody would read in the
log what they are and where they belong (G-133).
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pocketmq.protocol.transport.tls.client_tls import ClientTls
from pocketmq.runtime.errors import ConfigError

ClientAuth = Literal["none", "optional", "require"]

_OLD_KEYS = ("BEGIN RSA PRIVATE KEY", "BEGIN EC PRIVATE KEY", "BEGIN DSA PRIVATE KEY")


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its key, as files."""

    certificate: Path
    """PEM, with the chain."""
    key: Path
    """PEM, PKCS#8."""
    password: str = ""
    """Of the key; empty: it has none."""


def certificate_in(folder: Path) -> KeyPair:
    """Where a certificate that PocketMQ makes stands in a folder."""
    return KeyPair(folder / "certificate.pem", folder / "key.pem")


def server_context(
    own: KeyPair, *, client_auth: ClientAuth = "none", trust: Path | None = None
) -> ssl.SSLContext:
    """The context of a port.

    Args:
        own: Shown to peers.
        client_auth: Whether peers must show a certificate that `trust` knows.
        trust: PEM; None: the certificates that the system trusts.

    Raises:
        ConfigError: a file cannot be used; the text names it.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0  # TLS 1.3 resumes nothing: nothing to keep, and one write less
    context.set_alpn_protocols(["h2"])
    _show(context, own)
    # Read trusted certificates only if peers are checked: the file may not exist otherwise.
    if client_auth != "none":
        context.verify_mode = ssl.CERT_OPTIONAL if client_auth == "optional" else ssl.CERT_REQUIRED
        _trust(context, trust, ssl.Purpose.CLIENT_AUTH)
    return context


def client_context(
    *,
    verify: bool = False,
    trust: Path | None = None,
    check_name: bool = False,
    own: KeyPair | None = None,
) -> ssl.SSLContext:
    """The context of connections that we make.

    Args:
        verify: The server's certificate must come from `trust`; else any is taken.
        trust: PEM; None: the certificates that the system trusts.
        check_name: The certificate must be for the name that is asked for.
        own: Shown to servers that ask.

    Raises:
        ConfigError: a file cannot be used; the text names it.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.options |= ssl.OP_NO_RENEGOTIATION
    # In this order: Python refuses CERT_NONE while names are checked.
    context.check_hostname = check_name
    context.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
    if verify:
        _trust(context, trust, ssl.Purpose.SERVER_AUTH)
    if own is not None:
        _show(context, own)
    return context


def client_tls(
    tls: bool | ssl.SSLContext, *, ca_file: Path | str | None = None, server_name: str | None = None
) -> ClientTls | None:
    """What `tls=`, `tls_ca_file=` and `tls_server_name=` of a client mean.

    Without a CA file connections are encrypted and any server is taken, as by RocketMQ's clients
    (`tls.client.authServer=false`). With one, the server's certificate must come from it, and be
    for `server_name` if that is given.

    Raises:
        ConfigError: the files cannot be used.
    """
    if isinstance(tls, ssl.SSLContext):
        name = server_name or ("" if tls.check_hostname else None)
        return ClientTls(tls, name)
    if not tls:
        return None
    context = client_context(
        verify=ca_file is not None or server_name is not None,
        trust=None if ca_file is None else Path(ca_file),
        check_name=server_name is not None,
    )
    return ClientTls(context, server_name)


def _show(context: ssl.SSLContext, own: KeyPair) -> None:
    try:
        text = own.key.read_text("ascii", "replace")
        # OpenSSL accepts such a key, but RocketMQ would not start with it.
        if any(old in text for old in _OLD_KEYS):
            raise ConfigError(
                str(own.key),
                "the key must be in PKCS#8 format, because RocketMQ reads no other format",
                advice="convert the key: openssl pkcs8 -topk8 -nocrypt -in OLD -out NEW",
            )
        # A callable, since OpenSSL would ask at the terminal.
        context.load_cert_chain(own.certificate, own.key, lambda: own.password)
    except ssl.SSLError as exc:
        raise ConfigError(
            f"{own.certificate}, {own.key}",
            f"the certificate and the key cannot be used: {exc.reason or exc}",
            advice=(
                "give a PEM certificate chain, its PKCS#8 key, and the key's password if the "
                "key has one"
            ),
        ) from exc
    # `ssl.SSLError` is one too, so it comes first.
    except OSError as exc:
        name = exc.filename or f"{own.certificate} or {own.key}"
        raise ConfigError(str(name), f"the file cannot be read: {exc.strerror or exc}") from exc


def _trust(context: ssl.SSLContext, trust: Path | None, purpose: ssl.Purpose) -> None:
    # The purpose matters: the system keeps authorities for servers and for clients apart.
    if trust is None:
        context.load_default_certs(purpose)
        return
    try:
        context.load_verify_locations(trust)
    except ssl.SSLError as exc:
        reason = exc.reason or str(exc)
        raise ConfigError(
            str(trust), f"the file must contain PEM certificates, but OpenSSL reports: {reason}"
        ) from exc
    except OSError as exc:
        raise ConfigError(str(trust), f"the file cannot be read: {exc.strerror or exc}") from exc
