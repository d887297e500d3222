"""PocketMQ's own requests by which whoever connected to a port shows that it is a member.

RocketMQ has nothing like them: its nameservers, controllers and slaves know nobody.
"""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.header import Header


class MemberChallengeResponseHeader(Header, kw_only=True):
    """What is to be answered by PROVE_MEMBER, once."""

    challenge: str
    """Hexadecimal."""


class GetMemberChallengeRequestHeader(Header, kw_only=True):
    """GET_MEMBER_CHALLENGE: begin to prove who connected."""

    CODE: ClassVar[int] = RequestCode.GET_MEMBER_CHALLENGE
    RESPONSE = MemberChallengeResponseHeader


class ProveMemberResponseHeader(Header, kw_only=True):
    """The port is a member's, too."""

    proof: str
    """Hexadecimal."""


class ProveMemberRequestHeader(Header, kw_only=True):
    """PROVE_MEMBER: the answer to the challenge of this connection."""

    CODE: ClassVar[int] = RequestCode.PROVE_MEMBER
    RESPONSE = ProveMemberResponseHeader

    nonce: str
    """Hexadecimal."""
    proof: str
    """Hexadecimal."""
