"""`Preparation`: what a broker does before name servers hear of it (Z-9).

A master that returns may find that consumers have committed offsets to a slave that acted for it.
It is isolated until it has them: it registers nowhere, and delivers and checks nothing by itself.

    who is in the group (901)      nobody else: online
    to each slave, least id first  906: this is my stream -> wait until the slave follows
                                   43, 45: its consumer and delay offsets
    then                           online

A step that fails is tried again after a second, with a new look at the group.
"""

from __future__ import annotations

import asyncio
from ipaddress import ip_address

import structlog

from pocketmq.broker.acting_master.group_peers import NO_ANSWER, GroupPeers
from pocketmq.broker.core import BrokerCore
from pocketmq.broker.delays.delay import DelayPlanner
from pocketmq.broker.offsets.consumer_offsets import ConsumerOffsetManager
from pocketmq.broker.replication.assembly import Replication
from pocketmq.broker.replication.ha_info import ha_info
from pocketmq.broker.subject import Service
from pocketmq.protocol.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from pocketmq.protocol.bodies.route import MASTER_ID
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.errors import BrokerError
from pocketmq.protocol.headers.controller import (
    ExchangeHaInfoRequestHeader,
    ExchangeHaInfoResponseHeader,
)
from pocketmq.protocol.headers.offsets import (
    GetAllConsumerOffsetRequestHeader,
    GetAllDelayOffsetRequestHeader,
)
from pocketmq.runtime.addresses import host_of
from pocketmq.runtime.clock import Latch

log = structlog.get_logger()

RETRY_S = 1.0
STREAM_TIMEOUT_S = 10.0
"""Until a slave that was told has to follow."""


class Preparation(Service):
    """Brings an isolated broker online.

    Args:
        core: of the broker; isolated from the start, or this does nothing.
        replication: the stream.
        peers: name servers and the group's brokers.
        offsets: take what was committed elsewhere.
        delays: likewise.
    """

    def __init__(
        self,
        core: BrokerCore,
        replication: Replication,
        peers: GroupPeers,
        offsets: ConsumerOffsetManager,
        delays: DelayPlanner,
    ) -> None:
        self._core = core
        self._replication = replication
        self._peers = peers
        self._offsets = offsets
        self._delays = delays
        self._done: set[str] = set()
        """Slaves whose offsets are taken."""
        self._streams = Latch()
        replication.slaves.acks_moved.connect(self._streams.wakeup)

    async def start(self) -> None:
        """Return when this broker may register."""
        core = self._core
        if not core.role.is_isolated:
            return
        while not await self._is_prepared():
            await core.clock.sleep(RETRY_S)
        log.info("broker.online", broker=core.config.name, broker_id=core.role.broker_id)
        core.role.go_online()
        await core.role.apply()

    async def stop(self) -> None:
        await self._peers.close()

    async def _is_prepared(self) -> bool:
        # Without name servers no slave can have acted as master.
        if not self._peers.has_nameservers:
            return True
        members = await self._peers.members()
        if members is None:
            log.warning("broker.not_online", reason="no name server answers", retry_s=RETRY_S)
            return False
        own_id, own = self._core.role.broker_id, str(self._core.address)
        others = {n: where for n, where in members.items() if n != own_id and where != own}
        try:
            if self._core.role.leads:
                for number in sorted(others):
                    await self._take_back(others[number])
            elif MASTER_ID in others:
                await self._follow(others[MASTER_ID])
        except NO_ANSWER as exc:
            log.warning("broker.not_online", reason=str(exc), retry_s=RETRY_S)
            return False
        return True

    async def _follow(self, master: str) -> None:
        answer = await self._peers.ask(master, ExchangeHaInfoRequestHeader())
        stream = answer.header(ExchangeHaInfoResponseHeader).master_ha_address
        if stream:
            self._replication.roles.stream_told(stream)

    async def _take_back(self, slave: str) -> None:
        """Be followed by a slave, and take what was committed to it.

        Raises:
            RemotingError, BrokerError: it does not answer, or does not follow.
        """
        # An earlier attempt has already taken over this slave's offsets.
        if slave in self._done:
            return
        own = ha_info(self._core, self._replication.port)
        await self._peers.ask(
            slave,
            ExchangeHaInfoRequestHeader(
                master_ha_address=own.master_ha_address,
                master_flush_offset=own.master_flush_offset,
                master_address=own.master_address,
            ),
        )
        # Wait before reading its tables: until the slave follows, it may accept more commits.
        await self._until_followed(slave)
        answer = await self._peers.ask(slave, GetAllDelayOffsetRequestHeader())
        delays = decode_body(answer.body_view, DelayOffsetTable, answer.encoding)
        answer = await self._peers.ask(slave, GetAllConsumerOffsetRequestHeader())
        offsets = decode_body(answer.body_view, ConsumerOffsetTable, answer.encoding)
        moved = self._offsets.take_back(offsets, self._core.store.reads.max_offset)
        self._delays.take_back(delays)
        self._done.add(slave)
        log.info("offsets.taken_back", slave=slave, queues=moved)

    async def _until_followed(self, slave: str) -> None:
        host = host_of(slave)
        hosts = {host}
        if not self._is_followed_from(hosts) and not _is_ip(host):
            # it is registered by a name, and its connection has an address
            with self._core.clock.peer_wait():
                try:
                    found = await asyncio.get_running_loop().getaddrinfo(host, None)
                except OSError as exc:
                    raise BrokerError(1, f"{slave} has no address: {exc}") from exc
            hosts.update(str(each[4][0]) for each in found)
        clock = self._core.clock
        ends_at = clock.monotonic() + STREAM_TIMEOUT_S
        while not self._is_followed_from(hosts):
            left_s = ends_at - clock.monotonic()
            if left_s <= 0:
                raise BrokerError(
                    1, f"slave {slave} did not begin to copy the log within {STREAM_TIMEOUT_S:g} s"
                )
            with clock.peer_wait():
                await clock.wait(self._streams, left_s)

    def _is_followed_from(self, hosts: set[str]) -> bool:
        """Whether a slave there has told how far it is."""
        return any(
            each.link.acked >= 0 and host_of(each.link.address) in hosts
            for each in self._replication.slaves.connections
        )


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
