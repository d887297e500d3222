"""A port over which the clock of a client process is moved, and its events are read.

Clients have no other port; one that runs on the real clock and tells no events has none.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from pocketmq.client.config import network_of
from pocketmq.cluster.control import announce, withdraw
from pocketmq.operation.control.processor import ControlProcessor
from pocketmq.operation.events.sink import NO_EVENTS, EventSink
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.manual_time.manual_clock import ManualClock


@asynccontextmanager
async def control_port(
    name: str,
    clock: Clock,
    status: Callable[[], Mapping[str, str]],
    *,
    announce_to: Sequence[str] = (),
    events: EventSink = NO_EVENTS,
) -> AsyncIterator[int]:
    """Answer GET_CLOCK, MOVE_CLOCK, ROLE_STATUS and GET_EVENTS; yields the port, 0 without one.

    Args:
        name: Name under which the port is announced.
        clock: The clock of this process.
        status: Returns the answer to ROLE_STATUS.
        announce_to: Nameservers to announce the port to, for `pocketmq clock advance`.
        events: Those of the client, which are read over the port.
    """
    # Otherwise nobody would use the port, which costs a listener and entries at the nameservers.
    if not (isinstance(clock, ManualClock) or events.is_on):
        yield 0
        return
    network = TcpNetwork()
    control = ControlProcessor(clock, status, events)
    dispatcher = Dispatcher()
    dispatcher.add(control)
    # Only for this machine, as whoever reaches the port can move the clock.
    listener = await network.serve("127.0.0.1", 0, dispatcher)
    remoting = RemotingClient(network_of(os.environ))
    try:
        await announce(name, f"127.0.0.1:{listener.port}", announce_to, remoting)
        yield listener.port
    finally:
        # Withdrawn first, so that nobody finds an address where nothing listens.
        await withdraw(name, announce_to, remoting)
        await remoting.close()
        await control.stop()
        await listener.close()
