"""Users and their rules, as brokers tell them: AUTH_GET_USER (3004), AUTH_GET_ACL (3009) (G-142).

They are asked with the proxy's own credentials, and answers are kept as all others: a change at a
broker counts here after 20 s.
"""

from __future__ import annotations

from pocketmq.operation.access.infos import policies_of, user_of
from pocketmq.operation.access.rules import Acl
from pocketmq.operation.access.users import User
from pocketmq.protocol.bodies.access import AclInfo, UserInfo
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.headers.access import GetAclRequestHeader, GetUserRequestHeader
from pocketmq.proxy.edge.brokers import Brokers
from pocketmq.proxy.edge.kept import Kept


class Accounts:
    """Who there is, and what they may do.

    Args:
        brokers: Whom to ask.
        max_name_chars: Of a user; brokers are not asked about a longer name, even if their own
            budget lets them have one.
    """

    def __init__(self, brokers: Brokers, max_name_chars: int) -> None:
        self._brokers = brokers
        self._max_name_chars = max_name_chars
        clock = brokers.instance.clock
        self._users: Kept[User | None] = Kept(clock, self._load_user)
        self._acls: Kept[Acl | None] = Kept(clock, self._load_acl)

    async def user(self, name: str) -> User | None:
        """The user of a name.

        Raises:
            PocketMQError: no broker tells it.
        """
        # A name of megabytes would go into a frame that brokers close the connection for, and all
        # clients share it.
        return None if len(name) > self._max_name_chars else await self._users.get(name)

    async def acl(self, user: User) -> Acl | None:
        """The rules of a user.

        Raises:
            PocketMQError: no broker tells them, or they make no sense.
        """
        return await self._acls.get(user.subject)

    async def _load_user(self, name: str) -> User | None:
        answer = await self._brokers.ask_any(GetUserRequestHeader(username=name), slaves=True)
        # An answer without a body says that there is no such user, and is kept too.
        if not answer.body_view:
            return None
        return user_of(decode_body(answer.body_view, UserInfo, answer.encoding))

    async def _load_acl(self, subject: str) -> Acl | None:
        answer = await self._brokers.ask_any(GetAclRequestHeader(subject=subject), slaves=True)
        if not answer.body_view:
            return None
        info = decode_body(answer.body_view, AclInfo, answer.encoding)
        return Acl(subject, tuple(policies_of(info.policies))) if info.policies else None
