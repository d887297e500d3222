"""A port over which the clock of a client process is moved, and its events are read.

Clients have no other port; one that runs on the real clock and tells no events has none. It is in
plaintext, and bound to this machine.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from pocketmq.client.config import credentials_of, network_of
from pocketmq.cluster.control import announce, withdraw
from pocketmq.operation.access.options import SUPER_USERS_VARIABLE, super_users_of
from pocketmq.operation.access.own_requests import OwnRequestsDoor
from pocketmq.operation.control.processor import ControlProcessor
from pocketmq.operation.events.sink import NO_EVENTS, EventSink
from pocketmq.operation.membership.doors import guarded
from pocketmq.protocol.budget import default_budget
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.manual_time.manual_clock import ManualClock

TELL_IT: Final = f'where it starts, set {SUPER_USERS_VARIABLE}={{"name":"password"}}'
"""Advice where a client's requests are signed, and it was told no super user."""


def client_port_door(env: Mapping[str, str]) -> OwnRequestsDoor | None:
    """Who may send a client process PocketMQ's own requests; None: everybody.

    The super users that the environment names; nobody if it names none and has a key by which the
    client signs its own requests, as users are on then.

    Raises:
        ConfigError: a variable cannot be read.
    """
    users = super_users_of(SUPER_USERS_VARIABLE, env.get(SUPER_USERS_VARIABLE, ""))
    if not users and credentials_of(None, env) is None:
        return None
    return OwnRequestsDoor(users, TELL_IT)


@asynccontextmanager
async def control_port(
    name: str,
    clock: Clock,
    status: Callable[[], Mapping[str, str]],
    *,
    door: OwnRequestsDoor | None,
    announce_to: Sequence[str] = (),
    events: EventSink = NO_EVENTS,
) -> AsyncIterator[int]:
    """Answer GET_CLOCK, MOVE_CLOCK, ROLE_STATUS and GET_EVENTS; yields the port, 0 without one.

    Args:
        name: Name under which the port is announced.
        clock: The clock of this process.
        status: Returns the answer to ROLE_STATUS.
        door: Lets in who may ask; None: every process of this machine.
        announce_to: Nameservers to announce the port to, for `pocketmq clock advance`.
        events: Those of the client, which are read over the port.
    """
    # Otherwise nobody would use the port, which costs a listener and entries at the nameservers.
    if not (isinstance(clock, ManualClock) or events.is_on):
        yield 0
        return
    network = TcpNetwork()
    control = ControlProcessor(clock, status, events)
    dispatcher = guarded(None, frozenset(), door, default_budget)
    dispatcher.add(control)
    # Only for this machine: without users whoever reaches the port can move the clock.
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
