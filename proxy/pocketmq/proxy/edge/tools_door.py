"""The door of the port for tools, where authentication is on: it is a super user's.

What is asked there are PocketMQ's own requests (clock, faults, state) and who is connected: brokers
answer the first to super users only, too. The proxy's own user is known here; of others brokers are
asked, and their answers kept, as for calls of SDKs (`accounts.py`).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from pocketmq.operation.access.decisions import AccessDeniedError, admitted
from pocketmq.operation.access.denials import Denials
from pocketmq.operation.access.own_requests import check_signature, named_by, require_super
from pocketmq.operation.access.users import User, UserType
from pocketmq.operation.membership.doors import PROOF
from pocketmq.protocol.budget import BudgetSource
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Dispatcher, Peer, Reply, error_reply
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.releases import Knows
from pocketmq.protocol.signing import Credentials
from pocketmq.proxy.edge.accounts import Accounts
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.tasks import TaskOwner

MOST_ASKED: Final = 100
"""Requests at once for which brokers are asked."""
MOST_OF_ONE: Final = 4
"""Those of one peer: who is not known yet may not take the places of all others."""


class ToolsDoor(Dispatcher):
    """Answers super users.

    Args:
        accounts: Tells who is one.
        own: The proxy's own user, which brokers take for one; None: it has none.
        tasks: Ask brokers.
        budget: As `Dispatcher`.
        knows: As `Dispatcher`.
    """

    def __init__(
        self,
        accounts: Accounts,
        own: Credentials | None,
        tasks: TaskOwner,
        budget: BudgetSource,
        knows: Knows,
    ) -> None:
        super().__init__(budget, knows)
        self._accounts = accounts
        self._own = None if own is None else User(own.access_key, own.secret_key, UserType.SUPER)
        self._tasks = tasks
        self._asked: Counter[Peer] = Counter()
        """For whose requests brokers are asked now; nobody else is in it."""
        self._denials = Denials()

    def process(self, peer: Peer, request: Command) -> Reply:
        # Who proves that it is a member has no user.
        if request.code in PROOF:
            return super().process(peer, request)
        try:
            name = named_by(request)
            # The cluster controls its proxies even while no broker can be asked.
            if self._own is not None and name == self._own.username:
                check_signature(request, self._own)
                return super().process(peer, request)
            # A nameless request costs brokers nothing.
            if not name:
                admitted(name, None)
            # Not any number of requests may wait for brokers.
            if self._asked[peer] >= MOST_OF_ONE or self._asked.total() >= MOST_ASKED:
                raise BadRequestError(
                    f"{self._asked.total()} requests are already waiting until brokers confirm "
                    f"their users ({self._asked[peer]} of this connection); try again later",
                    code=ResponseCode.SYSTEM_BUSY,
                )
        except (AccessDeniedError, BadRequestError) as exc:
            return self._refused(peer, request, exc)
        self._asked[peer] += 1
        self._tasks.start(self._ask(peer, request, name), name="check a tool's user")
        return None

    async def _ask(self, peer: Peer, request: Command, name: str) -> None:
        try:
            reply: Reply
            try:
                _check(request, name, await self._accounts.user(name))
            except AccessDeniedError as exc:
                reply = self._refused(peer, request, exc)
            except PocketMQError as exc:
                denied = AccessDeniedError(f"no broker tells who User:{name} is: {exc}")
                reply = self._refused(peer, request, denied)
            else:
                reply = super().process(peer, request)
            if reply is not None:
                peer.reply(request, reply)
        finally:
            self._asked[peer] -= 1
            # A count of 0 would keep the peer for ever.
            if not self._asked[peer]:
                del self._asked[peer]

    def _refused(self, peer: Peer, request: Command, exc: PocketMQError) -> Command:
        if isinstance(exc, AccessDeniedError):
            self._denials.tell(peer.address, request.code, str(request), str(exc))
            exc = BadRequestError(str(exc), code=ResponseCode.NO_PERMISSION)
        return error_reply(peer, request, exc)


def _check(request: Command, name: str, found: User | None) -> None:
    user = admitted(name, found)
    check_signature(request, user)
    require_super(request, user)
