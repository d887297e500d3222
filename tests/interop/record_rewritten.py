"""Recipe of `tests/golden/rewritten.json`: what RocketMQ 5.3.3 stores when it writes anew.

    python tests/interop/record_rewritten.py [FILE]

Starts a real broker, plays `support/rewriting.py` to it, and reads its log.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pocketmq.protocol.command import Encoding
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.clock import SystemClock
from support.broker_rig import Voice
from support.real_rocketmq import real_rocketmq
from support.rewriting import LEVELS, REWRITTEN, ROLL_WINDOW_SLOTS, TIMES, Play, stories

PAUSE_S = 0.1
SETTINGS = {
    **TIMES,
    "messageDelayLevel": LEVELS,
    "timerRollWindowSlot": ROLL_WINDOW_SLOTS,
    "timerWheelEnable": "true",
    "transactionOpBatchInterval": 300,
    "reviveInterval": 200,
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeTimerLog": 1 << 20,
}


def record(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """What the broker stored; its files stay in `folder`."""
    with real_rocketmq(folder / "store", settings=SETTINGS) as cluster:
        asyncio.run(_play(cluster.broker_addr, folder / "store"))
        return stories(folder / "store", cluster.broker_addr)


async def _play(address: str, store: Path) -> None:
    channel = await TcpNetwork().connect(address, Dispatcher(), encoding=Encoding.JSON)
    clock = SystemClock()
    play = Play(Voice(channel), lambda: clock.sleep(PAUSE_S), clock.time_ms, store)
    try:
        await play.all()
    finally:
        channel.close()


def text_of(told: dict[str, list[dict[str, Any]]]) -> str:
    """As the golden file has it."""
    return json.dumps(told, indent=1) + "\n"


def main() -> None:
    """Write the file of the command line, or the golden one."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else REWRITTEN
    with tempfile.TemporaryDirectory() as folder:
        told = record(Path(folder))
    target.write_text(text_of(told))
    print(f"{target}: {len(told)} ways")


if __name__ == "__main__":
    main()
