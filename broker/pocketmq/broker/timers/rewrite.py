"""Sends a message with a delivery time into the wheel topic (T-105)."""

from __future__ import annotations

from pocketmq.broker.delays.delay import level_of
from pocketmq.broker.store.stored_message import StoredMessage
from pocketmq.broker.storing.rewrites import Rewrite
from pocketmq.broker.timers.rules import TimerRules, check_room, to_timer_topic
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.receipts import RecallHandle
from pocketmq.protocol.messages.validation import TIMER_TOPIC, is_retry

_TIMES = (names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS)


def timer_rewrite(rules: TimerRules, broker_name: str) -> Rewrite:
    """The rewrite of messages with a delivery time; stands before that of delay levels.

    Args:
        rules: what time means.
        broker_name: for recall handles.
    """

    def rewrite(message: StoredMessage, properties: dict[str, str], now_ms: int) -> bool:
        # Already in the wheel topic, or without a delivery time (T-105).
        if message.topic == TIMER_TOPIC or not any(name in properties for name in _TIMES):
            return False
        # A delay level takes precedence over a time; the rewrite of levels comes next (T-105,
        # B-91).
        if level_of(properties.get(names.DELAY)) > 0:
            for name in _TIMES:
                properties.pop(name, None)
            return False
        out_ms = rules.out_ms(properties, now_ms)
        # Not in the future: it stays in its own topic, for delivery at once (T-106).
        if out_ms is None:
            return False
        topic = message.topic
        to_timer_topic(message, properties, out_ms)
        # Delivery adds properties; without room for them, the message could never be delivered.
        check_room(message.properties)
        # No handle for retries: only producers recall messages.
        if message.uniq_key is not None and not is_retry(topic):
            handle = RecallHandle(topic, broker_name, out_ms + 1, message.uniq_key)
            message.recall_handle = handle.encode()
        return True

    return rewrite
