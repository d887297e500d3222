"""Who answers which request: every processor, made from the broker's parts and its options."""

from __future__ import annotations

import os
from collections.abc import Callable

from pocketmq.broker.admin.admin_processor import AdminProcessor
from pocketmq.broker.groups.client_processor import ClientProcessor
from pocketmq.broker.groups.consumer_changes import ConsumerChanges
from pocketmq.broker.groups.group_processor import GroupProcessor
from pocketmq.broker.groups.relay_processor import RelayProcessor
from pocketmq.broker.locks.lock_processor import LockProcessor
from pocketmq.broker.offsets.offset_processor import OffsetProcessor
from pocketmq.broker.offsets.reset_processor import ResetProcessor
from pocketmq.broker.overload.overload import Work
from pocketmq.broker.parts import BrokerParts, defer
from pocketmq.broker.pulling.broadcast_offsets import BroadcastOffsets
from pocketmq.broker.pulling.offset_moved import OffsetMovedEvents
from pocketmq.broker.pulling.pull_checks import PullChecks
from pocketmq.broker.pulling.pull_processor import PullProcessor
from pocketmq.broker.queries.query_processor import QueryProcessor
from pocketmq.broker.sending.incoming import IncomingMessages
from pocketmq.broker.sending.send_back_processor import SendBackProcessor
from pocketmq.broker.sending.send_checks import SendChecks
from pocketmq.broker.sending.send_processor import SendProcessor
from pocketmq.broker.sending.send_replies import SendReplies
from pocketmq.broker.topics.topic_processor import TopicProcessor
from pocketmq.protocol.control import ControlProcessor
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.hosts import pack_host
from pocketmq.protocol.ids import UniqKeyFactory
from pocketmq.protocol.properties import CLUSTER, MSG_REGION, TRACE_SWITCH

REGION = "DefaultRegion"
"""MSG_REGION of every message and answer."""


class RequestProcessors:
    """The processors of one broker, and the dispatcher that finds them.

    Args:
        parts: What they ask and change.
        control: Clock and status of the process.
        when_registered: Calls back when the name servers know of a change.
    """

    def __init__(
        self,
        parts: BrokerParts,
        control: ControlProcessor,
        *,
        when_registered: Callable[[Callable[[], None]], None],
    ) -> None:
        self._parts = parts
        self.dispatcher = Dispatcher()
        config, profile, clock = parts.config, parts.profile, parts.clock
        self.send = SendProcessor(
            parts.store, parts.tables.topics_file, parts.stats, parts.overload, clock
        )
        self._moved = OffsetMovedEvents(parts.store, clock, config.name)
        offsets = OffsetProcessor(
            parts.offsets,
            parts.store,
            parts.topics,
            parts.groups,
            parts.planner,
            clock,
            profile,
            budget=parts.budget,
        )
        self.broadcasts = BroadcastOffsets(
            parts.consumers,
            parts.offsets,
            offsets.start_offset,
            expire_s=config.broadcast_offset_expire_second,
            expire_max_s=config.broadcast_offset_expire_max_second,
        )
        self.pull = self._make_pull()
        self.clients = ClientProcessor(
            parts.consumers,
            parts.producers,
            parts.groups,
            parts.topics,
            ConsumerChanges(
                parts.groups,
                enabled=config.notify_consumer_ids_changed_enable,
                notify_broadcast_groups=profile.notify_broadcast_groups,
            ),
            parts.overload,
            clock,
            profile,
            defer,
            real_time_notify=config.real_time_notify_consumer_change,
            budget=parts.budget,
        )
        self._send_back = SendBackProcessor(
            parts.store,
            parts.topics,
            parts.groups,
            parts.tables.topics_file,
            parts.stats,
            clock,
            broker_permission=config.broker_permission,
            max_delay_level=parts.planner.max_level,
        )
        self.dispatcher.add(
            self.send,
            self._send_back,
            self.pull,
            self.clients,
            offsets,
            LockProcessor(parts.locks, clock),
            QueryProcessor(parts.store),
            control,
        )
        self._add_tools(when_registered)

    def open(self, port: int) -> None:
        """The port is known: take messages."""
        parts, config, profile = self._parts, self._parts.config, self._parts.profile
        store_host = pack_host(parts.ip, port)
        incoming = IncomingMessages(
            SendChecks(
                parts.topics,
                broker_name=config.name,
                broker_permission=config.broker_permission,
                invalid_parameter_code=profile.invalid_parameter_code,
                max_retry_topic_chars=profile.retry_topic_max_chars,
            ),
            parts.topics,
            parts.groups,
            parts.locks,
            profile,
            store_host=store_host,
            new_key=UniqKeyFactory(parts.ip, os.getpid(), parts.clock.time_ms),
            added={MSG_REGION: REGION, TRACE_SWITCH: "true", CLUSTER: config.cluster_name},
            max_delay_level=parts.planner.max_level,
        )
        self.send.open(
            incoming, SendReplies(store_host, version=profile.client_version, region=REGION)
        )
        self._send_back.open(store_host)
        self._moved.open(store_host)

    def _make_pull(self) -> PullProcessor:
        parts, config, profile = self._parts, self._parts.config, self._parts.profile
        note_broadcasts = config.enable_broadcast_offset_store
        if note_broadcasts is None:
            note_broadcasts = profile.note_broadcast_offsets
        return PullProcessor(
            parts.store,
            PullChecks(
                parts.topics,
                parts.groups,
                parts.consumers,
                broker_name=config.name,
                broker_permission=config.broker_permission,
                invalid_parameter_code=profile.invalid_parameter_code,
                budget=parts.budget,
            ),
            parts.offsets,
            parts.held,
            parts.stats,
            parts.overload,
            parts.clock,
            defer,
            long_polling=config.long_polling_enable,
            short_polling_ms=config.short_polling_time_ms,
            slave_read_enable=config.slave_read_enable,
            on_offset_moved=self._moved.note if profile.write_offset_moved_event else None,
            broadcasts=self.broadcasts if note_broadcasts else None,
        )

    def _add_tools(self, when_registered: Callable[[Callable[[], None]], None]) -> None:
        """What people and tools ask; it waits in a queue of its own (B-161)."""
        parts, config, profile = self._parts, self._parts.config, self._parts.profile
        invalid_code = profile.invalid_parameter_code
        server_side_reset = config.use_server_side_reset_offset
        tools = Dispatcher()
        tools.add(
            ResetProcessor(
                parts.offsets,
                parts.store,
                parts.topics,
                parts.groups,
                parts.consumers,
                broker_name=config.name,
                server_side=profile.server_side_reset_offset
                if server_side_reset is None
                else server_side_reset,
            ),
            TopicProcessor(
                parts.topics,
                parts.store,
                parts.offsets,
                parts.consumers,
                parts.tables.topics_file,
                parts.clock,
                when_registered=when_registered,
                topic_gone=self.pull.topic_gone,
                budget=parts.budget,
                invalid_parameter_code=invalid_code,
            ),
            RelayProcessor(parts.consumers),
            GroupProcessor(
                parts.groups,
                parts.offsets,
                parts.tables.groups_file,
                parts.clock,
                invalid_parameter_code=invalid_code,
            ),
            AdminProcessor(
                parts.store,
                parts.topics,
                parts.offsets,
                parts.planner,
                parts.consumers,
                parts.stats,
                parts.clock,
                disk_ratio=lambda: parts.disk.usage(str(parts.root)).used_ratio,
                broker_name=config.name,
            ),
        )
        for code, processor in tools.single.items():
            self.dispatcher.register(code, parts.overload.guarded(Work.ADMIN, processor))
