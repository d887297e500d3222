"""PocketMQ's own requests about proxies: they tell nameservers where they are, and others ask.

RocketMQ has no such codes: its proxies are known to nobody, and its nameservers answer these with
REQUEST_CODE_NOT_SUPPORTED.
"""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.body import BodyStruct, always
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.header import Header


class RegisterProxyRequestHeader(Header, kw_only=True):
    """REGISTER_PROXY: a proxy gives its address, every 10 s while it runs."""

    CODE: ClassVar[int] = RequestCode.REGISTER_PROXY

    name: str
    endpoints: str
    """`host:port` for SDKs."""
    address: str
    """`host:port` for requests of tools."""
    ends: bool | None = None
    """It stops, and is to be forgotten."""


class ProxyAddress(BodyStruct, kw_only=True):
    """One proxy of a cluster."""

    name: str = ""
    endpoints: str = ""
    address: str = ""


class ProxyList(BodyStruct, kw_only=True):
    """The answer to GET_PROXIES, the one heard of last at the beginning."""

    proxies: list[ProxyAddress] = always(list)


class GetProxiesRequestHeader(Header, kw_only=True):
    """GET_PROXIES: which proxies are in front of the cluster."""

    CODE: ClassVar[int] = RequestCode.GET_PROXIES
    RESPONSE_BODY = ProxyList
