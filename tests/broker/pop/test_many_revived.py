"""Many popped messages that come again at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from support.broker_rig import BrokerRig, Voice
from support.pop_voice import GROUP, REVIVED_S, fill, pop

RETRY_TOPIC = f"%RETRY%{GROUP}_orders"


async def test_other_work_goes_on_while_many_messages_come_again(
    rig: BrokerRig, voice: Voice
) -> None:
    await fill(voice, 1_024, queues=1)
    popped = 0
    for _ in range(32):
        popped += len((await pop(voice)).bodies)
    assert popped > 800
    stored: list[int] = []
    seen: list[int] = []

    def arrived(_topic: str, _queue_id: int, end: int, _codes: Sequence[int]) -> None:
        stored.append(end)
        if len(stored) == 1:
            asyncio.get_running_loop().call_soon(lambda: seen.append(len(stored)))

    rig.broker.core.signals.message_arrived.connect(arrived, RETRY_TOPIC)
    await rig.advance(REVIVED_S)
    assert stored[-1] == popped
    assert seen[0] < 200
