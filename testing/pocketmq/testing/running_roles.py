"""The roles of a cluster that runs already, and that a test neither starts nor stops."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NoReturn

from pocketmq.client import Admin
from pocketmq.client.config import credentials_of, network_of, trusting
from pocketmq.client.name_servers import parse_addresses
from pocketmq.cluster.steering.errors import WrongClusterError
from pocketmq.operation.tls.contexts import client_tls
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.manual_time.clock_members import ClockMember


class RunningRoles:
    """Nameservers by their addresses, and the brokers that they know at the start.

    Args:
        nameservers: `host:port;host:port`.
        data: Folder for files of the test's own clients.
        tls: Connect by TLS; without it, or a CA file, the environment's POCKETMQ_TLS decides.
        ca_file: Whom connections trust, else the environment's POCKETMQ_TLS_CA_FILE; none: anybody.

    Raises:
        ConfigError: A file cannot be used, or a variable has a word that means nothing.
    """

    def __init__(
        self, nameservers: str, data: Path, *, tls: bool = False, ca_file: Path | None = None
    ) -> None:
        self.data = data
        self.nameserver_addresses = list(parse_addresses(nameservers))
        self.credentials = credentials_of(None, os.environ)
        # `False` means that the fixture was not asked for TLS, so the environment decides.
        is_secured, trusted = trusting(os.environ, tls or None, ca_file, None)
        self.ca_file = None if trusted is None else Path(trusted).expanduser()
        self.client_tls = client_tls(is_secured, ca_file=self.ca_file)
        self.network = network_of(os.environ, tls=tls or None, ca_file=ca_file)
        self.member_secret_file: Path | None = None
        """Not known: a client reads the one that the environment names by itself."""
        self.running_brokers: list[str] = []
        self.endpoints = ""
        self._time = SystemClock()

    @property
    def names(self) -> list[str]:
        """None that a test may name."""
        return []

    @property
    def clients(self) -> Mapping[str, str]:
        """None that send their events to the test."""
        return {}

    @property
    def starting(self) -> Collection[str]:
        """None."""
        return ()

    @property
    def addresses(self) -> Mapping[str, str]:
        """None that are asked as roles."""
        return {}

    async def start(self) -> None:
        """Find the brokers.

        Raises:
            NoNameServerError: No nameserver answers.
        """
        addresses = ";".join(self.nameserver_addresses)
        async with Admin(
            nameservers=addresses, credentials=self.credentials, network=self.network
        ) as admin:
            # Looked up once: `create_topic` does not wait for brokers that join later.
            self.running_brokers = list(await admin.brokers())

    async def stop(self) -> None:
        """Leave the cluster as it is."""

    async def wait_for_controllers(self) -> None:
        """Return at once."""

    def time_ms(self) -> int:
        """Real time."""
        return self._time.time_ms()

    def note_time(self, time_ms: int) -> None:
        """See `Roles`; these roles start elsewhere."""

    async def clock_members(self) -> Sequence[ClockMember]:
        """None: whoever started the cluster moves its clock."""
        return ()

    def moving(self) -> AbstractContextManager[None]:
        """Nothing to do around a move of no clocks."""
        return contextlib.nullcontext()

    # -- what only who started the cluster can do -------------------------------------------

    def broker_name(self, name: str) -> str:
        """See `Roles`."""
        _refuse(name)

    def state(self, name: str) -> str:
        """See `Roles`."""
        _refuse(name)

    def role(self, name: str) -> str:
        """See `Roles`."""
        _refuse(name)

    def log_tail(self, name: str, lines: int) -> str:
        """See `Roles`."""
        _refuse(name)

    async def freeze(self, name: str) -> None:
        """See `Roles`."""
        _refuse(name)

    async def thaw(self, name: str) -> None:
        """See `Roles`."""
        _refuse(name)

    async def kill(self, name: str) -> None:
        """See `Roles`."""
        _refuse(name)

    async def stop_role(self, name: str) -> None:
        """See `Roles`."""
        _refuse(name)

    async def restart(self, name: str) -> None:
        """See `Roles`."""
        _refuse(name)


def _refuse(name: str) -> NoReturn:
    raise WrongClusterError(
        f"{name} was not started by this test, so the test cannot control it; use the fixture "
        "pocketmq_cluster, which gives the test a cluster of its own"
    )
