"""`FaultyTcp`: real sockets on which fault rules can be set while the role runs.

It answers SET_FAULTS and GET_FAULTS at every port that it serves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from pocketmq.operation.faults.requests import FaultOrders, FaultReport, GetFaultsRequestHeader
from pocketmq.operation.faults.rule_book import RuleBook
from pocketmq.operation.faulty_network.fault_line import ChannelLine
from pocketmq.operation.faulty_network.stream_line import StreamLine
from pocketmq.protocol.body import decode_body, encode_body
from pocketmq.protocol.budget import BudgetSource, default_budget
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import VERSION_5_3_3, Command, Encoding
from pocketmq.protocol.dispatch import Dispatcher, Peer, Reply, handles
from pocketmq.protocol.errors import BadRequestError, ConnectError
from pocketmq.protocol.signing import Credentials
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.network import MakeProtocol, OnChannel
from pocketmq.protocol.transport.tcp import TcpListener, TcpNetwork, TcpStreams
from pocketmq.protocol.transport.tls.client_tls import ClientTls
from pocketmq.protocol.transport.tls.server_tls import ServerTls

_LOOPBACK = ("127.", "[::1]", "[::ffff:127.")


class FaultyTcp(TcpNetwork):
    """A `TcpNetwork` whose connections obey a rule book.

    Args:
        book: The role's rules; empty at first.
        server_tls: See `TcpNetwork`.
        client_tls: See `TcpNetwork`.
    """

    def __init__(
        self,
        book: RuleBook,
        *,
        server_tls: ServerTls | None = None,
        client_tls: ClientTls | None = None,
    ) -> None:
        super().__init__(server_tls=server_tls, client_tls=client_tls)
        self._book = book
        self._stream_ports: list[int] = []
        self._processor = FaultProcessor(book, self._stream_ports)

    async def serve(
        self,
        host: str,
        port: int,
        dispatcher: Dispatcher,
        *,
        version: int = VERSION_5_3_3,
        on_open: OnChannel | None = None,
        on_close: OnChannel | None = None,
    ) -> TcpListener:
        if RequestCode.SET_FAULTS not in dispatcher.single:  # one dispatcher may serve two ports
            dispatcher.add(self._processor)
        return await super().serve(
            host, port, dispatcher, version=version, on_open=on_open, on_close=on_close
        )

    async def connect(
        self,
        address: str,
        dispatcher: Dispatcher,
        *,
        encoding: Encoding = Encoding.MSGPACK,
        version: int = VERSION_5_3_3,
        timeout_s: float = 3.0,
        on_close: OnChannel | None = None,
        credentials: Credentials | None = None,
    ) -> Channel:
        # A partition refuses new connections too, at once and not after a time-out.
        self._check(address)
        return await super().connect(
            address,
            dispatcher,
            encoding=encoding,
            version=version,
            timeout_s=timeout_s,
            on_close=on_close,
            credentials=credentials,
        )

    def socket_protocol(self, channel: Channel, target: str) -> asyncio.Protocol:
        # Every connection has a line, as rules may come at any time.
        return ChannelLine(channel, self._book, target)

    async def listen(
        self,
        host: str,
        port: int,
        make: MakeProtocol,
        *,
        budget: BudgetSource = default_budget,
        tls: bool = False,
    ) -> TcpStreams:
        streams = await super().listen(host, port, make, budget=budget, tls=tls)
        # A port may be closed and listened on again.
        if streams.port not in self._stream_ports:
            self._stream_ports.append(streams.port)
        return streams

    async def dial(
        self,
        address: str,
        protocol: asyncio.Protocol,
        *,
        timeout_s: float = 3.0,
        tls: bool = False,
        to_member: bool = True,
    ) -> None:
        self._check(address)
        line = StreamLine(protocol, self._book, address)
        await super().dial(address, line, timeout_s=timeout_s, tls=tls, to_member=to_member)

    def _check(self, address: str) -> None:
        if address in self._book.cut_addresses:
            # Callers handle this error already: a cut network fails in the same way.
            raise ConnectError(address, "a fault rule cuts this process off from that address")


class FaultProcessor:
    """Sets the rules of a role, and tells which fired.

    Args:
        book: The rules.
        stream_ports: Where the role takes connections without remoting frames, as of now.
    """

    def __init__(self, book: RuleBook, stream_ports: Sequence[int] = ()) -> None:
        self._book = book
        self._stream_ports = stream_ports

    @handles(RequestCode.SET_FAULTS)
    def set_faults(self, peer: Peer, request: Command) -> Reply:
        """Take these rules in place of those before.

        Raises:
            BadRequestError: NO_PERMISSION (16) to a peer of another machine.
        """
        if not peer.address.startswith(_LOOPBACK):
            raise BadRequestError(
                "the faults of a role can be set only from the machine on which the role runs",
                code=ResponseCode.NO_PERMISSION,
            )
        orders = decode_body(request.body_view, FaultOrders, request.encoding)
        # Check all rules before any is set: a bad one changes nothing.
        rules = [each.checked() for each in orders.rules]
        # After the answer: a partition from clients would hold it back.
        asyncio.get_running_loop().call_soon(
            partial(
                self._book.replace,
                rules,
                orders.addresses,
                streams=orders.streams,
                role=orders.role,
            )
        )
        return request.reply()

    @handles(RequestCode.GET_FAULTS)
    def get_faults(self, _peer: Peer, request: Command) -> Reply:
        """How often each rule fired, and the firings after a number."""
        after = request.header(GetFaultsRequestHeader).after
        report = FaultReport(
            counts=self._book.counts(),
            firings=self._book.since(after),
            stream_ports=list(self._stream_ports),
        )
        return request.reply(body=encode_body(report, request.encoding))
