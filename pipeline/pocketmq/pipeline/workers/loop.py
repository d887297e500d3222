"""The event loop of this process, in its own thread, for code that Spark calls outside of any loop.

A Python worker runs many tasks one after the other. The loop and its connections are kept between
tasks; a forked process starts its own loop.
"""

from __future__ import annotations

import asyncio
from typing import Final

from pocketmq.runtime.loop_thread import SharedLoopThread


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


shared_loop: Final = SharedLoopThread("pocketmq-loop", _new_loop)
