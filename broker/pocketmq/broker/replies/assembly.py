"""Builds the replies subject."""

from __future__ import annotations

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.groups.assembly import Groups
from pocketmq.broker.replies.reply_processor import ReplyProcessor
from pocketmq.broker.sending.send_checks import SendChecks
from pocketmq.broker.sending.stamp import traced
from pocketmq.broker.storing.assembly import Storing
from pocketmq.broker.subject import Subject


def assemble_replies(
    core: BrokerCore, groups: Groups, storing: Storing, checks: SendChecks
) -> Subject:
    """Hands replies to requesters, which are producers of this broker."""
    processor = ReplyProcessor(
        groups.producers,
        checks,
        storing.puts,
        core.address,
        core.clock,
        added=traced(region_is_stored=core.profile.broker.region_is_stored),
        store_replies=lambda: core.config.store_reply_message_enable,
    )
    return Subject(processors=(processor,), services=(processor,))
