"""Client instances belong to the loop that runs them."""

from __future__ import annotations

import asyncio
import gc
import weakref

from pocketmq.client.config import ClientConfig
from pocketmq.client.instances import acquire, running
from pocketmq.simulation.loop_clock import LoopClock


def test_clients_that_nobody_shut_down_end_with_their_loop() -> None:
    # An instance refers to its loop by its clock or connections: 1,000 simulated seeds kept 6 GB.
    async def forget_to_shut_down() -> weakref.ref[asyncio.AbstractEventLoop]:
        clock = LoopClock(asyncio.get_running_loop(), 0)
        instance = acquire(ClientConfig(nameservers="127.0.0.1:1", clock=clock))
        assert [each for each in running() if each.config is instance.config] == [instance]
        return weakref.ref(asyncio.get_running_loop())

    loops = [asyncio.run(forget_to_shut_down()) for _ in range(3)]
    gc.collect()
    assert [loop() for loop in loops[:2]] == [None, None]
