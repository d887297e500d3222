"""What both ends of one TLS connection know, and no other connection has."""

from __future__ import annotations

import asyncio
import ssl


def tls_binding(transport: asyncio.BaseTransport | None) -> bytes:
    """The first Finished message of the handshake, the client's; empty in plaintext.

    `tls-unique` of RFC 5929. That does not speak of TLS 1.3, where OpenSSL gives the same message:
    there it is a MAC over the whole handshake, with a key that only its two ends have.

    Empty, too, where a session of TLS 1.2 was resumed, as ports let their peers do: who stands
    between two ends can give both the same session, and then both have the same message (RFC 7627).
    """
    found = None if transport is None else transport.get_extra_info("ssl_object")
    if not isinstance(found, ssl.SSLObject) or found.session_reused:
        return b""
    return found.get_channel_binding("tls-unique") or b""
