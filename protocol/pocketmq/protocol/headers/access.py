"""Requests about users and what they may do: ACL 2.0 (Y-46)."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.bodies.access import AclInfo, UserInfo
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.header import Header


class CreateUserRequestHeader(Header, kw_only=True):
    """AUTH_CREATE_USER (3001)."""

    CODE: ClassVar[int] = RequestCode.AUTH_CREATE_USER
    BODY = UserInfo

    username: str = ""
    """It counts, and not the one in the body."""


class UpdateUserRequestHeader(Header, kw_only=True):
    """AUTH_UPDATE_USER (3002): what the body has is changed."""

    CODE: ClassVar[int] = RequestCode.AUTH_UPDATE_USER
    BODY = UserInfo

    username: str = ""


class DeleteUserRequestHeader(Header, kw_only=True):
    """AUTH_DELETE_USER (3003): with its rules."""

    CODE: ClassVar[int] = RequestCode.AUTH_DELETE_USER

    username: str = ""


class GetUserRequestHeader(Header, kw_only=True):
    """AUTH_GET_USER (3004): no body answers where there is none."""

    CODE: ClassVar[int] = RequestCode.AUTH_GET_USER
    RESPONSE_BODY = UserInfo

    username: str = ""


class ListUsersRequestHeader(Header, kw_only=True):
    """AUTH_LIST_USER (3005): the body is an array of `UserInfo`, or absent if there is none."""

    CODE: ClassVar[int] = RequestCode.AUTH_LIST_USER

    filter: str | None = None
    """A part of their names."""


class CreateAclRequestHeader(Header, kw_only=True):
    """AUTH_CREATE_ACL (3006): rules are added to those that the subject has."""

    CODE: ClassVar[int] = RequestCode.AUTH_CREATE_ACL
    BODY = AclInfo

    subject: str
    """`User:name`, where the body does not say it."""


class UpdateAclRequestHeader(Header, kw_only=True):
    """AUTH_UPDATE_ACL (3007): the same as 3006."""

    CODE: ClassVar[int] = RequestCode.AUTH_UPDATE_ACL
    BODY = AclInfo

    subject: str


class DeleteAclRequestHeader(Header, kw_only=True):
    """AUTH_DELETE_ACL (3008): one rule, or all."""

    CODE: ClassVar[int] = RequestCode.AUTH_DELETE_ACL

    subject: str = ""
    policy_type: str | None = None
    """`Custom` if absent."""
    resource: str | None = None
    """What the rule is about; all rules go if absent."""


class GetAclRequestHeader(Header, kw_only=True):
    """AUTH_GET_ACL (3009): no body answers where the user has no rules."""

    CODE: ClassVar[int] = RequestCode.AUTH_GET_ACL
    RESPONSE_BODY = AclInfo

    subject: str


class ListAclsRequestHeader(Header, kw_only=True):
    """AUTH_LIST_ACL (3010): the body is an array of `AclInfo`, or absent if there is none."""

    CODE: ClassVar[int] = RequestCode.AUTH_LIST_ACL

    subject_filter: str | None = None
    """A part of `User:name`."""
    resource_filter: str | None = None
    """A part of `Topic:name`."""
