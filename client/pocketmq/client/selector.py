"""`MessageSelector`: which messages of a topic a consumer wants (C-15, Q-20)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from pocketmq.protocol.filters import compile_sql92
from pocketmq.protocol.messages.subscription import SQL92, SUB_ALL, TAG, SubscriptionData


@dataclass(frozen=True, slots=True)
class MessageSelector:
    """An expression with its type; for `subscribe`."""

    expression: str = SUB_ALL
    type: str = TAG

    @classmethod
    def by_tag(cls, expression: str) -> Self:
        """Tags as `TagA || TagB`, or `*`."""
        return cls(expression, TAG)

    @classmethod
    def by_sql(cls, expression: str) -> Self:
        """An SQL92 condition on properties, as `price > 5 AND region = 'east'`.

        Brokers of RocketMQ need `enablePropertyFilter=true` for it.

        Raises:
            FilterError: it is none; says at which character, and why.
        """
        compile_sql92(expression)
        return cls(expression, SQL92)

    @classmethod
    def of(cls, expression: str | MessageSelector, expression_type: str) -> MessageSelector:
        """What `subscribe` was given, as a selector.

        Raises:
            FilterError: it is SQL92 by its type, and not by its text.
        """
        if isinstance(expression, MessageSelector):
            return expression
        if expression_type == SQL92 and expression.strip():
            return cls.by_sql(expression)
        return cls(expression, expression_type)

    def subscription(self, topic: str, version: int) -> SubscriptionData:
        """As heartbeats carry it.

        Args:
            topic: what is subscribed to.
            version: now, in epoch ms.

        Raises:
            SubscriptionError: the expression names nothing, or its type is unknown.
        """
        return SubscriptionData.parse(
            topic, self.expression, version, expression_type=self.type, refuse_blanks=True
        )
