"""The running roles of a cluster, as they are steered: threads of a test, or processes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from pocketmq.protocol.signing import Credentials
from pocketmq.protocol.transport.network import Network
from pocketmq.protocol.transport.tls.client_tls import ClientTls
from pocketmq.runtime.manual_time.clock_members import ClockMember


class Roles(Protocol):
    """The running roles: `RoleThreads` or `RoleProcesses`."""

    data: Path

    @property
    def credentials(self) -> Credentials | None:
        """Of the super user by which brokers are steered; None where they check nothing."""
        ...

    @property
    def client_tls(self) -> ClientTls | None: ...

    @property
    def network(self) -> Network:
        """Connects to the roles as they want it."""
        ...

    @property
    def ca_file(self) -> Path | None:
        """What clients trust; None where connections are in plaintext, or any server is taken."""
        ...

    @property
    def member_secret_file(self) -> Path | None:
        """The secret of these roles; None where no member proves anything, or it is not theirs."""
        ...

    @property
    def addresses(self) -> Mapping[str, str]: ...

    @property
    def clients(self) -> Mapping[str, str]: ...

    @property
    def starting(self) -> Collection[str]: ...

    @property
    def names(self) -> list[str]: ...

    @property
    def nameserver_addresses(self) -> list[str]: ...

    @property
    def endpoints(self) -> str: ...

    @property
    def running_brokers(self) -> list[str]: ...

    def broker_name(self, name: str) -> str: ...

    def state(self, name: str) -> str: ...

    def role(self, name: str) -> str: ...

    def log_tail(self, name: str, lines: int) -> str: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def freeze(self, name: str) -> None: ...

    async def thaw(self, name: str) -> None: ...

    async def kill(self, name: str) -> None: ...

    async def stop_role(self, name: str) -> None: ...

    async def restart(self, name: str) -> None: ...

    async def wait_for_controllers(self) -> None: ...

    def time_ms(self) -> int:
        """Of roles in threads their present time; of processes the time at which they started."""
        ...

    def note_time(self, time_ms: int) -> None:
        """Manual clocks stand at this time: also if none runs now, none begins before it."""
        ...

    async def clock_members(self) -> Sequence[ClockMember]: ...

    def moving(self) -> AbstractContextManager[None]: ...


def addresses_of(roles: Roles, state: str, *, role: str = "") -> list[str]:
    """Addresses of the roles in a state, such as "frozen"; `role` asks for one kind only."""
    return [
        address
        for name, address in roles.addresses.items()
        if roles.state(name) == state and role in ("", roles.role(name))
    ]
