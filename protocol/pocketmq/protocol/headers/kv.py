"""The nameserver's key-value configuration (E-31, N-33)."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.bodies.route import KVTable
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.header import Header


class PutKvConfigRequestHeader(Header, kw_only=True):
    """PUT_KV_CONFIG (100)."""

    CODE: ClassVar[int] = RequestCode.PUT_KV_CONFIG

    namespace: str
    key: str
    value: str


class GetKvConfigResponseHeader(Header, kw_only=True):
    """The value, if the key is known."""

    value: str | None = None


class GetKvConfigRequestHeader(Header, kw_only=True):
    """GET_KV_CONFIG (101)."""

    CODE: ClassVar[int] = RequestCode.GET_KV_CONFIG
    RESPONSE = GetKvConfigResponseHeader

    namespace: str
    key: str


class DeleteKvConfigRequestHeader(Header, kw_only=True):
    """DELETE_KV_CONFIG (102)."""

    CODE: ClassVar[int] = RequestCode.DELETE_KV_CONFIG

    namespace: str
    key: str


class GetKvListRequestHeader(Header, kw_only=True):
    """GET_KVLIST_BY_NAMESPACE (219)."""

    CODE: ClassVar[int] = RequestCode.GET_KVLIST_BY_NAMESPACE
    RESPONSE_BODY = KVTable

    namespace: str
