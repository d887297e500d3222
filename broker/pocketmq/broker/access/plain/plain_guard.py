"""Checks requests by ACL 1.0, in RocketMQ's order (Y-22).

A refusal is SYSTEM_ERROR (1) with the text of RocketMQ's exception (Y-24).
"""

from __future__ import annotations

from typing import Final

from pocketmq.broker.access.plain.accounts import (
    ACCOUNT_CODES,
    TRACE_TOPIC,
    Perm,
    PlainAcl,
    PlainAclError,
)
from pocketmq.broker.access.plain.needs import plain_needs
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.operation.access.denials import Denials
from pocketmq.operation.access.own_requests import OWN_CODES
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Addressed
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.header import to_text_value
from pocketmq.protocol.signing import ACCESS_KEY, is_signed

_OLDEST: Final = 1
"""A version whose clients sign no query flag: servers of 4.9 leave it out always (Y-11)."""


class PlainRefusedError(RequestRefusedError):
    """RocketMQ's AclException."""

    def __init__(self, message: str) -> None:
        super().__init__(
            ResponseCode.SYSTEM_ERROR,
            f"org.apache.rocketmq.acl.common.AclException: {message}, "
            "org.apache.rocketmq.acl.plain.PlainPermissionManager.validate"
            "(PlainPermissionManager.java)",
        )


class PlainGuard:
    """Checks requests before any processor gets them."""

    def __init__(self) -> None:
        self.acl = PlainAcl()
        """What the files say now."""
        self._denials = Denials()

    def use(self, acl: PlainAcl) -> None:
        """Check by these accounts from now on."""
        self.acl = acl

    def check(self, peer: Addressed, request: Command) -> None:
        """Return if the request may be processed.

        Raises:
            PlainRefusedError: It may not.
        """
        try:
            self._check(peer, request)
        except (PlainAclError, BadRequestError) as exc:
            self._denials.tell(peer.address, request.code, str(request), str(exc))
            raise PlainRefusedError(str(exc)) from exc

    def _check(self, peer: Addressed, request: Command) -> None:
        fields = request.fields
        needs = plain_needs(request, fields)  # what cannot be read is refused to everybody
        address = peer.address.rpartition(":")[0].strip("[]")
        is_own = request.code in OWN_CODES
        # White addresses are trusted with what RocketMQ has, and not with PocketMQ's clock and
        # faults, which no application sends.
        if not is_own and any(each(address) for each in self.acl.white):
            return
        key = fields.get(ACCESS_KEY)
        if key is None:
            raise PlainAclError("No accessKey is configured")
        name = to_text_value(key)
        account = self.acl.accounts.get(name)
        if account is None:
            raise PlainAclError(f"No acl config for {name}")
        # A request from one of the account's own addresses skips all checks. Changes of accounts
        # are excepted, unless the account is an admin: it could otherwise make itself one.
        is_for_admins = is_own or (request.code in ACCOUNT_CODES and not account.is_admin)
        if not is_for_admins and account.is_white(address):
            return
        if not is_signed(fields, request.body_view, account.secret_key, _OLDEST):
            raise PlainAclError(f"Check signature failed for accessKey={name}")
        if is_own and not account.is_admin:
            raise PlainAclError(
                f"Need admin permission for request code={request.code}, but accessKey={name} "
                "is not"
            )
        if needs.get(TRACE_TOPIC) == Perm.PUB:
            return
        account.check(request.code, needs)
