"""`HalfSends`: sends that begin a transaction, and halves that are asked about no more."""

from __future__ import annotations

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.store import StoredMessage
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.broker.transactions.counts import TransactionCounts
from pocketmq.broker.transactions.decisions import Decisions
from pocketmq.broker.transactions.half_messages import add_to_half, is_half, to_half
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.validation import (
    HALF_TOPIC,
    OP_HALF_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
)


class HalfSends:
    """Turns sends with TRAN_MSG into half messages, and keeps count of those undecided.

    Args:
        core: options, profile, clock and address.
        topics: gets the topics of halves when they are first needed.
        decisions: is told of each half that is opened.
        counts: of undecided halves by topic.
    """

    def __init__(
        self,
        core: BrokerCore,
        topics: TopicConfigManager,
        decisions: Decisions,
        counts: TransactionCounts,
    ) -> None:
        self._core = core
        self._profile = core.profile.broker
        self._topics = topics
        self._decisions = decisions
        self._counts = counts

    def to_half_topic(
        self, message: StoredMessage, properties: dict[str, str], now_ms: int
    ) -> bool:
        """Rewrite a message that begins a transaction; False, and nothing done, for others."""
        delayed_retries = self._profile.delayed_retries_are_halves
        if not is_half(message, properties, delayed_retries=delayed_retries):
            return False
        self._open(message, now_ms)
        to_half(message, properties, names_transaction=self._profile.half_names_transaction)
        return True

    def sent_half(self, message: StoredMessage, now_ms: int) -> None:
        """The same for a message that was found to be a half without decoding its properties."""
        self._open(message, now_ms)
        add_to_half(message, names_transaction=self._profile.half_names_transaction)

    def given_up(self, half: MessageExt) -> None:
        """A half was asked about often enough, and goes to the topic of those."""
        self._ensure(TRANS_CHECK_MAX_TIME_TOPIC)
        self._counts.change(half.properties.get(names.REAL_TOPIC), -1, self._core.clock.time_ms())

    def _open(self, message: StoredMessage, now_ms: int) -> None:
        # An operator can forbid transactions; refuse before the topics are created (B-100).
        if self._core.config.reject_transaction_message:
            raise RequestRefusedError(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._core.address}] sending transaction message is forbidden",
            )
        # In 4.9 the topic is created with the first half message; that of ops never is (E-70).
        self._ensure(HALF_TOPIC)
        if self._profile.system_topics_of_5x:
            self._ensure(OP_HALF_TOPIC)
        # While the topic is still the sender's: counts are shown by it, not by the half topic.
        if message.uniq_key:
            self._decisions.opened(message.uniq_key)
        self._counts.change(message.topic, 1, now_ms)

    def _ensure(self, topic: str) -> None:
        if self._topics.get(topic) is None:
            now_ms = self._core.clock.time_ms()
            self._topics.ensure_system_topic(topic, queue_nums=1, now_ms=now_ms)
