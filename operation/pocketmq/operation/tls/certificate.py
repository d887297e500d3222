"""A certificate of one's own, for those who have none: made here, never shipped.

It needs the package `cryptography`, which `pocketmq[tls]` brings.
"""

from __future__ import annotations

import datetime
import ipaddress
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pocketmq.operation.tls.contexts import KeyPair, certificate_in
from pocketmq.runtime.errors import MissingToolError
from pocketmq.runtime.files.new_folders import make_lasting
from pocketmq.runtime.files.private_file import write_private
from pocketmq.runtime.files.replaced_folder import sync

HERE: Final = ("localhost", "127.0.0.1", "::1")
"""Names and addresses of this machine that every certificate is for."""

_FROM: Final = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
_TO: Final = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)
"""Without an end (RFC 5280): whoever made it throws it away. No clock is asked."""


def make_certificate(folder: Path, hosts: Iterable[str] = ()) -> KeyPair:
    """Make a key and a certificate that is its own CA, in `folder`, readable for its user alone.

    The certificate gets its name last: where one is, its own key is there, whole, as after a power
    cut.

    Args:
        folder: Exists.
        hosts: Names and addresses that it is for, beside this machine's.

    Raises:
        MissingToolError: `cryptography` is not installed.
        OSError: the files cannot be written.
    """
    certificate, key = _made(dict.fromkeys([*HERE, socket.gethostname(), *hosts]))
    pair = certificate_in(folder)
    pair.certificate.unlink(missing_ok=True)  # it would not fit the new key
    # The removal must be on the disk before the new key replaces the old one.
    sync(folder)
    for path, data in ((pair.key, key), (pair.certificate, certificate)):
        write_private(path, data)
    return pair


def kept_certificate(folder: Path, hosts: Iterable[str] = ()) -> KeyPair:
    """The certificate that `make_certificate` made in this folder, else a new one.

    Args:
        folder: Is made if it is not there.
        hosts: See `make_certificate`.

    Raises:
        MissingToolError: `cryptography` is not installed.
        OSError: the files cannot be written.
    """
    pair = certificate_in(folder)
    # could be better: a kept certificate is not made anew when the role is to have other names.
    if pair.certificate.is_file() and pair.key.is_file():
        return pair
    make_lasting(folder)
    return make_certificate(folder, hosts)


def _made(hosts: Iterable[str]) -> tuple[bytes, bytes]:
    """Certificate and key, both PEM."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
    except ImportError as exc:
        raise MissingToolError(
            "cryptography",
            "making a certificate for TLS",
            "run pip install 'pocketmq[tls]', or give certificates of your own (docs/tls.md)",
        ) from exc
    # EC instead of RSA: the key is made quickly, and signatures cost a flooded port less.
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "PocketMQ, made on this machine")])
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host.strip("[]"))))
        except ValueError:
            # International names would need IDNA and are left out.
            if host.isascii() and host:
                names.append(x509.DNSName(host))
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_FROM)
        .not_valid_after(_TO)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        # The certificate is its own authority: clients that get the file trust only this one.
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(
            x509.ExtendedKeyUsage(
                [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            ),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    return (
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
