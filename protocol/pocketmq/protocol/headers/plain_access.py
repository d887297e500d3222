"""Requests about the accounts of ACL 1.0, which RocketMQ has up to 5.3.2 (Y-25)."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.header import Header


class CreateAccessConfigRequestHeader(Header, kw_only=True):
    """UPDATE_AND_CREATE_ACL_CONFIG (50): what is absent stays as it was; `admin` is always set."""

    CODE: ClassVar[int] = RequestCode.UPDATE_AND_CREATE_ACL_CONFIG

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    """Addresses from which the account needs no signature."""
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    """`topicA=DENY,topicD=SUB`."""
    group_perms: str | None = None


class DeleteAccessConfigRequestHeader(Header, kw_only=True):
    """DELETE_ACL_CONFIG (51)."""

    CODE: ClassVar[int] = RequestCode.DELETE_ACL_CONFIG

    access_key: str


class GetBrokerAclConfigResponseHeader(Header, kw_only=True):
    """Versions of a broker's files."""

    version: str
    """Of the default file, as JSON: `{"counter":1,"timestamp":1690000000000}`."""
    all_acl_file_version: str | None = None
    """Of each file by its path, as JSON."""
    broker_name: str
    broker_addr: str
    cluster_name: str


class GetBrokerAclInfoRequestHeader(Header, kw_only=True):
    """GET_BROKER_CLUSTER_ACL_INFO (52)."""

    CODE: ClassVar[int] = RequestCode.GET_BROKER_CLUSTER_ACL_INFO
    RESPONSE = GetBrokerAclConfigResponseHeader


class UpdateGlobalWhiteAddrsConfigRequestHeader(Header, kw_only=True):
    """UPDATE_GLOBAL_WHITE_ADDRS_CONFIG (53)."""

    CODE: ClassVar[int] = RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG

    global_white_addrs: str | None = None
    """Patterns, separated by commas; they replace those of the file."""
    acl_file_full_path: str | None = None
    """The default file if absent."""
