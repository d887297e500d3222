"""`Members`: the secret of a process, and which of its connections were proven to be members'.

The two ends of an exchange on a port for requests are here: `MemberProcessor` answers, and
`prove_to` asks. Those of a replication port are in `protocol/transport/member_streams.py`. What is
proven, and why that is enough, stands in `protocol/member_proof.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
from typing import Final
from weakref import WeakKeyDictionary, WeakSet

import structlog

from pocketmq.operation.membership.options import SecretFile
from pocketmq.operation.membership.requests import (
    GetMemberChallengeRequestHeader,
    MemberChallengeResponseHeader,
    ProveMemberRequestHeader,
    ProveMemberResponseHeader,
)
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Reply, handles
from pocketmq.protocol.errors import BadRequestError, ConnectError, RemotingError
from pocketmq.protocol.member_proof import (
    CHALLENGE_BYTES,
    NEEDS_TLS,
    PROOF_BYTES,
    SHARE_IT,
    End,
    Exchange,
    Secret,
    Secrets,
    is_proven,
    proof,
)
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.member_streams import Tied
from pocketmq.runtime.clock import Clock

log = structlog.get_logger()

NO_MEMBER: Final = (
    "it cannot prove that it is a member of the cluster: start it with --members-must-prove and the"
    " cluster's --member-secret-file"
)


LOOK_S: Final = 0.5
"""Between two looks at the file, as at certificates."""


class Members:
    """What one process knows of its cluster's members.

    Args:
        secrets: Of the cluster, or the file that has them.
    """

    def __init__(self, secrets: Secrets | SecretFile) -> None:
        self._file = None if isinstance(secrets, Secrets) else secrets
        self.secrets = secrets if isinstance(secrets, Secrets) else secrets.secrets
        self._tied: WeakKeyDictionary[Tied, tuple[Secret, asyncio.AbstractEventLoop]] = (
            WeakKeyDictionary()
        )
        """Proven connections of either end, and the loops that they belong to."""
        # Clients of one process share one of these, and each may have a thread and loop of its own.
        self._lock = threading.Lock()
        self.challenges: WeakKeyDictionary[Channel, bytes] = WeakKeyDictionary()
        """Not answered yet."""
        self._proven: WeakSet[Tied] = WeakSet()
        self.is_watching = False
        """Whether `watch` is running, so that nobody else needs to look."""

    def __contains__(self, peer: object) -> bool:
        return peer in self._proven

    def add(self, peer: Channel, secret: Secret) -> None:
        """This connection is a member's, as long as it lasts and the secret is one."""
        if self.tie(peer, secret):
            self._proven.add(peer)

    def tie(self, connection: Tied, secret: Secret) -> bool:
        """The connection is proven, and is to end when this secret is none any more.

        False: it was revoked during the proof, and the connection is closed.
        """
        with self._lock:
            is_one = secret in self.secrets
            if is_one:
                self._tied[connection] = (secret, asyncio.get_running_loop())
        if not is_one:
            connection.abort()
        return is_one

    async def look(self) -> None:
        """Use what the file says, if it has changed."""
        if self._file is not None:
            await self._file.look()
            self._renew(self._file)

    async def watch(self, clock: Clock) -> None:
        """Look at the file until cancelled.

        Args:
            clock: Of the file, which changes in real time.
        """
        self.is_watching = True
        try:
            while True:
                await clock.sleep(LOOK_S)
                await self.look()
        finally:
            self.is_watching = False

    def _renew(self, file: SecretFile) -> None:
        """Prove with what the file has from now on, and hang up on who has proven with any other.

        Whoever has got hold of a secret that was changed for that must not stay connected.
        """
        with self._lock:
            # Not what one look has found: one in another thread may have found more since.
            secrets = file.secrets
            if secrets == self.secrets:
                return
            self.secrets = secrets
            revoked = [
                (connection, loop)
                for connection, (secret, loop) in self._tied.items()
                if secret not in secrets
            ]
            for connection, _ in revoked:
                del self._tied[connection]
                # Of what was read before the connection ends, nothing more is a member's request.
                self._proven.discard(connection)
        here = asyncio.get_running_loop()
        for connection, loop in revoked:
            if loop is here:
                connection.abort()
            else:
                # Transports can only be used in the thread of their loop. A loop that was closed
                # has closed its connections.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(connection.abort)


