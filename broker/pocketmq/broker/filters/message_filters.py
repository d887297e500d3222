"""Message filters: a subscription as predicates that a read applies to each message."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.subscription import TAG, SubscriptionData


class MessageFilter(msgspec.Struct, gc=False, frozen=True):
    """Both tests have to pass; None passes all."""

    accept: Callable[[int], bool] | None = None
    """Takes or refuses a tag hash, before the message is touched."""
    accept_record: Callable[[memoryview], bool] | None = None
    """Takes or refuses a message by its record, which costs reading it."""
    weight: int = 0
    """What that costs beside reading the record, as if it were bytes of properties."""


Compile: TypeAlias = Callable[[SubscriptionData], MessageFilter]
"""Makes the filter of a subscription. Raises FilterError: the expression is wrong."""

_ALL = MessageFilter()


class MessageFilters:
    """Expression type -> how its expressions are compiled; TAG is there from the beginning."""

    def __init__(self) -> None:
        self._compilers: dict[str, Compile] = {TAG: by_tags}
        self._is_allowed: dict[str, Callable[[], bool] | None] = {}
        """None: always."""

    def add(
        self,
        expression_type: str,
        compiler: Compile,
        is_allowed: Callable[[], bool] | None = None,
    ) -> None:
        """Filter by expressions of this type too, while that is allowed."""
        self._compilers[expression_type] = compiler
        self._is_allowed[expression_type] = is_allowed

    def of(self, subscription: SubscriptionData) -> MessageFilter:
        """The filter of a subscription.

        Raises:
            RequestRefusedError: SYSTEM_ERROR (1): there is no filter of this type here.
            FilterError: the expression is wrong.
        """
        compiler = self._compilers.get(subscription.expression_type)
        is_allowed = self._is_allowed.get(subscription.expression_type)
        if compiler is None or (is_allowed is not None and not is_allowed()):
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR,
                f"The broker does not support consumer to filter message by "
                f"{subscription.expression_type}: subscribe by tags, or set enablePropertyFilter",
            )
        return compiler(subscription)


def by_tags(subscription: SubscriptionData) -> MessageFilter:
    """By the hash in the queue entry; the client compares the tags themselves (C-41)."""
    return _ALL if subscription.subscribes_all else MessageFilter(subscription.matches)
