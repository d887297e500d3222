"""How two ends of a TLS connection prove to each other that both know one secret.

    the end that connected                        the end that was connected to
                            <- challenge          32 fresh random bytes
    nonce, proof ->                               looks at the proof; a wrong one ends it here
                            <- proof              looked at in turn, before anything is asked

A proof is HMAC-SHA256 of the secret over who proves, the connection, the challenge and the nonce:

- It names the end, so that nobody can send a proof back to whoever made it.
- It names the connection by the first Finished message of its TLS handshake, which both ends have
  seen and which depends on keys and certificates of this handshake alone (`tls-unique` of RFC 5929
  for TLS 1.2; TLS 1.3 computes it over the whole handshake). Who stands between two members shakes
  hands twice, and can pass no proof on. A resumed session, where such a binding has failed, has
  none (`transport/tls_binding.py`).
- Challenge and nonce are fresh, so that a recorded proof is worth nothing.

The end that connected proves first: a stranger who connects learns nothing that was made with the
secret. Whoever listens in its place could try secrets against the proof it gets, so a secret is
never a word: it has 32 bytes at least.

Pure: random bytes and the connection's binding are handed over.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

CHALLENGE_BYTES: Final = 32
"""Of a challenge, and of a nonce."""

PROOF_BYTES: Final = 32

LEAST_SECRET_BYTES: Final = 32

SHARE_IT: Final = "give both the same member_secret_file (docs/members.md)"
"""What to do when a proof is wrong."""

NEEDS_TLS: Final = "members prove who they are over TLS: add --tls-enable, or tls=True for a client"

_WHAT: Final = b"PocketMQ member 1"


class End(Enum):
    """Which end of the connection proves."""

    CONNECTED = b"connected"
    """The one that opened it."""
    ACCEPTED = b"accepted"


@dataclass(frozen=True, slots=True)
class Secret:
    """What all members of a cluster know.

    Raises:
        ValueError: it is so short that it could be guessed.
    """

    value: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.value) < LEAST_SECRET_BYTES:
            raise ValueError(
                f"the secret has {len(self.value)} bytes, but must have at least "
                f"{LEAST_SECRET_BYTES} bytes"
            )


@dataclass(frozen=True, slots=True)
class Secrets:
    """What a process takes for its cluster's secret; several while it is being changed.

    Args:
        own: It proves with this one, where it connects.
        others: Of its peers; these are accepted too.
    """

    own: Secret
    others: tuple[Secret, ...] = ()

    def __contains__(self, secret: Secret) -> bool:
        return secret == self.own or secret in self.others

    def proven(self, end: End, exchange: Exchange, shown: bytes) -> Secret | None:
        """The secret with which the other end has proven; None: with none of them."""
        for each in (self.own, *self.others):
            if is_proven(each, end, exchange, shown):
                return each
        return None


@dataclass(frozen=True, slots=True)
class Exchange:
    """What one exchange is about; both ends have the same."""

    binding: bytes
    """Of the TLS connection."""
    challenge: bytes
    nonce: bytes


def proof(secret: Secret, end: End, exchange: Exchange) -> bytes:
    """What this end shows.

    Raises:
        ValueError: challenge or nonce has another length, or the connection has no binding: it is
            in plaintext.
    """
    if len(exchange.challenge) != CHALLENGE_BYTES or len(exchange.nonce) != CHALLENGE_BYTES:
        raise ValueError(f"challenge and nonce must have {CHALLENGE_BYTES} bytes each")
    if not exchange.binding:
        raise ValueError(
            "a member can prove itself only over TLS, but this connection is in plaintext"
        )
    fixed = (exchange.challenge, exchange.nonce, exchange.binding)  # only the last varies in length
    text = b"\0".join((_WHAT, end.value, b"".join(fixed)))
    return hmac.digest(secret.value, text, hashlib.sha256)


def is_proven(secret: Secret, end: End, exchange: Exchange, shown: bytes) -> bool:
    """Whether what the other end showed is its proof; takes the same time for any wrong one."""
    try:
        return hmac.compare_digest(proof(secret, end, exchange), shown)
    except ValueError:
        return False
