"""Check-back: brokers ask the proxy how transactions ended, and it asks an SDK (G-72, G-73).

For brokers the proxy is a producer of each TRANSACTION topic that somebody here publishes to, under
the topic's name as its group, which every half message names.
"""

from __future__ import annotations

import structlog

from pocketmq.protocol.dispatch import Peer
from pocketmq.protocol.headers.transactions import CheckTransactionStateRequestHeader
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.proxy.conversion.delivering import delivered
from pocketmq.proxy.edge.parts import Parts
from pocketmq.proxy.protos.classes import pb
from pocketmq.runtime.errors import PocketMQError

log = structlog.get_logger()


class CheckedTopic:
    """A topic of transactions, as brokers know its producers.

    Args:
        topic: Its name.
        parts: Of the proxy.
    """

    def __init__(self, topic: str, parts: Parts) -> None:
        self.group = topic
        self.published_topics = {topic}
        self._parts = parts

    def check_transaction(
        self, peer: Peer, header: CheckTransactionStateRequestHeader, message: MessageExt
    ) -> None:
        """Pass a broker's question on to a client that publishes to the topic."""
        parts, topic = self._parts, self.group
        # Copy the message out of the frame's buffer: it waits until the client reads its stream.
        message.detach()
        # Where the header names no transaction, its id is the unique key of the half message.
        transaction_id = header.transaction_id or message.properties.get(names.UNIQ_KEY, "")
        # Without a broker name in the header, the routes show which broker has the peer's address.
        broker_name = header.bname or self._broker_at(peer.address)
        publishers = parts.clients.publishers(topic)
        if not publishers or broker_name is None or not transaction_id:
            log.warning(
                "proxy.check_for_nobody", topic=topic, broker=peer.address, msg_id=header.msg_id
            )
            return
        # Note it before asking: the answer may come at once, and has the transaction id only.
        parts.transactions.add(
            topic,
            transaction_id,
            broker_name=broker_name,
            table_offset=header.tran_state_table_offset,
            commit_log_offset=header.commit_log_offset,
        )
        told = delivered(message, parts.clock.time_ms(), None)
        told.topic.Clear()
        told.topic.name = topic  # it lies in the topic of half messages
        # One producer is asked, as brokers do: the one heard of last is most likely alive.
        asked = publishers[-1]
        assert asked.write is not None
        asked.write(
            pb.TelemetryCommand(
                recover_orphaned_transaction_command=pb.RecoverOrphanedTransactionCommand(
                    message=told, transaction_id=transaction_id
                )
            )
        )

    def _broker_at(self, address: str) -> str | None:
        known = self._parts.brokers.instance.routes.addresses()
        return next((name for name, _, each in known if each == address), None)


class CheckedTopics:
    """The topics that brokers ask this proxy about.

    Args:
        parts: Of the proxy.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._topics: set[str] = set()

    async def add(self, topic: str) -> None:
        """Tell brokers that a topic of transactions has a producer here."""
        if topic in self._topics:
            return
        # Before the first await, so that two streams that begin together register it once.
        self._topics.add(topic)
        instance = self._parts.brokers.instance
        instance.register_producer(CheckedTopic(topic, self._parts))
        try:
            await instance.lookups.refresh_route(topic)
            # Send a heartbeat now: without it brokers have nobody to ask.
            await instance.heartbeat()
        except PocketMQError as exc:  # the next heartbeat tells them
            log.info("proxy.check_not_announced", topic=topic, reason=str(exc))

    async def sweep(self) -> None:
        """Give up topics that nobody publishes to any more."""
        gone = self._topics - self._parts.clients.published_topics()
        for topic in sorted(gone):
            # Discard it first: a producer that comes meanwhile must register the topic again.
            self._topics.discard(topic)
            await self._parts.brokers.instance.unregister(producer_group=topic)
