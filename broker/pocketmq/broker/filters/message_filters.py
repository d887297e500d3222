"""Message filters: a subscription as predicates that a read applies to each message.

Expressions that peers bring with a request become subscriptions here and nowhere else, whichever
request it is: so the bound on their length and the bytes of those kept hold for all.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.protocol.budget import BudgetSource, default_budget
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import SubscriptionError
from pocketmq.protocol.messages.subscription import TAG, SubscriptionData

_KEPT_BYTES: Final = 1024 * 1024
"""Parsed expressions may take so much memory; the ones asked for longest ago go first."""
_KEPT_CHARS: Final = 512
"""Longer expressions are parsed each time: few of them would push out all others."""


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
    """Expression type -> how its expressions are compiled; TAG is there from the beginning.

    Args:
        budget: how long an expression may be.
    """

    def __init__(self, budget: BudgetSource = default_budget) -> None:
        self._budget = budget
        self._parsed: OrderedDict[tuple[str, str], SubscriptionData] = OrderedDict()
        self.kept_bytes = 0
        """What the parsed expressions that are kept take."""
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

    def parse(
        self, topic: str, expression: str | None, version: int, expression_type: str | None
    ) -> SubscriptionData:
        """The subscription that a request brings; a consumer repeats its own, so it is kept.

        The topic and version are those of the first request with this expression.

        Args:
            topic: what is subscribed to.
            expression: what is wanted of it.
            version: of the subscription, in epoch ms.
            expression_type: nothing is `TAG`.

        Raises:
            OverBudgetError: SUBSCRIPTION_PARSE_FAILED (23): it is too long (subscription_chars).
            RequestRefusedError: SUBSCRIPTION_PARSE_FAILED (23): it cannot be read.
        """
        text, kind = expression or "", expression_type or TAG
        self._budget().check(
            "subscription_chars",
            len(text),
            "characters of the subscription",
            advice="subscribe to fewer tags",
            code=ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        )
        key = (text, kind)
        data = self._parsed.get(key)
        if data is not None:
            self._parsed.move_to_end(key)
            return data
        try:
            data = SubscriptionData.parse(topic, expression, version, expression_type=kind)
        except SubscriptionError as exc:
            raise RequestRefusedError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(exc)) from exc
        if len(text) <= _KEPT_CHARS:
            self._parsed[key] = data
            self.kept_bytes += _bytes_of(data)
            while self.kept_bytes > _KEPT_BYTES:
                _, oldest = self._parsed.popitem(last=False)
                self.kept_bytes -= _bytes_of(oldest)
        return data

    def of(self, subscription: SubscriptionData, *, allowed: bool = False) -> MessageFilter:
        """The filter of a subscription.

        Args:
            subscription: What a group wants.
            allowed: Whether options cannot forbid it, as those of pulls do.

        Raises:
            RequestRefusedError: SYSTEM_ERROR (1): there is no filter of this type here.
            FilterError: the expression is wrong.
        """
        compiler = self._compilers.get(subscription.expression_type)
        is_allowed = self._is_allowed.get(subscription.expression_type)
        if compiler is None or not (allowed or is_allowed is None or is_allowed()):
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR,
                f"The broker does not support consumer to filter message by "
                f"{subscription.expression_type}: subscribe by tags, or set enablePropertyFilter",
            )
        return compiler(subscription)


def _bytes_of(data: SubscriptionData) -> int:
    """What a kept subscription takes: its texts, its sets, and its place among the others."""
    sets = (data.tags_set, data.code_set)
    texts = (data.topic, data.sub_string, data.expression_type)
    parts = sum(sys.getsizeof(each) for some in sets for each in some)
    return 512 + parts + sum(map(sys.getsizeof, sets)) + sum(map(sys.getsizeof, texts))


def by_tags(subscription: SubscriptionData) -> MessageFilter:
    """By the hash in the queue entry; the client compares the tags themselves (C-41)."""
    return _ALL if subscription.subscribes_all else MessageFilter(subscription.matches)
