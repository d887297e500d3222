"""Delays by milliseconds (B-96) are refused rather than delivered early."""

from __future__ import annotations

from pocketmq.broker.delays.delay import level_of
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.store.stored_message import StoredMessage
from pocketmq.protocol import properties as names
from pocketmq.protocol.codes import ResponseCode

_TIMERS = (names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS)


def refuse_timers(message: StoredMessage, properties: dict[str, str], now_ms: int) -> bool:
    """Stands where the rewrite of timers would stand. Beside a level they are taken away.

    Raises:
        RequestRefusedError: SYSTEM_ERROR (1): the time has not come yet.
    """
    if not any(name in properties for name in _TIMERS):
        return False
    if level_of(properties.get(names.DELAY)) > 0:
        for name in _TIMERS:
            properties.pop(name, None)
        return False
    if (
        level_of(properties.get(names.TIMER_DELAY_SEC)) > 0
        or level_of(properties.get(names.TIMER_DELAY_MS)) > 0
        or level_of(properties.get(names.TIMER_DELIVER_MS)) > now_ms
    ):
        raise RequestRefusedError(
            ResponseCode.SYSTEM_ERROR,
            "this broker delays by level only; set DELAY (1..18) and no TIMER_ property",
        )
    return False
