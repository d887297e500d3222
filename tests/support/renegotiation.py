"""A peer of TLS 1.2 that asks for another handshake as often as a test likes.

Python's `ssl` cannot ask, so the handshake is OpenSSL's, and the records after it are made here:
of AES-128-GCM (RFC 5288), with the keys that follow from the master secret (RFC 5246, 6.3).
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ssl
import struct
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pocketmq.protocol.transport.tls.engine import TlsEngine
from support.eventually import PATIENCE_S

ALERT, HANDSHAKE, DATA = 21, 22, 23
_VERSION = b"\x03\x03"
_CIPHER = "ECDHE-ECDSA-AES128-GCM-SHA256"
_HEAD = 5
"""Bytes before what a record carries."""
NO_RENEGOTIATION = (ALERT, b"\x01\x64")
"""A warning with the number 100: the answer to who asks."""


class AskingPeer:
    """A connection whose handshake is complete.

    Args:
        reader: Of its socket.
        writer: Of its socket.
        hello: The message with which it began, to begin once more.
        keys: Of both directions, ours first, and then the beginnings of both nonces.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        hello: bytes,
        keys: tuple[bytes, bytes, bytes, bytes],
    ) -> None:
        self.writer = writer
        self._reader = reader
        self._hello = hello
        self._ours, self._theirs = AESGCM(keys[0]), AESGCM(keys[1])
        self._our_salt, self._their_salt = keys[2:]
        # The first records of both were the ends of the handshake.
        self._sent = self._heard = 1

    @classmethod
    async def connect(cls, address: str, folder: Path) -> AskingPeer:
        """Shake hands; the folder is for a file with the secret, which no other peer may use."""
        keys = folder / "keys.log"
        keys.unlink(missing_ok=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(_CIPHER)
        context.options |= ssl.OP_NO_TICKET
        context.keylog_filename = str(keys)
        engine = TlsEngine(context, server_side=False)
        engine.start()
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        said, heard = engine.take(), b""
        writer.write(said)
        async with asyncio.timeout(PATIENCE_S):
            while not engine.is_open:
                data = await reader.read(1 << 16)
                assert data, f"hung up on: {engine.failure}"
                heard += data
                engine.feed(data)
                writer.write(engine.take())
        [line] = [each for each in keys.read_text().splitlines() if each.startswith("CLIENT_")]
        _, client_random, master = line.split()
        # Behind the head, the kind of the message, its length and its version.
        server_random = heard[_HEAD + 6 : _HEAD + 38]
        block = _expanded(bytes.fromhex(master), server_random + bytes.fromhex(client_random))
        found = (block[:16], block[16:32], block[32:36], block[36:40])
        return cls(reader, writer, said[_HEAD:], found)

    def ask(self) -> None:
        """Begin another handshake."""
        self.say(HANDSHAKE, self._hello)

    def say(self, kind: int, plain: bytes) -> None:
        """Send one record."""
        number = struct.pack(">Q", self._sent)
        self._sent += 1
        seen = number + bytes([kind]) + _VERSION + struct.pack(">H", len(plain))
        sealed = number + self._ours.encrypt(self._our_salt + number, plain, seen)
        head = bytes([kind]) + _VERSION + struct.pack(">H", len(sealed))
        self.writer.write(head + sealed)

    async def hear(self) -> tuple[int, bytes]:
        """The kind of the next record, and what it says."""
        async with asyncio.timeout(PATIENCE_S):
            head = await self._reader.readexactly(_HEAD)
            sealed = await self._reader.readexactly(int.from_bytes(head[3:]))
        number = struct.pack(">Q", self._heard)
        self._heard += 1
        size = struct.pack(">H", len(sealed) - 24)  # a nonce of 8 bytes and a tag of 16
        seen = number + head[:3] + size
        return head[0], self._theirs.decrypt(self._their_salt + sealed[:8], sealed[8:], seen)

    async def close(self) -> None:
        self.writer.transport.abort()
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.writer.wait_closed()
        except ConnectionError:
            return


def _expanded(master: bytes, seed: bytes) -> bytes:
    """40 bytes or more of keys (RFC 5246, 5 and 6.3)."""
    seed = b"key expansion" + seed
    turn, found = seed, b""
    while len(found) < 40:
        turn = hmac.digest(master, turn, hashlib.sha256)
        found += hmac.digest(master, turn + seed, hashlib.sha256)
    return found
