"""Who sent a request, and may it? RocketMQ's authentication and authorization (Y-42 to Y-45).

    authentication   AccessKey names a user that is there and enabled, and Signature is right
    authorization    the user is a super user, or its rules allow all that the request needs
    both             what is on a list of request codes passes

A refusal is NO_PERMISSION (16) with RocketMQ's words. Requests of PocketMQ's own (clock, faults,
status) need a super user where authentication is on: they can do more than any of RocketMQ's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pocketmq.broker.access.needs import needs_of
from pocketmq.broker.access.users import Accounts, AuthError
from pocketmq.operation.access.decisions import (
    FAILED,
    AccessDeniedError,
    admitted,
    require,
)
from pocketmq.operation.access.denials import Denials
from pocketmq.operation.access.own_requests import (
    OWN_CODES,
    check_signature,
    named_by,
    require_super,
)
from pocketmq.operation.access.users import UserType
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Addressed
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.header import to_text_value
from pocketmq.protocol.signing import ACCESS_KEY


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRules:
    """What is checked."""

    authentication: bool
    authorization: bool
    unauthenticated_codes: frozenset[int] = frozenset()
    unauthorized_codes: frozenset[int] = frozenset()
    cluster: str = ""
    longest_prefix_first: bool = True
    retry_sends_may_name_group: bool = False


class AccessGuard:
    """Checks requests before any processor gets them.

    Args:
        accounts: Users and their rules.
        rules: What is checked.
    """

    def __init__(self, accounts: Accounts, rules: AccessRules) -> None:
        self._accounts = accounts
        self._rules = rules
        self._denials = Denials()

    def check(self, peer: Addressed, request: Command) -> None:
        """Return if the request may be processed.

        Raises:
            AuthError: it may not.
        """
        rules, fields = self._rules, request.fields
        try:
            if rules.authentication and request.code not in rules.unauthenticated_codes:
                self._authenticate(request)
            if rules.authorization and request.code not in rules.unauthorized_codes:
                self._authorize(peer, request, fields)
        except AccessDeniedError as exc:
            self._denials.tell(peer.address, request.code, str(request), str(exc))
            raise AuthError(str(exc)) from exc

    def _authenticate(self, request: Command) -> None:
        name = named_by(request)
        user = admitted(name, self._accounts.users.get(name))
        check_signature(request, user)
        if request.code in OWN_CODES:
            require_super(request, user)

    def _authorize(self, peer: Addressed, request: Command, fields: Mapping[str, object]) -> None:
        if not fields:
            return  # as RocketMQ: what carries no field needs nothing
        try:
            needs = needs_of(
                request,
                fields,
                self._rules.cluster,
                retry_sends_may_name_group=self._rules.retry_sends_may_name_group,
            )
        except BadRequestError as exc:
            raise AccessDeniedError("parse authorization context error.") from exc
        if not needs:
            return
        name = fields.get(ACCESS_KEY)
        if name is None:
            raise AccessDeniedError(FAILED)
        name = to_text_value(name)
        user = self._accounts.users.get(name)
        if user is None:
            raise AccessDeniedError(f"User:{name} not found.")
        if user.type is UserType.SUPER:
            return
        source_ip = peer.address.rpartition(":")[0].strip("[]")
        # Many queues of one topic are one need; nearly every send has only one anyway.
        for need in dict.fromkeys(needs) if len(needs) > 1 else needs:
            require(
                user,
                self._accounts.acls.get(user.subject),
                need,
                source_ip,
                longest_prefix_first=self._rules.longest_prefix_first,
            )
