"""`ClientTls`: whom connections that we make trust, and how they show who they are."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from pocketmq.protocol.transport.tls.contexts import client_context


@dataclass(frozen=True, slots=True)
class ClientTls:
    """TLS of the connections that one client or role makes."""

    context: ssl.SSLContext
    server_name: str | None = None
    """What the servers' certificates must be for. RocketMQ never looks at names (Y-4)."""


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
