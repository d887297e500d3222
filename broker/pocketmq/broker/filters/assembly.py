"""Filters, assembled."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.broker.filters.message_filters import MessageFilters
from pocketmq.broker.subject import Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters(Subject):
    """How subscriptions choose messages."""

    message_filters: MessageFilters


def assemble_filters() -> Filters:
    """By tags; further expression types are added to `message_filters`."""
    return Filters(message_filters=MessageFilters())
