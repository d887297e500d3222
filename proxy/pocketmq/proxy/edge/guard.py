"""Who calls, and may it? Checked before an RPC is answered, as RocketMQ's proxy does (G-140).

    authentication   `authorization` names a user that is there and enabled, and signs the date
    authorization    that user is a super user, or its rules allow all that the request needs
    both             a request on a list of names passes

What the proxy asks brokers it signs with its own credentials, for which they check nothing more:
so a client has the rights that are checked here, and no others.

A refusal is UNAUTHORIZED (40100) with RocketMQ's words. It takes the user from
`x-mq-authorization-ak`, where a client sends that header, and so lets anybody have the rights of
others; here a client has the rights of the user that it has signed as.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pocketmq.operation.access.decisions import FAILED, AccessDeniedError, admitted, require
from pocketmq.operation.access.denials import Denials
from pocketmq.operation.access.rules import Acl
from pocketmq.operation.access.users import User, UserType
from pocketmq.proxy.access.claims import Claim
from pocketmq.proxy.access.needs import needs_of
from pocketmq.proxy.codes.refusals import Refusal
from pocketmq.proxy.edge.accounts import Accounts
from pocketmq.proxy.edge.callers import headers_of, peer_address, source_of
from pocketmq.proxy.protos.enums import Code
from pocketmq.runtime.errors import PocketMQError

_NOT_AUTHENTICATED: Final = "Authentication failed. Please verify the credentials and try again."
"""In place of whatever went wrong while a broker was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRules:
    """What is checked."""

    authentication: bool = False
    authorization: bool = False
    unauthenticated: frozenset[str] = frozenset()
    """Requests, as `apache.rocketmq.v2.QueryRouteRequest`."""
    unauthorized: frozenset[str] = frozenset()
    longest_prefix_first: bool = True


class Guard:
    """Checks RPCs.

    Args:
        rules: What is checked.
        accounts: Users and their rules.
    """

    def __init__(self, rules: AccessRules, accounts: Accounts) -> None:
        self._rules = rules
        self._accounts = accounts
        self._denials = Denials()

    async def check(self, context: Any, request: Any) -> None:
        """Return if a request may be answered.

        Args:
            context: gRPC's, of the call.
            request: Of it, or a command of Telemetry.

        Raises:
            Refusal: UNAUTHORIZED.
        """
        rules = self._rules
        if not rules.authentication and not rules.authorization:
            return
        name, peer = request.DESCRIPTOR.full_name, peer_address(context.peer())
        try:
            username = ""
            if rules.authentication:
                # Also for requests on the list: authorization needs the name.
                claim = Claim.of(headers_of(context))
                username = claim.username
                # could be better: for a request on the list, authorization believes a name that is
                # not signed, as RocketMQ's two lists allow.
                if name not in rules.unauthenticated:
                    await self._authenticate(claim)
            if rules.authorization:
                await self._authorize(username, request, source_of(context.peer()))
        except AccessDeniedError as exc:
            # The log names a broker's fault, which the caller must not learn.
            reason = str(exc) if exc.__cause__ is None else f"{exc} {exc.__cause__}"
            self._denials.tell(peer, name, name, reason)
            raise Refusal(Code.UNAUTHORIZED, str(exc)) from exc

    async def _authenticate(self, claim: Claim) -> None:
        user: User | None = None
        if claim.username:
            user = await self._user(claim.username, _NOT_AUTHENTICATED)
        claim.check(admitted(claim.username, user).password)

    async def _authorize(self, username: str, request: Any, source_ip: str | None) -> None:
        needs = needs_of(request)
        # A call that needs no right may come without a name.
        if not needs or request.DESCRIPTOR.full_name in self._rules.unauthorized:
            return
        if not username:
            raise AccessDeniedError(FAILED)
        user = await self._user(username, FAILED)
        if user is None:
            raise AccessDeniedError(f"User:{username} not found.")
        if user.type is UserType.SUPER:
            return
        acl = await self._acl(user)
        for need in needs:
            require(
                user, acl, need, source_ip, longest_prefix_first=self._rules.longest_prefix_first
            )

    async def _user(self, name: str, or_else: str) -> User | None:
        try:
            return await self._accounts.user(name)
        except PocketMQError as exc:
            raise AccessDeniedError(or_else) from exc

    async def _acl(self, user: User) -> Acl | None:
        try:
            return await self._accounts.acl(user)
        except PocketMQError as exc:
            # Deny while brokers are away: nobody may get in unchecked.
            raise AccessDeniedError(FAILED) from exc
