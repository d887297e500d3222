"""`TlsEngine`: one end of one TLS connection, without a socket: bytes in, bytes out.

    engine = TlsEngine(context, server_side=True)
    plain = engine.feed(data)          # what came from the socket; what it says, decrypted
    socket.write(engine.take())        # what the handshake wants sent
    socket.write(engine.seal(reply))   # an answer, encrypted

All bytes pass through two `ssl.MemoryBIO`s, so that a write of the channel stays one write of the
socket, and the same layer works over the memory transport.
"""

from __future__ import annotations

import contextlib
import ssl
from typing import Final

from pocketmq.protocol.command import Buffer

_RECORD_BYTES: Final = 16 * 1024
"""What a record carries at most, and what OpenSSL returns at once."""


class TlsEngine:
    """Shakes hands, then decrypts what comes and encrypts what leaves.

    Args:
        context: Certificates, and whom to trust.
        server_side: The peer connected to us.
        server_name: The name that the server's certificate must be for, where the context checks.
    """

    __slots__ = ("_incoming", "_outgoing", "failure", "is_open", "is_over", "ssl_object")

    def __init__(
        self, context: ssl.SSLContext, *, server_side: bool, server_name: str | None = None
    ) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self.ssl_object = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=server_name
        )
        self.is_open = False
        """The handshake is complete."""
        self.is_over = False
        """The peer said that it sends nothing more."""
        self.failure = ""
        """Why the connection cannot go on; the alert for the peer is in `take`."""

    def start(self) -> None:
        """Begin the handshake, as the end that connects does; its bytes are in `take`."""
        self._shake_hands()

    def feed(self, data: bytes) -> bytes:
        """What came from the peer, decrypted; never raises on bad input: look at `failure`."""
        self._incoming.write(data)
        # Nothing can be decrypted before the handshake is complete.
        if not self.is_open and not self._shake_hands():
            return b""
        found: list[bytes] = []
        read = self.ssl_object.read
        try:
            # Read until OpenSSL wants more input: the data may hold several records.
            while plain := read(_RECORD_BYTES):
                found.append(plain)
            self.is_over = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as exc:
            self.failure = _reason(exc)
        return found[0] if len(found) == 1 else b"".join(found)

    def take(self) -> bytes:
        """Bytes for the peer that are no answer: of the handshake, alerts; often none."""
        return self._outgoing.read() if self._outgoing.pending else b""

    def seal(self, data: Buffer) -> bytes:
        """An answer or request, encrypted; the handshake must be complete.

        Raises:
            ssl.SSLError: the connection is over.
        """
        done = self.ssl_object.write(data)
        # OpenSSL takes one record at a time.
        if done < len(data):
            view = memoryview(data)
            while done < len(data):
                done += self.ssl_object.write(view[done:])
        return self._outgoing.read()

    def finish(self) -> bytes:
        """What tells the peer that nothing more comes."""
        # Only an open connection needs a goodbye; a failed one has sent an alert.
        if self.is_open and not self.failure:
            with contextlib.suppress(ssl.SSLError):  # it waits for the peer's word; we do not
                self.ssl_object.unwrap()
        return self.take()

    def _shake_hands(self) -> bool:
        try:
            self.ssl_object.do_handshake()
        except ssl.SSLWantReadError:
            # The peer's next bytes have not come yet.
            return False
        except ssl.SSLError as exc:  # a certificate's error is one, too
            self.failure = _reason(exc)
            return False
        self.is_open = True
        return True


def _reason(exc: ssl.SSLError) -> str:
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"the certificate was refused: {exc.verify_message}"
    reason = exc.reason or str(exc)
    return reason.replace("_", " ").lower()
