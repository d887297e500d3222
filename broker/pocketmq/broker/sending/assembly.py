"""Builds the sending subject."""

from __future__ import annotations

import os

from pocketmq.broker.config import PERMISSION
from pocketmq.broker.core import BrokerCore
from pocketmq.broker.groups.assembly import Groups
from pocketmq.broker.locks.assembly import Locks
from pocketmq.broker.overload.assembly import OverloadGuard
from pocketmq.broker.sending.batch_sends import BatchSends
from pocketmq.broker.sending.incoming import IncomingMessages
from pocketmq.broker.sending.incoming_batches import IncomingBatches
from pocketmq.broker.sending.resends import Resends
from pocketmq.broker.sending.send_back_processor import SendBackProcessor
from pocketmq.broker.sending.send_back_reports import SendBackReports
from pocketmq.broker.sending.send_checks import SendChecks
from pocketmq.broker.sending.send_processor import SendProcessor
from pocketmq.broker.sending.send_replies import SendReplies
from pocketmq.broker.sending.sent_properties import TraitsReader
from pocketmq.broker.sending.stamp import REGION, TRACE_ON, BrokerStamp
from pocketmq.broker.storing.assembly import Storing
from pocketmq.broker.subject import Subject
from pocketmq.broker.topics.assembly import Topics
from pocketmq.protocol.messages.ids import UniqKeyFactory


def send_checks(core: BrokerCore, topics: Topics) -> SendChecks:
    """What decides whether a message is taken: of sends, and of replies (R-10)."""
    profile = core.profile.broker
    checks = SendChecks(
        topics.configs,
        broker_name=core.config.name,
        broker_permission=lambda: core.config.broker_permission,
        may_create=lambda: core.role.leads,
        invalid_parameter_code=profile.invalid_parameter_code,
        max_retry_topic_chars=profile.retry_topic_max_chars,
    )
    # Plans include the permission, so they are made anew when it changes.
    core.options.changed.connect(
        lambda names: checks.permission_changed() if PERMISSION in names else None
    )
    return checks


def assemble_sending(
    core: BrokerCore,
    topics: Topics,
    groups: Groups,
    locks: Locks,
    storing: Storing,
    overload: OverloadGuard,
    checks: SendChecks,
) -> Subject:
    """Listens to `topic_changed`, through the table of topics."""
    config, profile, clock, address = core.config, core.profile.broker, core.clock, core.address
    stamp = BrokerStamp(
        address,
        config.cluster_name,
        UniqKeyFactory(address.ip, os.getpid(), clock.time_ms),
        region_is_stored=profile.region_is_stored,
    )
    incoming = IncomingMessages(
        checks,
        Resends(
            topics.configs,
            groups.configs,
            locks.table,
            profile,
            core.stats.meters,
            events=core.events,
            broker=config.name,
        ),
        storing.rewrites,
        storing.of_sends,
        storing.halves,
        stamp,
        priorities=profile.message_priorities,
        dead_are_delayed=profile.dlq_by_send_waits,
        reader=TraitsReader(
            region_is_stored=profile.region_is_stored, wait_is_stored=profile.wait_is_stored
        ),
    )
    replies = SendReplies(
        address,
        version=core.profile.client_version,
        region=REGION,
        trace_on=TRACE_ON,
        tells_key=profile.sends_tell_transaction_id,
    )
    batches = BatchSends(
        core.store,
        storing.puts,
        IncomingBatches(
            checks,
            stamp,
            stamped=profile.batches_are_stamped,
            to_retry_topics=profile.retry_topics_take_batches,
        ),
        replies,
        core.stats,
        clock,
    )
    sends = SendProcessor(
        core.store, storing.puts, incoming, batches, replies, core.stats, overload.guard, clock
    )
    send_backs = SendBackProcessor(
        core.store,
        storing.puts,
        topics.configs,
        groups.configs,
        address,
        clock,
        SendBackReports(
            core.stats,
            lambda topic: topics.configs.get(topic) is not None,
            core.events,
            config.name,
        ),
        broker_permission=lambda: core.config.broker_permission,
    )
    return Subject(processors=(sends, send_backs), services=(sends,))
