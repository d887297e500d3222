"""`RemotingClient`: one channel per address, opened on first use and shared by all callers."""

from __future__ import annotations

import asyncio

import msgspec

from pocketmq.protocol.command import VERSION_5_3_3, Body, Command, Encoding
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.errors import BrokerError, ConnectError
from pocketmq.protocol.header import Header
from pocketmq.protocol.signing import Credentials
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.network import Network, OnChannel


class RemotingClient:
    """Sends requests to addresses, signed where it has credentials (Y-10).

    Requests that peers send back go to `dispatcher`.
    """

    def __init__(
        self,
        network: Network,
        dispatcher: Dispatcher | None = None,
        *,
        encoding: Encoding = Encoding.MSGPACK,
        version: int = VERSION_5_3_3,
        connect_timeout_s: float = 3.0,
        on_close: OnChannel | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.dispatcher = dispatcher or Dispatcher()
        self.encoding = encoding
        self._network = network
        self._version = version
        self._connect_timeout_s = connect_timeout_s
        self._on_close = on_close
        self._channels: dict[str, Channel] = {}
        self._opening: dict[str, asyncio.Task[Channel]] = {}
        self._credentials = credentials
        self._closed = False

    def open_channel(self, address: str) -> Channel | None:
        """The channel to an address if it is open right now; never connects."""
        channel = self._channels.get(address)
        return channel if channel is not None and channel.is_open else None

    async def channel(self, address: str) -> Channel:
        """The open channel to an address; concurrent callers share one attempt.

        Raises:
            ConnectError: nobody answers there, or this client was closed.
        """
        channel = self._channels.get(address)
        if channel is not None and channel.is_open:
            return channel
        if self._closed:
            raise ConnectError(address, "this client is closed")
        opening = self._opening.get(address)
        if opening is None:
            opening = asyncio.get_running_loop().create_task(
                self._open(address), name=f"connect {address}"
            )
            self._opening[address] = opening
            opening.add_done_callback(lambda task: self._opened(address, task))
        # Shielded: other callers may wait for the same attempt.
        return await asyncio.shield(opening)

    async def call(
        self,
        address: str,
        header: Header,
        body: Body | msgspec.Struct = b"",
        *,
        code: int | None = None,
        timeout_s: float = 3.0,
    ) -> Command:
        """Send a request and return the response, whatever its code.

        Raises:
            ConnectError, ConnectionLostError, RequestTimeoutError: see there.
        """
        # Most calls find an open channel and need no task.
        channel = self._channels.get(address)
        if channel is None or not channel.is_open:
            channel = await self.channel(address)
        return await channel.request(header, body, code=code, timeout_s=timeout_s)

    async def oneway(self, address: str, header: Header, body: Body | msgspec.Struct = b"") -> None:
        """Send a request that wants no answer; raises `ConnectError` only."""
        (await self.channel(address)).oneway(header, body)

    def drop(self, address: str) -> None:
        """Close the channel to an address that is not needed any more."""
        channel = self._channels.pop(address, None)
        if channel is not None:
            channel.close()

    async def close(self) -> None:
        """Close every channel and wait until they have ended."""
        self._closed = True
        for task in list(self._opening.values()):
            task.cancel()
        channels = list(self._channels.values())
        self._channels.clear()
        for channel in channels:
            channel.close()
        if channels:
            _, slow = await asyncio.wait([channel.closed for channel in channels], timeout=1.0)
            # Channels that do not close within a second are aborted.
            if slow:
                for channel in channels:
                    channel.abort()

    async def _open(self, address: str) -> Channel:
        return await self._network.connect(
            address,
            self.dispatcher,
            encoding=self.encoding,
            version=self._version,
            timeout_s=self._connect_timeout_s,
            on_close=self._on_close,
            credentials=self._credentials,
        )

    def _opened(self, address: str, task: asyncio.Task[Channel]) -> None:
        del self._opening[address]
        if task.cancelled() or task.exception() is not None:
            return  # whoever awaits the task gets the error
        channel = task.result()
        if self._closed:
            channel.close()
        elif not channel.closed.done():
            # A channel that has ended already would never be removed.
            self._channels[address] = channel
            channel.add_close_listener(lambda ended: self._forget(address, ended))

    def _forget(self, address: str, ended: Channel) -> None:
        """An address that is never asked again leaves nothing behind."""
        # Another channel of the same address may be there already.
        if self._channels.get(address) is ended:
            del self._channels[address]


def expect(response: Command, *codes: int) -> Command:
    """The response, if its code is 0 or one of `codes`.

    Raises:
        BrokerError: any other code, with the peer's remark.
    """
    if response.code == 0 or response.code in codes:
        return response
    raise BrokerError(response.code, response.remark or "")
