"""What a proof between members is worth, without any connection."""

from __future__ import annotations

import pytest

from pocketmq.protocol.member_proof import End, Exchange, Secret, is_proven, proof

SECRET = Secret(b"s" * 32)
EXCHANGE = Exchange(b"this connection", b"c" * 32, b"n" * 32)


def test_both_ends_are_known_by_their_secret() -> None:
    for end in End:
        assert is_proven(SECRET, end, EXCHANGE, proof(SECRET, end, EXCHANGE))


@pytest.mark.parametrize(
    "other",
    [
        Exchange(b"another connection", b"c" * 32, b"n" * 32),  # passed on by who stands between
        Exchange(b"this connection", b"d" * 32, b"n" * 32),  # recorded
        Exchange(b"this connection", b"c" * 32, b"m" * 32),
        Exchange(b"", b"c" * 32, b"n" * 32),  # plaintext
        Exchange(b"this connection", b"", b"n" * 32),  # nobody was challenged
    ],
)
def test_a_proof_is_good_for_its_own_exchange_only(other: Exchange) -> None:
    for end in End:
        assert not is_proven(SECRET, end, other, proof(SECRET, end, EXCHANGE))


def test_a_proof_cannot_be_sent_back_to_its_maker() -> None:
    assert not is_proven(SECRET, End.CONNECTED, EXCHANGE, proof(SECRET, End.ACCEPTED, EXCHANGE))
    assert not is_proven(SECRET, End.ACCEPTED, EXCHANGE, proof(SECRET, End.CONNECTED, EXCHANGE))


def test_another_secret_proves_nothing() -> None:
    other = Secret(b"t" * 32)
    assert not is_proven(SECRET, End.CONNECTED, EXCHANGE, proof(other, End.CONNECTED, EXCHANGE))
    assert not is_proven(SECRET, End.CONNECTED, EXCHANGE, b"")


def test_a_secret_that_could_be_guessed_is_none_and_none_is_shown() -> None:
    with pytest.raises(ValueError, match="the secret has 31 bytes, but must"):
        Secret(b"s" * 31)
    assert "s" * 32 not in repr(SECRET)


def test_nothing_is_proven_in_plaintext() -> None:
    with pytest.raises(ValueError, match="plaintext"):
        proof(SECRET, End.CONNECTED, Exchange(b"", b"c" * 32, b"n" * 32))
