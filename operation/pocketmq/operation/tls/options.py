"""Options of TLS (Y-3): RocketMQ's keys and defaults, for every role."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from pocketmq.operation.tls.contexts import (
    ClientAuth,
    KeyPair,
    client_context,
    server_context,
)
from pocketmq.operation.tls.limits import limit_ciphers, limit_protocols
from pocketmq.runtime.configuration.config import all_in
from pocketmq.runtime.configuration.options import describe, option
from pocketmq.runtime.errors import ConfigError

TlsMode = Literal["disabled", "permissive", "enforcing"]

_NOT_IN_FILE: Final = frozenset({"tls_server_mode", "tls_enable", "tls_config_file"})
"""What RocketMQ does not read from the file."""


@dataclass(frozen=True, kw_only=True)
class TlsOptions:
    """TLS of a role's ports, and of the connections that it makes."""

    section: ClassVar[str] = "security"

    tls_server_mode: TlsMode = option(
        "permissive",
        help=(
            "What this role's ports accept. disabled: no TLS. permissive: TLS and plaintext. "
            "enforcing: only TLS."
        ),
        rule="Y-1",
        rocketmq_name="tls.server.mode",
    )
    tls_enable: bool = option(
        False,
        help="Use TLS for connections to nameservers, brokers and controllers.",
        rule="Y-3",
        rocketmq_name="tls.enable",
    )
    tls_config_file: Path = option(
        Path("/etc/rocketmq/tls.properties"),
        help=(
            "Properties file with TLS options. A value in this file overrides values from "
            "all other places."
        ),
        rule="Y-3",
        rocketmq_name="tls.config.file",
    )
    tls_test_mode_enable: bool = option(
        True,
        help=(
            "Use TLS without certificate files. When the first TLS peer connects, the role "
            "makes a certificate for its ports. Its own connections accept any certificate."
        ),
        rule="Y-3",
        rocketmq_name="tls.test.mode.enable",
    )
    tls_server_cert_path: Path | None = option(
        None,
        help="File of the certificate chain (PEM) of this role's ports.",
        rule="Y-4",
        rocketmq_name="tls.server.certPath",
    )
    tls_server_key_path: Path | None = option(
        None,
        help="File of the certificate's key (PEM, PKCS#8).",
        rule="Y-4",
        rocketmq_name="tls.server.keyPath",
    )
    tls_server_key_password: str = option(
        "",
        help="Password of the key file.",
        rule="Y-4",
        rocketmq_name="tls.server.keyPassword",
        secret=True,
    )
    tls_server_need_client_auth: ClientAuth = option(
        "none",
        help=(
            "Whether a peer that connects must show a certificate: none, optional or "
            "require. Only used with tls_server_auth_client."
        ),
        rule="Y-3",
        rocketmq_name="tls.server.need.client.auth",
    )
    tls_server_auth_client: bool = option(
        False,
        help="Check the peers' certificates.",
        rule="Y-3",
        rocketmq_name="tls.server.authClient",
    )
    tls_server_trust_cert_path: Path | None = option(
        None,
        help=(
            "File of the CA certificates (PEM) with which this role checks its peers' "
            "certificates. Default: the system's CAs."
        ),
        rule="Y-4",
        rocketmq_name="tls.server.trustCertPath",
    )
    tls_client_cert_path: Path | None = option(
        None,
        help="File of the certificate chain (PEM) that this role shows to servers.",
        rule="Y-3",
        rocketmq_name="tls.client.certPath",
    )
    tls_client_key_path: Path | None = option(
        None,
        help="File of the certificate's key (PEM, PKCS#8).",
        rule="Y-3",
        rocketmq_name="tls.client.keyPath",
    )
    tls_client_key_password: str = option(
        "",
        help="Password of the key file.",
        rule="Y-3",
        rocketmq_name="tls.client.keyPassword",
        secret=True,
    )
    tls_client_auth_server: bool = option(
        False,
        help="Check the certificates of servers, but not the host names in the certificates.",
        rule="Y-4",
        rocketmq_name="tls.client.authServer",
    )
    tls_client_trust_cert_path: Path | None = option(
        None,
        help=(
            "File of the CA certificates (PEM) with which this role checks servers' "
            "certificates. Default: the system's CAs."
        ),
        rule="Y-4",
        rocketmq_name="tls.client.trustCertPath",
    )

    tls_protocols: str = option(
        "",
        help="TLS versions to use, separated by ',': TLSv1.2, TLSv1.3. Default: both.",
        rule="Y-5",
        rocketmq_name="tls.protocols",
    )
    tls_ciphers: str = option(
        "",
        help="Cipher suites to use, separated by ','. Default: OpenSSL's choice.",
        rule="Y-5",
        rocketmq_name="tls.ciphers",
    )

    def with_file(self) -> TlsOptions:
        """The same with what `tls_config_file` says, if there is such a file.

        Raises:
            ConfigError: it cannot be read, or a value is wrong.
        """
        path = self.tls_config_file.expanduser()
        found = all_in(path)
        changed: dict[str, Any] = {}
        for each in describe(TlsOptions):
            # Options that the file does not name keep their values.
            if each.rocketmq_name not in found or each.name in _NOT_IN_FILE:
                continue
            text = found[each.rocketmq_name]
            try:
                changed[each.name] = each.value_of(text)
            except ValueError as exc:
                # A password in the file must not be quoted in an error.
                shown = "the value" if each.secret else repr(text)
                raise ConfigError(
                    each.rocketmq_name, f"{shown} is not {exc}", origin=str(path)
                ) from exc
        return replace(self, **changed)

    # -- after `with_file` ------------------------------------------------------------------

    @property
    def server_files(self) -> tuple[Path, ...]:
        """Certificate, key and trusted certificates of the ports, those that are named."""
        return self._watched(
            self.tls_server_cert_path, self.tls_server_key_path, self.tls_server_trust_cert_path
        )

    @property
    def client_files(self) -> tuple[Path, ...]:
        """The same of the role's own connections."""
        return self._watched(
            self.tls_client_cert_path, self.tls_client_key_path, self.tls_client_trust_cert_path
        )

    def _watched(self, *named: Path | None) -> tuple[Path, ...]:
        # Named files are not read in test mode, so a change of them changes nothing.
        if self.tls_test_mode_enable:
            return ()
        return tuple(each.expanduser() for each in named if each is not None)

    def server_context(self) -> ssl.SSLContext:
        """The `ssl.SSLContext` of the ports, from files.

        Raises:
            ConfigError: a file is missing or cannot be used.
        """
        own = _pair(
            "tls.server", self.tls_server_cert_path, self.tls_server_key_path,
            self.tls_server_key_password,
        )  # fmt: skip
        if own is None:
            raise ConfigError(
                "tls.server.certPath", "no certificate is configured, and TLS test mode is off",
                advice="give a certificate and its key, or leave tls.test.mode.enable on",
            )  # fmt: skip
        # RocketMQ asks for no certificate unless both options say so.
        checks = self.tls_server_auth_client
        trust = self.tls_server_trust_cert_path
        context = server_context(
            own,
            client_auth=self.tls_server_need_client_auth if checks else "none",
            trust=None if trust is None else trust.expanduser(),
        )
        return self.limited(context)

    def client_context(self) -> ssl.SSLContext:
        """The `ssl.SSLContext` of connections that the role makes.

        Raises:
            ConfigError: a file is missing or cannot be used.
        """
        # Test mode trusts any server, as RocketMQ does by default.
        if self.tls_test_mode_enable:
            return self.limited(client_context())
        trust = self.tls_client_trust_cert_path
        context = client_context(
            verify=self.tls_client_auth_server,
            trust=None if trust is None else trust.expanduser(),
            own=_pair(
                "tls.client", self.tls_client_cert_path, self.tls_client_key_path,
                self.tls_client_key_password,
            ),
        )  # fmt: skip
        return self.limited(context)

    def limited(self, context: ssl.SSLContext) -> ssl.SSLContext:
        """The same context, which speaks `tls_protocols` and `tls_ciphers` alone.

        Raises:
            ConfigError: they name what OpenSSL does not have, or leave nothing to speak.
        """
        limit_protocols(context, _listed(self.tls_protocols))
        # After the versions: which suites may be named depends on them.
        limit_ciphers(context, _listed(self.tls_ciphers))
        return context


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _pair(prefix: str, certificate: Path | None, key: Path | None, password: str) -> KeyPair | None:
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        missing, given = ("certPath", "keyPath") if key is not None else ("keyPath", "certPath")
        raise ConfigError(
            f"{prefix}.{missing}", f"this option is missing, although {prefix}.{given} is given"
        )
    return KeyPair(certificate.expanduser(), key.expanduser(), password)
