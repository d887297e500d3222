"""Certificates of a test run, and both ends' TLS."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

from pocketmq.operation.tls.certificate import make_certificate
from pocketmq.operation.tls.contexts import KeyPair, client_tls, server_context
from pocketmq.protocol.transport.memory import MemoryNetwork
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.protocol.transport.tls.client_tls import ClientTls
from pocketmq.protocol.transport.tls.server_tls import ServerTls

HALF_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100)
"""The beginning of a handshake, which does not go on."""


@functools.cache
def own_pair(name: str = "server") -> KeyPair:
    """A certificate and its key, made once in a run for each name."""
    folder = Path(tempfile.mkdtemp(prefix=f"pocketmq-tls-{name}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return make_certificate(folder)


def server_tls(*, enforces: bool = False) -> ServerTls:
    """Of ports that show `own_pair()`."""
    context = server_context(own_pair())
    return ServerTls(lambda: context, enforces=enforces)


def trusting() -> ClientTls:
    """Of clients that trust `own_pair()` and nobody else."""
    found = client_tls(True, ca_file=own_pair().certificate, server_name="localhost")
    assert found is not None
    return found


def tcp_over_tls() -> TcpNetwork:
    """Sockets whose ports enforce TLS, and whose connections speak it."""
    return TcpNetwork(server_tls=server_tls(enforces=True), client_tls=trusting())


def memory_over_tls() -> MemoryNetwork:
    """The same in memory."""
    return MemoryNetwork(server_tls=server_tls(enforces=True), client_tls=trusting())