class MemberProcessor:
    """Takes proofs at a port.

    Args:
        members: Gets who has proven.
    """

    def __init__(self, members: Members) -> None:
        self._members = members

    @handles(RequestCode.GET_MEMBER_CHALLENGE)
    def challenge(self, peer: Channel, request: Command) -> Reply:
        """A fresh challenge, which takes the place of an earlier one.

        Raises:
            BadRequestError: the connection is in plaintext.
        """
        # A proof is bound to a TLS connection: in plaintext, somebody in between could pass it on.
        if not peer.tls_binding():
            raise BadRequestError(NEEDS_TLS, code=ResponseCode.NO_PERMISSION)
        fresh = self._members.challenges[peer] = secrets.token_bytes(CHALLENGE_BYTES)
        return request.reply(MemberChallengeResponseHeader(challenge=fresh.hex()))

    @handles(RequestCode.PROVE_MEMBER)
    def prove(self, peer: Channel, request: Command) -> Reply:
        """Look at the proof, and show our own.

        Raises:
            BadRequestError: it is wrong, or nobody was challenged; the connection is closed.
        """
        header = request.header(ProveMemberRequestHeader)
        # Each challenge can be answered once.
        challenge = self._members.challenges.pop(peer, b"")
        # The peer's own random part: without it, a false port could replay old answers.
        nonce = _bytes(header.nonce, CHALLENGE_BYTES)
        exchange = Exchange(peer.tls_binding(), challenge, nonce)
        shown = _bytes(header.proof, PROOF_BYTES)
        secret = self._members.secrets.proven(End.CONNECTED, exchange, shown)
        if secret is None:
            log.warning(
                "member.refused",
                peer=peer.address,
                reason="it has shown a wrong proof",
                advice=SHARE_IT,
            )
            asyncio.get_running_loop().call_soon(peer.close)  # each try costs a connection
            raise BadRequestError(
                f"the proof is wrong: {SHARE_IT}", code=ResponseCode.NO_PERMISSION
            )
        self._members.add(peer, secret)
        # With the secret that the peer has: of a new one it may not know yet. And prove
        # ourselves to members only: others get nothing to work on.
        own = proof(secret, End.ACCEPTED, exchange)
        return request.reply(ProveMemberResponseHeader(proof=own.hex()))


async def prove_to(channel: Channel, address: str, secret: Secret, *, timeout_s: float) -> None:
    """Prove to whom we connected that we are a member, and have it prove the same.

    Args:
        channel: Just opened; nothing was asked on it.
        address: Whom we connected to, for errors.
        secret: Of the cluster.
        timeout_s: Real seconds for each of two answers.

    Raises:
        ConnectError: it refuses us, or is no member; the text says what to do.
    """
    binding = channel.tls_binding()
    # Check before anything is sent: a proof in plaintext would help eavesdroppers.
    if not binding:
        raise ConnectError(address, NEEDS_TLS)
    try:
        reply = await channel.request(GetMemberChallengeRequestHeader(), timeout_s=timeout_s)
        _check(reply, address)
        challenge = _bytes(reply.header(MemberChallengeResponseHeader).challenge, CHALLENGE_BYTES)
        exchange = Exchange(binding, challenge, secrets.token_bytes(CHALLENGE_BYTES))
        header = ProveMemberRequestHeader(
            nonce=exchange.nonce.hex(), proof=proof(secret, End.CONNECTED, exchange).hex()
        )
        reply = await channel.request(header, timeout_s=timeout_s)
        _check(reply, address)
        shown = _bytes(reply.header(ProveMemberResponseHeader).proof, PROOF_BYTES)
    # Callers try another address after a `ConnectError`; any other fault would end them.
    except (RemotingError, BadRequestError) as exc:
        if isinstance(exc, ConnectError):
            raise
        raise ConnectError(address, str(exc)) from exc
    if not is_proven(secret, End.ACCEPTED, exchange, shown):
        raise ConnectError(address, f"its proof is wrong: {SHARE_IT}")


def _check(reply: Command, address: str) -> None:
    # RocketMQ's nameservers and brokers do not know the request.
    if reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        raise ConnectError(address, NO_MEMBER)
    if reply.code != ResponseCode.SUCCESS:
        raise ConnectError(address, reply.remark or f"it answered {reply.code}")


def _bytes(text: str, size: int) -> bytes:
    """What hexadecimal text says.

    Raises:
        BadRequestError: it is none, or has another length.
    """
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    # Shorter values would weaken the exchange.
    if len(found) != size:
        raise BadRequestError(f"{size} hexadecimal bytes are expected")
    return found
