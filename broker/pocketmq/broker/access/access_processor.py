"""The ten requests about users and rules: AUTH_CREATE_USER (3001) to AUTH_LIST_ACL (3010) (Y-46).

Answers are RocketMQ's, its codes and words. An answer comes when the change is in the file.
"""

from __future__ import annotations

import msgspec

from pocketmq.broker.access.users import Accounts, AuthError
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.tables.saved_tables import SavedTable
from pocketmq.operation.access.infos import BadRuleError, info_of, info_of_rules, policies_of
from pocketmq.operation.access.resources import Resource
from pocketmq.operation.access.rules import PolicyType, named
from pocketmq.operation.access.users import User, UserStatus, UserType
from pocketmq.protocol.bodies.access import AclInfo, UserInfo
from pocketmq.protocol.body import decode_request_body, encode_body
from pocketmq.protocol.budget import BudgetSource
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.header import to_text_value
from pocketmq.protocol.headers.access import (
    CreateAclRequestHeader,
    CreateUserRequestHeader,
    DeleteAclRequestHeader,
    DeleteUserRequestHeader,
    GetAclRequestHeader,
    GetUserRequestHeader,
    ListAclsRequestHeader,
    ListUsersRequestHeader,
    UpdateUserRequestHeader,
)
from pocketmq.protocol.signing import ACCESS_KEY

_UNKNOWN_SUBJECT = "An system error occurred, please try again later."


