"""A port for the clock of a client process: clients listen nowhere else.

Only a process that was started with `--clock manual` has one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from pocketmq.cluster.control import announce, withdraw
from pocketmq.protocol.control import ControlProcessor
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.manual_clock import ManualClock


@asynccontextmanager
async def control_port(
    name: str,
    clock: Clock,
    status: Callable[[], Mapping[str, str]],
    *,
    announce_to: Sequence[str] = (),
) -> AsyncIterator[int]:
    """Answer GET_CLOCK, MOVE_CLOCK and ROLE_STATUS on a free port; yields it, 0 on a real clock.

    Args:
        name: Under which it is announced.
        clock: The clock of this process.
        status: What ROLE_STATUS tells.
        announce_to: Nameservers that shall know the port, for `pocketmq clock advance`.
    """
    if not isinstance(clock, ManualClock):
        yield 0
        return
    network = TcpNetwork()
    control = ControlProcessor(clock, status)
    dispatcher = Dispatcher()
    dispatcher.add(control)
    listener = await network.serve("127.0.0.1", 0, dispatcher)
    remoting = RemotingClient(network)
    try:
        await announce(name, f"127.0.0.1:{listener.port}", announce_to, remoting)
        yield listener.port
    finally:
        await withdraw(name, announce_to, remoting)
        await remoting.close()
        await control.stop()
        await listener.close()
