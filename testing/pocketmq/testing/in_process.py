"""The roles of a cluster, each in a thread of this process, on real TCP sockets."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.cluster.folder import MEMBER_FILE
from pocketmq.cluster.keys.certificate import cluster_tls, only_tls
from pocketmq.cluster.keys.member_secret import as_member
from pocketmq.cluster.spec import PROXY_NAME, broker_names, nameserver_names
from pocketmq.cluster.steering.shape import ClusterShape
from pocketmq.nameserver import NameServer, NameServerConfig
from pocketmq.operation.membership.options import SecurityOptions
from pocketmq.operation.tls.contexts import certificate_in
from pocketmq.operation.tls.options import TlsOptions
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.protocol.transport.traffic import LoopInbox
from pocketmq.runtime.addresses import address_text
from pocketmq.runtime.clock import Clock, SystemClock
from pocketmq.runtime.manual_time.clock_members import ClockMember, NearMember
from pocketmq.runtime.manual_time.manual_clock import ManualClock, whole_second_ms
from pocketmq.runtime.ports import free_ports
from pocketmq.runtime.profile import profile_named
from pocketmq.testing import role_logs
from pocketmq.testing.one_processor import on_one_processor
from pocketmq.testing.role_thread import MakeServer, RoleSeams, RoleThread, Server

_numbers = itertools.count(1)


class RoleThreads:
    """Nameservers, brokers and proxy of one cluster, as threads.

    Args:
        shape: The roles of the cluster.
        data: Folder of the brokers' stores.
    """

    def __init__(self, shape: ClusterShape, data: Path) -> None:
        self.data = data
        self._shape = shape
        access = shape.access
        self.credentials = None if access is None else access.steering
        self._nameserver_access: Mapping[str, Any] = (
            {} if access is None else access.nameserver_options
        )
        self._broker_access: Mapping[str, Any] = {} if access is None else access.broker_options
        self._proxy_access: Mapping[str, Any] = {} if access is None else access.proxy_options
        self._profile = profile_named(shape.profile)
        is_manual = shape.clock == "manual"
        self._known_ms = whole_second_ms() if is_manual else SystemClock().time_ms()
        """Of the start, or where the clocks stood later: a role starts no earlier."""
        self._number = next(_numbers)
        self._grpc_port = 0
        own = certificate_in(data / "tls") if shape.tls else None
        self.client_tls = cluster_tls(own)
        """Of connections to the roles; None: they are in plaintext."""
        # Not what lies in the folder: an earlier cluster there may have left one.
        self.member_secret_file = data / MEMBER_FILE if shape.members_must_prove else None
        # The first start makes the secret, which the roles then read.
        self.network = as_member(TcpNetwork(client_tls=self.client_tls), self.member_secret_file)
        self.ca_file = None if own is None else own.certificate
        self._security = SecurityOptions(
            **asdict(TlsOptions() if own is None else only_tls(own)),
            members_must_prove=shape.members_must_prove,
            member_secret_file=self.member_secret_file,
        )
        self._roles: dict[str, RoleThread] = {}
        # Nameservers first: brokers get their addresses when they start, and the order is that of
        # `names`.
        for name in nameserver_names(shape.nameservers):
            self._add(name, "nameserver", partial(self.nameserver, name))
        for name in broker_names(shape.brokers):
            self._add(name, "broker", partial(self.broker, name))
        if shape.proxy:
            self._add(PROXY_NAME, "proxy", self.proxy)

    # -- reading ----------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """Names of all roles, nameservers first."""
        return list(self._roles)

    @property
    def clients(self) -> Mapping[str, str]:
        """None is started by the roles; a test hands its clients the events' sink itself."""
        return {}

    @property
    def starting(self) -> Collection[str]:
        """Roles that run, and cannot be asked yet: a thread is started at once."""
        return ()

    @property
    def nameserver_addresses(self) -> list[str]:
        """`host:port` of each nameserver."""
        return [each.address for each in self._of("nameserver")]

    @property
    def endpoints(self) -> str:
        """`host:port` of the proxy for SDKs; empty without one."""
        return address_text(self._shape.host, self._grpc_port) if self._grpc_port else ""

    @property
    def running_brokers(self) -> list[str]:
        """Names of the brokers that are neither frozen nor ended."""
        return [n for n, each in self._roles.items() if each.role == "broker" and _runs(each)]

    @property
    def addresses(self) -> Mapping[str, str]:
        """Address of each role, also of one that has ended."""
        return {name: each.address for name, each in self._roles.items()}

    def role(self, name: str) -> str:
        """`nameserver`, `broker` or `proxy`."""
        return self._roles[name].role

    def broker_name(self, name: str) -> str:
        """The broker name of a role, here its own; empty if it is no broker."""
        return name if self._roles[name].role == "broker" else ""

    def state(self, name: str) -> str:
        """`running`, `frozen` or `ended`."""
        return self._roles[name].state

    def log_tail(self, name: str, lines: int) -> str:
        """The end of a role's log."""
        return role_logs.tail(self._thread_name(name), lines)

    # -- life -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start all nameservers at once, then all brokers at once."""
        for name in self.names:
            role_logs.keep(self._thread_name(name))
        # If one fails to start, all stop: those that run already would keep their threads and
        # ports.
        try:
            for role in ("nameserver", "broker", "proxy"):
                await self._start_all(role)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop all roles, proxies first, then brokers."""
        # Brokers before nameservers: a broker that stops unregisters there.
        for role in ("proxy", "broker", "nameserver"):
            await asyncio.gather(*(each.stop() for each in self._of(role)))
        for name in self.names:
            role_logs.forget(self._thread_name(name))

    async def freeze(self, name: str) -> None:
        """See `RoleThread`."""
        await self._roles[name].freeze()

    async def thaw(self, name: str) -> None:
        """See `RoleThread`."""
        self._roles[name].thaw()

    async def kill(self, name: str) -> None:
        """See `RoleThread`."""
        await self._roles[name].kill()

    async def stop_role(self, name: str) -> None:
        """In order, with everything saved."""
        await self._roles[name].stop()

    async def restart(self, name: str) -> None:
        """Start a role again with the same port and files."""
        await self._roles[name].start()

    async def wait_for_controllers(self) -> None:
        """Return at once: there are none."""

    # -- time -------------------------------------------------------------------------------

    def time_ms(self) -> int:
        """The cluster's time in epoch ms."""
        clocks = [each.clock for each in self._roles.values() if each.clock is not None]
        # The latest time: a frozen role's clock has missed all moves since it froze, and may be the
        # only one that is left.
        return max([self._known_ms, *(clock.time_ms() for clock in clocks)])

    def note_time(self, time_ms: int) -> None:
        """See `Roles`."""
        self._known_ms = max(self._known_ms, time_ms)

    async def clock_members(self) -> Sequence[ClockMember]:
        """The roles whose clocks can be moved now."""
        # A frozen role does not answer, so a move must not wait for requests to it.
        frozen = [each.address for each in self._roles.values() if each.state == "frozen"]
        return [_member(each, frozen) for each in self._roles.values() if _runs(each)]

    def moving(self) -> AbstractContextManager[None]:
        """Around a move of the clocks."""
        return on_one_processor()

    # -- inside -----------------------------------------------------------------------------

    async def _start_all(self, role: str) -> None:
        # All are waited for, also after an error: `stop` passes over roles that have no thread yet.
        starts = (each.start() for each in self._of(role))
        for result in await asyncio.gather(*starts, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    def _of(self, role: str) -> list[RoleThread]:
        return [each for each in self._roles.values() if each.role == role]

    def _add(self, name: str, role: str, make: MakeServer) -> None:
        thread_name = self._thread_name(name)
        self._roles[name] = RoleThread(
            name,
            role,
            thread_name,
            make,
            self._clock,
            host=self._shape.host,
            security=self._security,
        )

    def _thread_name(self, name: str) -> str:
        return f"pocketmq {self._number} {name}"

    def _clock(self) -> Clock:
        # A role that starts again begins at the others' time, not at its own last one.
        return ManualClock(self.time_ms()) if self._shape.clock == "manual" else SystemClock()

    def nameserver(self, name: str, seams: RoleSeams, port: int) -> NameServer:
        """A nameserver for a new life."""
        config = NameServerConfig(
            host=self._shape.host,
            port=port,
            kv_config_path=self.data / name / "kvConfig.json",
            strangers_read_routes=self._shape.strangers_read_routes,
            **self._nameserver_access,
        )
        return NameServer(
            config,
            seams.clock,
            seams.network,
            self._profile,
            events=seams.events,
            members=seams.members,
        )

    def proxy(self, seams: RoleSeams, port: int) -> Server:
        """Make a proxy for a start of its role; SDKs find it on the same port as before.

        Raises:
            MissingToolError: gRPC is not installed.
        """
        from pocketmq.proxy.installed import check_installed

        check_installed()
        from pocketmq.proxy.assembly.proxy import Proxy
        from pocketmq.proxy.config import ProxyConfig

        self._grpc_port = self._grpc_port or free_ports(self._shape.host, 1)[0]
        config = ProxyConfig(
            name=PROXY_NAME,
            host=self._shape.host,
            port=port,
            grpc_port=self._grpc_port,
            nameservers=tuple(self.nameserver_addresses),
            # MessagePack is shorter than JSON, and only PocketMQ roles have to read it here.
            encoding="msgpack",
            **self._proxy_access,
        )
        return Proxy(
            config,
            seams.clock,
            seams.network,
            self._profile,
            events=seams.events,
            tls=seams.sockets.server_tls,
        )

    def broker(self, name: str, seams: RoleSeams, port: int) -> Broker:
        """Make a broker for a start of its role."""
        config = BrokerConfig(
            name=name,
            host=self._shape.host,
            port=port,
            data=self.data / name,
            nameservers=tuple(self.nameserver_addresses),
            **self._broker_access,
        )
        return Broker(
            config,
            seams.clock,
            seams.network,
            self._profile,
            disk=seams.disk,
            events=seams.events,
            members=seams.members,
        )


def _member(role: RoleThread, frozen: Sequence[str]) -> NearMember:
    """A role's manual clock in a lock step, beside frozen roles with these addresses."""
    # `ClusterControl` moves only clusters with manual clocks.
    assert isinstance(role.clock, ManualClock)
    role.clock.note_frozen(frozen)
    return NearMember(role.name, role.clock, LoopInbox(role.loop), role.loop)


def _runs(role: RoleThread) -> bool:
    return role.state == "running"
