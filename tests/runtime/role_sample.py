"""A role that only listens: what test_process.py starts."""

from pocketmq.runtime.process import RoleContext, RoleOptions, load_all, report, run_role  # isort: skip

import argparse
import asyncio
import os
import signal
import sys

from pocketmq.runtime import process
from pocketmq.runtime.errors import ConfigError, PocketMQError
from pocketmq.runtime.ports import bind_error

PATIENCE_S = 3600.0


async def main(role: RoleContext, mode: str, port: int) -> None:
    async def fail() -> None:
        await role.clock.sleep(0)
        raise ValueError("a task broke")

    if mode == "config-error":
        raise ConfigError("listen_port", "is missing")
    if mode == "crash":
        raise KeyError("ours")
    if mode == "never-ready":
        print("STARTING", flush=True)
        await asyncio.Event().wait()
    try:
        server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", port)
    except OSError as exc:
        if mode == "raw-bind":
            raise
        raise bind_error(exc, "127.0.0.1", port) from exc
    if mode == "task-fails":
        role.tasks.start(fail(), name="failing")
    role.ready(port=server.sockets[0].getsockname()[1], clock=type(role.clock).__name__)
    if mode == "signalled-twice":
        process.SAME_SIGNAL_S = PATIENCE_S  # a busy machine may be slow between the two
        os.kill(os.getpid(), signal.SIGTERM)
    await role.stopped()
    server.close()
    if mode == "signalled-twice":
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(10):  # turns, in which it is heard
            await role.clock.sleep(0)
    print(f"STOPPED loop={type(asyncio.get_running_loop()).__module__}", flush=True)
    if mode == "hang":
        await asyncio.Event().wait()


def start() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", default="")
    parser.add_argument("--port", type=int, default=0)
    known, rest = parser.parse_known_args()
    try:
        (loaded,) = load_all(argparse.ArgumentParser(), [RoleOptions], rest)
    except PocketMQError as exc:
        return report(exc, "sample")
    return run_role(
        lambda role: main(role, known.mode, known.port),
        role="sample",
        name="sample-a",
        options=loaded.config,
    )


if __name__ == "__main__":
    sys.exit(start())
