"""The fault rules of a cluster: keeps them, sends them to every role, and collects firings."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec

from pocketmq.cluster.control import ANSWER_LIMIT_S
from pocketmq.cluster.steering.errors import WrongClusterError
from pocketmq.cluster.steering.roles import Roles
from pocketmq.operation.faults.requests import (
    FaultOrders,
    FaultReport,
    GetFaultsRequestHeader,
    SetFaultsRequestHeader,
)
from pocketmq.operation.faults.rule import CLIENTS, OTHERS, FaultRule, Firing
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import RemotingError
from pocketmq.protocol.header import Header
from pocketmq.protocol.transport.remoting import RemotingClient, expect
from pocketmq.runtime.addresses import address_text, host_of

MOST_RULES = 200
"""Of one cluster: each is compared with each request while it is there."""


class ClusterFaults:
    """Rules by id.

    Args:
        roles: Whom they concern.
    """

    def __init__(self, roles: Roles) -> None:
        self._roles = roles
        self._rules: dict[str, FaultRule] = {}
        self._made = 0
        self._streams: dict[str, list[str]] = {}
        """Where slaves follow roles, as far as these were asked."""

    @property
    def rules(self) -> list[FaultRule]:
        """In the order in which they were added."""
        return list(self._rules.values())

    async def add(self, rule: FaultRule) -> FaultRule:
        """Add a rule; returns it with its id.

        Raises:
            WrongFaultError: It contradicts itself.
            WrongClusterError: It names a role that there is not, or there are too many.
            RemotingError, BrokerError: A role does not take it; the others give it back.
        """
        checked = rule.checked()
        for name in (checked.role, checked.other):
            # Compared with the present roles: a rule with a misspelt name would never fire.
            if name is not None and name not in (*self._roles.names, CLIENTS, OTHERS):
                raise WrongClusterError(
                    f"this cluster has no role {name!r}; its roles are "
                    f"{', '.join(self._roles.names)}"
                )
        if len(self._rules) >= MOST_RULES:
            raise WrongClusterError(
                f"there are already {MOST_RULES} fault rules, which is the maximum; clear some "
                "rules first"
            )
        self._made += 1
        named = msgspec.structs.replace(checked, id=f"r{self._made}")
        self._rules[named.id] = named
        try:
            await self._send()
        except BaseException:
            # Nobody hears its id, so nobody could clear it.
            self._rules.pop(named.id, None)
            await self._take_back()
            raise
        return named

    async def clear(self, rule_id: str | None = None) -> int:
        """Remove one rule, or all; returns their number.

        Raises:
            WrongClusterError: There is none of this id.
        """
        if rule_id is not None and rule_id not in self._rules:
            known = (
                f"the rules are {', '.join(self._rules)}" if self._rules else "there are no rules"
            )
            raise WrongClusterError(f"there is no fault rule {rule_id!r}; {known}")
        gone = [rule_id] if rule_id is not None else list(self._rules)
        for each in gone:
            del self._rules[each]
        await self._send()
        return len(gone)

    async def counts(self) -> dict[str, dict[str, int]]:
        """How often each rule fired, by id and role; a role that does not run is left out."""
        found: dict[str, dict[str, int]] = {each: {} for each in self._rules}
        async with self._remoting() as remoting:
            for name in self._running():
                try:
                    # Only the counts are wanted, so it asks for firings after a number that none
                    # has.
                    report = await self._report(remoting, name, after=1 << 62)
                except RemotingError:  # it ended just now, which its state does not say yet
                    continue
                for rule_id, count in report.counts.items():
                    if rule_id in found:
                        found[rule_id][name] = count
        return found

    async def firings(self) -> list[Firing]:
        """What fired, as far as the roles remember it, oldest first."""
        found: list[Firing] = []
        async with self._remoting() as remoting:
            for name in self._running():
                found += (await self._report(remoting, name, after=0)).firings
        return sorted(found, key=lambda each: (each.at_ms, each.role, each.number))

    async def tell(self, name: str, *, is_new: bool) -> None:
        """Tell a role what holds: one that was away has not heard of it.

        Args:
            name: The role.
            is_new: It has been started anew, and counts from the beginning.
        """
        # A new process has no rules, so there is nothing to take back.
        if is_new and not self._rules:
            return
        async with self._remoting() as remoting:
            if is_new and self._parts:  # slaves may follow it at another port than before
                await self._tell_all(remoting)
            else:
                await self._tell(remoting, name)

    # -- inside -----------------------------------------------------------------------------

    def _running(self) -> list[str]:
        return [name for name in self._roles.names if self._roles.state(name) == "running"]

    @property
    def _parts(self) -> bool:
        return any(each.do == "partition" for each in self._rules.values())

    async def _send(self) -> None:
        async with self._remoting() as remoting:
            await self._tell_all(remoting)

    async def _take_back(self) -> None:
        """Tell all roles what is left; one that does not answer hears it with the next change."""
        async with self._remoting() as remoting:
            told = (self._tell(remoting, name) for name in self._running())
            # At once, and whatever becomes of each: one of them has just failed.
            await asyncio.gather(*told, return_exceptions=True)

    async def _tell_all(self, remoting: RemotingClient) -> None:
        running = self._running()
        if self._parts:
            # All are asked before any is told, since each role gets the stream ports of all.
            for name in running:
                report = await self._report(remoting, name, after=1 << 62)
                host = host_of(self._roles.addresses[name])
                self._streams[name] = [address_text(host, port) for port in report.stream_ports]
        for name in running:
            await self._tell(remoting, name)

    async def _tell(self, remoting: RemotingClient, name: str) -> None:
        orders = FaultOrders(
            rules=self.rules,
            addresses=dict(self._roles.addresses),
            role=name,
            streams=self._streams,
        )
        await self._ask(remoting, name, SetFaultsRequestHeader(), orders)

    async def _report(self, remoting: RemotingClient, name: str, after: int) -> FaultReport:
        reply = await self._ask(remoting, name, GetFaultsRequestHeader(after=after))
        return decode_body(reply.body_view, FaultReport, reply.encoding)

    @contextlib.asynccontextmanager
    async def _remoting(self) -> AsyncIterator[RemotingClient]:
        """Connections for a few questions."""
        client = RemotingClient(self._roles.network, credentials=self._roles.credentials)
        try:
            yield client
        finally:
            await client.close()

    async def _ask(
        self,
        remoting: RemotingClient,
        name: str,
        header: Header,
        body: msgspec.Struct | bytes = b"",
    ) -> Command:
        address = self._roles.addresses[name]
        return expect(await remoting.call(address, header, body, timeout_s=ANSWER_LIMIT_S))
