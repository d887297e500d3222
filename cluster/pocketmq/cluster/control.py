"""Asks running processes for their clock and state, and moves their clocks, over their own ports.

To move all clocks in lock step, the address of each process must be known. Nameservers know the
brokers; clients on a manual clock write their address into the nameservers' KV namespace
`POCKETMQ_CONTROL`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence

import structlog

from pocketmq.operation.control.requests import (
    ClockResponseHeader,
    GetClockRequestHeader,
    MoveClockRequestHeader,
    RoleStatusRequestHeader,
)
from pocketmq.protocol.bodies.route import ClusterInfo, KVTable
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import BrokerError, RemotingError
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.kv import (
    DeleteKvConfigRequestHeader,
    GetKvListRequestHeader,
    PutKvConfigRequestHeader,
)
from pocketmq.protocol.headers.route import GetClusterInfoRequestHeader
from pocketmq.protocol.transport.remoting import RemotingClient, expect
from pocketmq.runtime.errors import ClockMemberError
from pocketmq.runtime.manual_time import lock_step
from pocketmq.runtime.manual_time.manual_clock import Due

log = structlog.get_logger()

CONTROL_NAMESPACE = "POCKETMQ_CONTROL"

ANSWER_LIMIT_S = 10.0
"""Real seconds within which a running process answers a simple request."""


class ControlledProcess:
    """A process that is asked over its port; a `ClockMember` of a lock step.

    Args:
        name: Its name in errors and output.
        address: `host:port`.
        remoting: Asks it.
        frozen: Addresses of frozen processes, for whose answers its clock shall not wait.
    """

    def __init__(
        self, name: str, address: str, remoting: RemotingClient, frozen: Collection[str] = ()
    ) -> None:
        self._name = name
        self.address = address
        self._remoting = remoting
        # Sorted, so that equal sets give equal requests; None leaves the field out.
        self._frozen = ";".join(sorted(frozen)) or None

    def beside(self, frozen: Collection[str]) -> ControlledProcess:
        """The same process, beside others that are frozen."""
        return ControlledProcess(self._name, self.address, self._remoting, frozen)

    @property
    def name(self) -> str:
        """Its name in errors and output."""
        return self._name

    async def time_ms(self) -> int:
        """The time of its clock, in epoch ms."""
        return (await self.clock()).now_ms

    async def next_due(self) -> Due | None:
        """Its earliest timer; None without one."""
        clock = await self.clock()
        if clock.next_deadline_ms is None:
            return None
        return Due(clock.next_deadline_ms, clock.next_what or "timer")

    async def move_to(self, time_ms: int) -> None:
        """Move its manual clock; returns when the tasks that were due have come to rest."""
        # The process has its own limit, whose error names the task that does not come to rest.
        header = MoveClockRequestHeader(time_ms=time_ms, frozen=self._frozen)
        await self._ask("move its clock", header, lock_step.MEMBER_GUARD_S)

    async def clock(self) -> ClockResponseHeader:
        """Its time, its next deadline, and whether it can be moved.

        Raises:
            ClockMemberError: It does not answer.
        """
        reply = await self._ask("tell its time", GetClockRequestHeader(), ANSWER_LIMIT_S)
        return reply.header(ClockResponseHeader)

    async def status(self) -> dict[str, str]:
        """Its own description of its state, by name.

        Raises:
            ClockMemberError: It does not answer.
        """
        reply = await self._ask("tell its state", RoleStatusRequestHeader(), ANSWER_LIMIT_S)
        return decode_body(reply.body_view, KVTable, reply.encoding).table

    async def _ask(self, doing: str, header: Header, limit_s: float) -> Command:
        try:
            return expect(await self._remoting.call(self.address, header, timeout_s=limit_s))
        except (RemotingError, BrokerError) as exc:
            refused = isinstance(exc, BrokerError) and exc.code == ResponseCode.NO_PERMISSION
            raise ClockMemberError(self._name, doing, str(exc), refused=refused) from exc


async def reachable(
    members: Iterable[ControlledProcess],
    on_left_out: Callable[[ClockMemberError], None] | None = None,
    *,
    frozen: Collection[str] = (),
) -> list[ControlledProcess]:
    """The members that answer and are on a manual clock; `on_left_out` gets those that do not.

    Their clocks will not wait for the answers of those that do not, nor of `frozen` addresses.
    """
    found = []
    silent = set(frozen)
    everyone = list(members)
    # All at once, since each silent member costs the whole time limit.
    answers = await asyncio.gather(*(member.clock() for member in everyone), return_exceptions=True)
    for member, answer in zip(everyone, answers, strict=True):
        if isinstance(answer, ClockMemberError):
            # Noted as silent: a role that waits for its answer would never come to rest.
            silent.add(member.address)
            if on_left_out is not None:
                on_left_out(answer)
        # Any other error, or the cancellation of this task, is not about a silent member.
        elif isinstance(answer, BaseException):
            raise answer
        elif answer.manual:
            found.append(member)
    return [each.beside(silent) for each in found]


async def discover(
    nameservers: Sequence[str], remoting: RemotingClient, *, known: Collection[str] = ()
) -> list[ControlledProcess]:
    """Every process of a running cluster that its nameservers know, and the nameservers.

    Controllers are those that brokers know. Nameservers that do not answer are skipped.

    Args:
        nameservers: `host:port` each.
        remoting: Asks them.
        known: Addresses of brokers that are not asked for controllers, because the caller knows
            their cluster: one that is frozen would be waited for.
    """
    found: dict[str, str] = {}
    for at, address in enumerate(nameservers, start=1):
        # The first name counts: several nameservers may know the same process.
        found.setdefault(address, f"nameserver-{at}")
        try:
            info = await cluster_info(address, remoting)
            clients = await _clients(address, remoting)
        except (RemotingError, BrokerError) as exc:
            log.info("nameserver.passed_over", nameserver=address, reason=str(exc))
            continue
        brokers: list[ControlledProcess] = []
        for broker in info.broker_addr_table.values():
            for number, broker_address in sorted(broker.broker_addrs.items()):
                # Replicas share their broker name, so the broker id is added.
                name = broker.broker_name if number == 0 else f"{broker.broker_name}:{number}"
                found.setdefault(broker_address, name)
                if broker_address not in known:
                    brokers.append(ControlledProcess(name, broker_address, remoting))
        # Nameservers know no controllers, but brokers know those that they were started with.
        for controller in await _controllers(brokers):
            found.setdefault(controller, f"controller at {controller}")
        for name, client_address in clients.items():
            found.setdefault(client_address, name)
    return [ControlledProcess(name, address, remoting) for address, name in found.items()]


async def _controllers(brokers: Iterable[ControlledProcess]) -> list[str]:
    """Addresses of the controllers that these brokers were started with."""
    found: dict[str, None] = {}
    answers = await asyncio.gather(*(each.status() for each in brokers), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, dict):
            # Several brokers name the same controllers; a dict keeps the order and drops repeats.
            found.update(dict.fromkeys(filter(None, answer.get("controllers", "").split(","))))
        elif not isinstance(answer, ClockMemberError):
            raise answer
    return list(found)


async def cluster_info(nameserver: str, remoting: RemotingClient) -> ClusterInfo:
    """The brokers that one nameserver knows.

    Raises:
        RemotingError, BrokerError: It does not answer, or refuses.
    """
    reply = expect(await remoting.call(nameserver, GetClusterInfoRequestHeader()))
    return decode_body(reply.body_view, ClusterInfo, reply.encoding)


async def announce(
    name: str, address: str, nameservers: Sequence[str], remoting: RemotingClient
) -> None:
    """Register a client's control address with the nameservers."""
    for nameserver in nameservers:
        header = PutKvConfigRequestHeader(namespace=CONTROL_NAMESPACE, key=name, value=address)
        # Sent to each nameserver, as they do not copy KV entries from each other.
        await _try(remoting, nameserver, header)


async def withdraw(name: str, nameservers: Sequence[str], remoting: RemotingClient) -> None:
    """Remove what `announce` registered."""
    for nameserver in nameservers:
        header = DeleteKvConfigRequestHeader(namespace=CONTROL_NAMESPACE, key=name)
        await _try(remoting, nameserver, header)


async def _try(remoting: RemotingClient, nameserver: str, header: Header) -> None:
    try:
        expect(await remoting.call(nameserver, header))
    # A nameserver that is down is passed over: it lacks the entry, or keeps an old one.
    except (RemotingError, BrokerError) as exc:
        log.info("nameserver.passed_over", nameserver=nameserver, reason=str(exc))


async def _clients(nameserver: str, remoting: RemotingClient) -> dict[str, str]:
    header = GetKvListRequestHeader(namespace=CONTROL_NAMESPACE)
    # RocketMQ's nameserver answers this for a namespace without entries.
    reply = expect(await remoting.call(nameserver, header), ResponseCode.QUERY_NOT_FOUND)
    if reply.code != ResponseCode.SUCCESS or not reply.body_view:
        return {}
    return decode_body(reply.body_view, KVTable, reply.encoding).table
