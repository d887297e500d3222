"""Whether a user may: the decisions of RocketMQ's brokers and proxies, and their words."""

from __future__ import annotations

from typing import Final

from pocketmq.operation.access.rules import Acl, Need, decide
from pocketmq.operation.access.users import User, UserStatus
from pocketmq.runtime.errors import CallerError

WRONG_SIGNATURE: Final = "check signature failed."

FAILED: Final = "Authorization failed. Please verify your access rights and try again."
"""In place of whatever goes wrong while rights are looked at."""


class AccessDeniedError(CallerError):
    """A user that is none, or has no right; the message is RocketMQ's."""


def admitted(name: str, user: User | None) -> User:
    """The user that a request names, whose signature is still to be checked (Y-42).

    Args:
        name: As the request has it.
        user: Of that name, if there is one.

    Raises:
        AccessDeniedError: nobody is let in under that name.
    """
    # RocketMQ checks in this order, and with these words.
    if not name:
        raise AccessDeniedError("username cannot be null.")
    if user is None:
        raise AccessDeniedError(f"User:{name} is not found.")
    if user.status is UserStatus.DISABLE:
        raise AccessDeniedError(f"User:{name} is disabled.")
    return user


def require(
    user: User, acl: Acl | None, need: Need, source_ip: str | None, *, longest_prefix_first: bool
) -> None:
    """Return if the rules of a normal user allow one thing that its request needs (Y-45).

    Args:
        user: Who asks.
        acl: Its rules.
        need: One of what the request needs.
        source_ip: The client's address, without the port; None: it is not known.
        longest_prefix_first: See `decide`.

    Raises:
        AccessDeniedError: they do not.
    """
    try:
        verdict = decide(acl, need, source_ip, longest_prefix_first=longest_prefix_first)
    except ValueError as exc:  # a rule has a network, and the client no address
        # Deny what cannot be decided, and do not reveal the rule's text.
        raise AccessDeniedError(FAILED) from exc
    if not verdict.is_allowed:
        where = "an unknown address" if source_ip is None else source_ip
        raise AccessDeniedError(
            f"{user.subject} has no permission to access {need.resource.key} from {where}, "
            f"{verdict.reason}"
        )
