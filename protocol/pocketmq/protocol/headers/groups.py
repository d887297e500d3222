"""Subscription groups (E-29)."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.bodies.groups import (
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupWrapper,
)
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.header import Header


class UpdateSubscriptionGroupRequestHeader(Header, kw_only=True):
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200)."""

    CODE: ClassVar[int] = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    BODY = SubscriptionGroupConfig


class UpdateSubscriptionGroupListRequestHeader(Header, kw_only=True):
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST (225)."""

    CODE: ClassVar[int] = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
    BODY = SubscriptionGroupList


class GetAllSubscriptionGroupsRequestHeader(Header, kw_only=True):
    """GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201)."""

    CODE: ClassVar[int] = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    RESPONSE_BODY = SubscriptionGroupWrapper


class GetSubscriptionGroupRequestHeader(Header, kw_only=True):
    """GET_SUBSCRIPTIONGROUP_CONFIG (352)."""

    CODE: ClassVar[int] = RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG
    RESPONSE_BODY = SubscriptionGroupConfig

    group: str


class DeleteSubscriptionGroupRequestHeader(Header, kw_only=True):
    """DELETE_SUBSCRIPTIONGROUP (207, M-15)."""

    CODE: ClassVar[int] = RequestCode.DELETE_SUBSCRIPTIONGROUP

    group_name: str
    clean_offset: bool = False
    """As 5.x calls it."""
    remove_offset: bool | None = None
    """The same as 4.9 calls it. Neither looks at the other's, so a client may send both."""
