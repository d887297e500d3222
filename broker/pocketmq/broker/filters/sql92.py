"""Subscriptions by SQL92: judged by the properties of each stored record (Q-23 to Q-26)."""

from __future__ import annotations

from pocketmq.broker.filters.message_filters import MessageFilter
from pocketmq.protocol.errors import FilterError
from pocketmq.protocol.filters import CompiledFilters
from pocketmq.protocol.messages.subscription import SQL92, SubscriptionData
from pocketmq.protocol.stored.record import decode_record

_CHARACTER_BYTES = 4
"""A character of an expression takes as long as so many bytes of properties: 0.2 us."""


class Sql92Filters:
    """Compiles SQL92 subscriptions to filters; each expression text is compiled once (Q-4).

    Args:
        text_tests: CONTAINS, STARTSWITH and ENDSWITH are words of the language (Q-3).
    """

    def __init__(self, *, text_tests: bool) -> None:
        self._compiled = CompiledFilters(text_tests=text_tests)

    def understands(self, subscription: SubscriptionData) -> bool:
        """Whether it is an SQL92 subscription whose expression can be compiled."""
        if subscription.expression_type != SQL92:
            return False
        try:
            self._compiled.get(subscription.sub_string)
        except FilterError:
            return False
        return True

    def of(self, subscription: SubscriptionData) -> MessageFilter:
        """The filter of a subscription; every tag hash passes it.

        Raises:
            FilterError: the expression is wrong; says where and why.
        """
        wanted = self._compiled.get(subscription.sub_string)
        return MessageFilter(
            accept_record=lambda record: wanted.matches(decode_record(record).properties),
            weight=_CHARACTER_BYTES * len(wanted.text),
        )
