"""A role that only listens: what test_process.py starts."""

from pocketmq.runtime.process import RoleContext, RoleOptions, load_all, report, run_role  # isort: skip

import argparse
import asyncio
import sys

from pocketmq.runtime.errors import ConfigError, PocketMQError
from pocketmq.runtime.ports import bind_error


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
    await role.stopped()
    server.close()
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
