"""Requests of PocketMQ's own (clock, faults, status): where users are on, they are a super user's.

They can do more than any of RocketMQ's. Brokers and proxies know users; nameservers and controllers
have no accounts, as in RocketMQ, and know the super users that their options name; client processes
with a port of their own know those that a variable names (docs/security.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pocketmq.operation.access.decisions import WRONG_SIGNATURE, AccessDeniedError, admitted
from pocketmq.operation.access.denials import Denials
from pocketmq.operation.access.users import User, UserType
from pocketmq.protocol.codes import RequestCode, ResponseCode, request_name
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Addressed
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.header import to_text_value
from pocketmq.protocol.signing import ACCESS_KEY, is_signed

OWN_CODES: Final = range(30_000, 40_000)
"""PocketMQ's own requests, those to come included."""

OPEN_CODES: Final[frozenset[int]] = frozenset(
    {
        RequestCode.GET_PROXIES,
        RequestCode.GET_MEMBER_CHALLENGE,
        RequestCode.PROVE_MEMBER,
    }
)
"""Of these, what anybody may ask who has no accounts: clients look for proxies as for routes, and
who is about to prove that it is a member has a secret and no user."""


def named_by(request: Command) -> str:
    """The user that a request names; empty if it names none."""
    return to_text_value(request.fields.get(ACCESS_KEY) or "")


def check_signature(request: Command, user: User) -> None:
    """Return if this user has signed the request.

    Raises:
        AccessDeniedError: it has not.
    """
    if not is_signed(request.fields, request.body_view, user.password, request.version):
        raise AccessDeniedError(WRONG_SIGNATURE)


def require_super(request: Command, user: User) -> None:
    """Return if a request of PocketMQ's own comes from a user that may send it.

    Raises:
        AccessDeniedError: it is no super user.
    """
    if user.type is not UserType.SUPER:
        raise AccessDeniedError(
            f"only a super user may send request {request_name(request.code)}, but {user.subject} "
            "is not a super user"
        )


class OwnRequestsDoor:
    """The guard of a process without accounts: RocketMQ's requests pass, as RocketMQ has it.

    Args:
        users: By name.
        advice: What who is refused reads where there are no users, and nobody gets in.
    """

    def __init__(self, users: Mapping[str, User], advice: str = "") -> None:
        self._users = users
        self._advice = advice
        self._denials = Denials()

    def check(self, peer: Addressed, request: Command) -> None:
        """Return if the request may be processed.

        Raises:
            BadRequestError: it may not; with a broker's code and words.
        """
        # One comparison for nearly all requests: heartbeats and routes.
        if request.code not in OWN_CODES or request.code in OPEN_CODES:
            return
        try:
            if not self._users:
                raise AccessDeniedError(f"nobody may control this process: {self._advice}")
            name = named_by(request)
            user = admitted(name, self._users.get(name))
            check_signature(request, user)
            require_super(request, user)
        except AccessDeniedError as exc:
            self._denials.tell(peer.address, request.code, str(request), str(exc))
            raise BadRequestError(str(exc), code=ResponseCode.NO_PERMISSION) from exc
