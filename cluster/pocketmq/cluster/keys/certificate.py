"""The certificate that the roles of one cluster show and trust, where it speaks TLS only."""

from __future__ import annotations

from pocketmq.operation.tls.certificate import kept_certificate
from pocketmq.operation.tls.contexts import KeyPair, client_tls
from pocketmq.operation.tls.options import TlsOptions
from pocketmq.protocol.transport.tls.client_tls import ClientTls
from pocketmq.runtime.errors import DiskError


def only_tls(own: KeyPair) -> TlsOptions:
    """Options of a role that takes TLS only, uses it, and trusts nobody but the cluster's."""
    return TlsOptions(
        tls_server_mode="enforcing",
        tls_enable=True,
        tls_test_mode_enable=False,
        tls_server_cert_path=own.certificate,
        tls_server_key_path=own.key,
        tls_client_auth_server=True,
        tls_client_trust_cert_path=own.certificate,
    )


def cluster_tls(own: KeyPair | None) -> ClientTls | None:
    """Make a cluster's certificate, unless it is there; what connections to its roles trust.

    Raises:
        MissingToolError: `cryptography` is not installed.
        DiskError: the files cannot be written.
    """
    if own is None:
        return None
    folder = own.certificate.parent
    try:
        # The same at every start, as clients already trust this certificate.
        kept_certificate(folder)
    except OSError as exc:
        reason = exc.strerror or str(exc)
        raise DiskError(folder, reason, advice="choose another folder with --data") from exc
    return client_tls(True, ca_file=own.certificate)