class AccessProcessor:
    """Answers them.

    Args:
        accounts: Users and their rules.
        saved: Their file.
        budget: How many there may be, and how long their names.
    """

    def __init__(self, accounts: Accounts, saved: SavedTable, budget: BudgetSource) -> None:
        self._accounts = accounts
        self._saved = saved
        self._budget = budget

    # -- users ----------------------------------------------------------------------------------

    @handles(RequestCode.AUTH_CREATE_USER)
    def create_user(self, peer: Peer, request: Command) -> Reply:
        """Make a user, normal and enabled unless the body says otherwise."""
        username = request.header(CreateUserRequestHeader).username
        _require_name(username)
        body = decode_request_body(request, UserInfo)
        kind = named(UserType, body.user_type) or UserType.NORMAL
        if kind is UserType.SUPER and self._is_not_super(request):
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR, "The super user can only be create by super user"
            )
        status = named(UserStatus, body.user_status) or UserStatus.ENABLE
        self._check_length("the user's name", username)
        self._check_length("the password", body.password)
        count = len(self._accounts.users) + (username not in self._accounts.users)
        self._budget().check("users", count, "users", advice="delete some, or raise it")
        self._accounts.create(User(username, body.password or "", kind, status))
        return self._when_saved(peer, request)

    @handles(RequestCode.AUTH_UPDATE_USER)
    def update_user(self, peer: Peer, request: Command) -> Reply:
        """Change the password, type or status of a user."""
        username = request.header(UpdateUserRequestHeader).username
        _require_name(username)
        body = decode_request_body(request, UserInfo)
        kind = named(UserType, body.user_type)
        only_super = "The super user can only be update by super user"
        if kind is UserType.SUPER and self._is_not_super(request):
            raise RequestRefusedError(ResponseCode.SYSTEM_ERROR, only_super)
        old = self._accounts.users.get(username)
        if old is not None and old.type is UserType.SUPER and self._is_not_super(request):
            raise AuthError(only_super)
        self._check_length("the password", body.password)
        self._accounts.update(
            username,
            password=body.password,
            kind=kind,
            status=named(UserStatus, body.user_status),
        )
        return self._when_saved(peer, request)

    @handles(RequestCode.AUTH_DELETE_USER)
    def delete_user(self, peer: Peer, request: Command) -> Reply:
        """Delete a user and its rules; SUCCESS (0) where there is none."""
        username = request.header(DeleteUserRequestHeader).username
        if not username.strip():
            raise AuthError("username can not be blank")
        old = self._accounts.users.get(username)
        if old is not None and old.type is UserType.SUPER and self._is_not_super(request):
            raise AuthError("The super user can only be update by super user")
        self._accounts.delete(username)
        return self._when_saved(peer, request)

    @handles(RequestCode.AUTH_GET_USER)
    def user(self, _peer: Peer, request: Command) -> Reply:
        """One user."""
        username = request.header(GetUserRequestHeader).username
        _require_name(username.strip())
        found = self._accounts.users.get(username)
        return request.reply(
            body=b"" if found is None else encode_body(info_of(found), request.encoding)
        )

    @handles(RequestCode.AUTH_LIST_USER)
    def users(self, _peer: Peer, request: Command) -> Reply:
        """All users, or those with a text in their names."""
        header = request.header(ListUsersRequestHeader)
        return _listed(request, [info_of(each) for each in self._accounts.matching(header.filter)])

    # -- rules ----------------------------------------------------------------------------------

    @handles(RequestCode.AUTH_CREATE_ACL, RequestCode.AUTH_UPDATE_ACL)
    def grant(self, peer: Peer, request: Command) -> Reply:
        """Add rules to a subject; the two requests do the same."""
        header = request.header(CreateAclRequestHeader)
        body = decode_request_body(request, AclInfo)
        if not body.policies:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR, "AuthorizationException: The body of acl is null"
            )
        subject = _subject(body.subject or header.subject)
        try:
            policies = policies_of(body.policies)
        except BadRuleError as exc:
            raise AuthError(str(exc)) from exc
        for each in (entry for policy in policies for entry in policy.entries):
            self._check_length("a resource", each.resource.name)
        acl = self._accounts.granted(subject, policies)
        self._budget().check(
            "rules_per_user", acl.count, f"rules of {subject}", advice="delete some, or raise it"
        )
        self._accounts.keep(acl)
        return self._when_saved(peer, request)

    @handles(RequestCode.AUTH_DELETE_ACL)
    def revoke(self, peer: Peer, request: Command) -> Reply:
        """Take one rule of a subject, or all."""
        header = request.header(DeleteAclRequestHeader)
        if _kind_of(header.subject) != "user":
            raise AuthError("The subject is null.")
        self._accounts.revoke(
            _subject(header.subject),
            named(PolicyType, header.policy_type) or PolicyType.CUSTOM,
            Resource.parse(header.resource),
        )
        return self._when_saved(peer, request)

    @handles(RequestCode.AUTH_GET_ACL)
    def rules(self, _peer: Peer, request: Command) -> Reply:
        """All rules of a subject."""
        found = self._accounts.rules_of(_subject(request.header(GetAclRequestHeader).subject))
        return request.reply(
            body=b"" if found is None else encode_body(info_of_rules(found), request.encoding)
        )

    @handles(RequestCode.AUTH_LIST_ACL)
    def all_rules(self, _peer: Peer, request: Command) -> Reply:
        """The rules of all subjects, or those with texts in the names of subject and resource."""
        header = request.header(ListAclsRequestHeader)
        found = self._accounts.rules_matching(header.subject_filter, header.resource_filter)
        return _listed(request, [info_of_rules(each) for each in found])

    # -- inside ---------------------------------------------------------------------------------

    def _check_length(self, whose: str, text: str | None) -> None:
        self._budget().check("name_chars", len(text or ""), f"characters of {whose}")

    def _is_not_super(self, request: Command) -> bool:
        """Whether the sender names a user, and that is no super user (Y-46)."""
        name = to_text_value(request.fields.get(ACCESS_KEY) or "")
        if not name:
            return False
        user = self._accounts.users.get(name)
        return user is None or user.type is not UserType.SUPER

    def _when_saved(self, peer: Peer, request: Command) -> Reply:
        reply = request.reply()
        if self._saved.is_saved:
            return reply
        self._saved.when_saved(lambda: peer.reply(request, reply))
        return None


def _require_name(username: str) -> None:
    if not username:
        raise RequestRefusedError(ResponseCode.INVALID_PARAMETER, "The username is blank")


def _kind_of(subject: str) -> str:
    return subject.partition(":")[0].lower()


def _subject(text: str) -> str:
    """`User:name`, whatever the case of `User`."""
    if _kind_of(text) != "user":
        raise RequestRefusedError(ResponseCode.SYSTEM_ERROR, _UNKNOWN_SUBJECT)
    return f"User:{text.partition(':')[2]}"


def _listed(request: Command, infos: list[UserInfo] | list[AclInfo]) -> Command:
    """An array, or no body at all if there is none."""
    if not infos:
        return request.reply()
    is_msgpack = request.encoding is Encoding.MSGPACK
    encode = msgspec.msgpack.encode if is_msgpack else msgspec.json.encode
    return request.reply(body=encode(infos))
