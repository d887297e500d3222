"""Builds the filters subject."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.filters.message_filters import MessageFilters
from pocketmq.broker.filters.sql92 import Sql92Filters
from pocketmq.broker.subject import Subject
from pocketmq.protocol.messages.subscription import SQL92


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters(Subject):
    """How subscriptions choose messages."""

    message_filters: MessageFilters
    sql92: Sql92Filters


def assemble_filters(core: BrokerCore) -> Filters:
    """By tags, and by SQL92 where `enable_property_filter` allows it."""
    filters = MessageFilters(core.budget)
    sql92 = Sql92Filters(text_tests=core.profile.broker.filters_test_texts)
    filters.add(SQL92, sql92.of, lambda: core.config.enable_property_filter)
    return Filters(message_filters=filters, sql92=sql92)
