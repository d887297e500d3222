"""REGISTER_PROXY (30009), GET_PROXIES (30010): PocketMQ's own, see `proxies.py`."""

from __future__ import annotations

from pocketmq.nameserver.proxies import KnownProxies
from pocketmq.operation.grpc_ports.requests import (
    ProxyAddress,
    ProxyList,
    RegisterProxyRequestHeader,
)
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.errors import BadRequestError
from pocketmq.runtime.addresses import split_address
from pocketmq.runtime.clock import Clock

_LONGEST = 255
"""Characters of a proxy's name and addresses."""


class ProxyProcessor:
    """Keeps and tells where proxies are.

    Args:
        proxies: The table.
        clock: Measures how long they are silent.
    """

    def __init__(self, proxies: KnownProxies, clock: Clock) -> None:
        self._proxies = proxies
        self._clock = clock

    @handles(RequestCode.REGISTER_PROXY)
    def register(self, _peer: Peer, request: Command) -> Reply:
        """A proxy is there, or stops."""
        header = request.header(RegisterProxyRequestHeader)
        if max(len(header.name), len(header.endpoints), len(header.address)) > _LONGEST:
            raise BadRequestError(
                f"the name and each address of a proxy may have at most {_LONGEST} characters"
            )
        try:
            # Clients get both addresses as they are, so unreadable ones are refused here.
            for each in (header.endpoints, header.address):
                split_address(each)
        except ValueError as exc:
            raise BadRequestError(str(exc)) from exc
        # A proxy that stops says so; one that has died expires.
        if header.ends:
            self._proxies.forget(header.endpoints)
        else:
            self._proxies.heard(
                ProxyAddress(name=header.name, endpoints=header.endpoints, address=header.address),
                self._clock.monotonic(),
            )
        return request.reply()

    @handles(RequestCode.GET_PROXIES)
    def get(self, _peer: Peer, request: Command) -> Reply:
        """Those that were heard of."""
        body = ProxyList(proxies=self._proxies.alive(self._clock.monotonic()))
        return request.reply(body=encode_body(body, request.encoding))
