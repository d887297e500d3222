"""A role that only listens and answers for its clock: what the supervisor's own tests start."""

from pocketmq.runtime.process import RoleContext, RoleOptions, load_all, report, run_role  # isort: skip

import argparse
import asyncio
import sys
from pathlib import Path

from pocketmq.operation.control.processor import ControlProcessor
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.errors import PocketMQError


async def main(role: RoleContext, mode: str, port: int) -> None:
    if mode == "silent":
        await asyncio.Event().wait()
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await role.clock.sleep(10)
            beats += 1

    control = ControlProcessor(role.clock, lambda: {"ready": "true", "beats": str(beats)})
    dispatcher = Dispatcher()
    dispatcher.add(control)
    listener = await TcpNetwork().serve("127.0.0.1", port, dispatcher)
    role.tasks.start(beat(), name="beat")
    role.ready(port=listener.port)
    print("after ready", flush=True)
    await role.stopped()
    if mode == "stubborn":
        await asyncio.Event().wait()
    if mode.startswith("saves:"):
        await asyncio.to_thread(Path(mode.removeprefix("saves:")).read_bytes)
    await control.stop()
    await listener.close()


def start() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", default="stub")
    parser.add_argument("--mode", default="")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--nameservers", default="")
    known, rest = parser.parse_known_args()
    try:
        (loaded,) = load_all(argparse.ArgumentParser(), [RoleOptions], rest)
    except PocketMQError as exc:
        return report(exc, "stub")
    return run_role(
        lambda role: main(role, known.mode, known.port),
        role="stub",
        name=known.name,
        options=loaded.config,
    )


if __name__ == "__main__":
    sys.exit(start())
