"""What becomes of popped messages: acknowledged, or to be seen again after a while (K-170)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from pocketmq.client.consumer.popping.requests import PopClient
from pocketmq.client.instance import ClientInstance
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.runtime.errors import PocketMQError

log = structlog.get_logger()

DELAYS_S: Final = (
    10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200
)  # fmt: skip
"""How long a failed message stays hidden, by the number of its tries."""

GIVE_UP_AGE_S: Final = 2 * DELAYS_S[-1]
"""A message with too many tries is acknowledged once it is older; nothing goes to `%DLQ%`."""


def delay_s(message: MessageExt, level: int) -> int:
    """How long a failed message stays hidden.

    Args:
        message: How often it was tried counts when no level is asked for.
        level: What the listener's context asks for; 0 or less: nothing.
    """
    index = level if level > 0 else message.reconsume_times
    return DELAYS_S[min(index, len(DELAYS_S) - 1)]


def last_delay_s(age_s: float) -> int | None:
    """How long a message that had all its tries stays hidden; None: it is given up."""
    if age_s > GIVE_UP_AGE_S:
        return None
    return next((delay for delay in DELAYS_S if delay > age_s), DELAYS_S[-1])


class PopSettling:
    """Tells brokers, without waiting for their answers: what they refuse comes again.

    Args:
        group: Consumer group.
        instance: Its connections, clock and tasks.
        client: Sends the requests.
        max_retries: After so many tries a message is given up when it is old enough.
    """

    def __init__(
        self, group: str, instance: ClientInstance, client: PopClient, max_retries: int
    ) -> None:
        self._group = group
        self._instance = instance
        self._client = client
        self._max_retries = max_retries

    def is_over(self, message: MessageExt) -> bool:
        """Whether a message had more tries than allowed: it is not handed out (K-168)."""
        return message.reconsume_times > self._max_retries

    def ack(self, messages: Sequence[MessageExt]) -> None:
        """They are consumed; returns at once."""
        for acked in self._client.acks(messages):
            acked.add_done_callback(lambda done: self._told(done, messages))

    def later(self, message: MessageExt, delay_level: int) -> None:
        """It failed; returns at once."""
        if message.reconsume_times < self._max_retries:
            hidden_s: int | None = delay_s(message, delay_level)
        else:
            age_ms = self._instance.clock.time_ms() - message.born_timestamp_ms
            hidden_s = last_delay_s(age_ms / 1000)
        if hidden_s is None:
            log.warning("message.given_up", group=self._group, msg_id=message.msg_id)
            self.ack([message])
            return
        hidden_ms = hidden_s * 1000

        async def hide() -> None:
            try:
                await self._client.change_invisible(message, hidden_ms)
            except PocketMQError as exc:
                self._not_settled("change_invisible", [message], exc)

        self._instance.tasks.start(hide(), name=f"change_invisible {message.topic}")

    def _told(self, done: asyncio.Future[None], messages: Sequence[MessageExt]) -> None:
        error = None if done.cancelled() else done.exception()
        if isinstance(error, PocketMQError):
            self._not_settled("ack", messages, error)
        elif error is not None:
            log.error("pop.ack_failed", group=self._group, exc_info=error)

    def _not_settled(self, what: str, messages: Sequence[MessageExt], error: PocketMQError) -> None:
        """One of them at least; its check point holds, and it comes again."""
        log.warning(
            "pop.not_settled",
            group=self._group,
            what=what,
            among=len(messages),
            first_msg_id=messages[0].msg_id,
            reason=str(error),
        )
