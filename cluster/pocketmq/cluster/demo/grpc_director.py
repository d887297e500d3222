"""Runs `pocketmq demo --grpc`: RocketMQ's Python SDK sends and receives through a proxy.

On the way the proxy, a broker and a consumer are killed with SIGKILL; the first two start again.
"""

from __future__ import annotations

import asyncio
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from pocketmq.cluster.demo import data
from pocketmq.cluster.demo.director import FIRST_CONSUMERS, PRODUCERS, SHORTEST_SEND_S, Director
from pocketmq.cluster.demo.modes import POP_INVISIBLE_MS
from pocketmq.cluster.demo.record_file import RecordReader
from pocketmq.cluster.demo.topic import DemoTopic
from pocketmq.cluster.demo.workers import CONSUMER_GROUP, TOPIC
from pocketmq.cluster.spec import PROXY_NAME, ProcessSpec, broker_names
from pocketmq.proxy.installed import check_installed
from pocketmq.runtime.errors import MissingToolError

SDK_PYTHON: Final = "POCKETMQ_SDK_PYTHON"
"""Variable that names another Python, which has the SDK."""

WORKER: Final = Path(__file__).with_name("sdk_worker.py")

DOWN_S: Final = 2.0
"""Real seconds for which the broker is away."""


def sdk_python() -> str:
    """The Python that has RocketMQ's SDK.

    Raises:
        MissingToolError: This one has none, and no other one is named.
    """
    if named := os.environ.get(SDK_PYTHON):
        return named
    if find_spec("rocketmq") is None:
        raise MissingToolError(
            "RocketMQ's Python SDK",
            "pocketmq demo --grpc",
            f"run `pip install rocketmq-python-client`, or set {SDK_PYTHON} to a Python that has "
            "this package",
        )
    return sys.executable


def check_tools() -> None:
    """Pass if all is there that the run needs.

    Raises:
        MissingToolError: Something is not installed.
    """
    check_installed()
    sdk_python()


class GrpcDirector(Director):
    """One run, with a proxy and the SDK's clients."""

    async def _carry(self) -> dict[str, Any]:
        topic = DemoTopic(self._cluster, self._clients)
        await topic.create()
        self._say_addresses()
        self._display.say(f"SDKs are given {self._cluster.endpoints}")
        await self._start_first_workers()
        # The kills come at a quarter, a half and three quarters, so each is over before the next.
        await self._until(lambda: self._tally.distinct * 4 >= self._total)
        await self._kill_and_restart(PROXY_NAME)
        await self._until(lambda: self._tally.distinct * 2 >= self._total)
        # Down so long that sends fail even after all of the SDK's own attempts.
        await self._kill_and_restart(broker_names(1)[0], DOWN_S)
        await self._until(lambda: self._tally.distinct * 4 >= self._total * 3)
        victim = self._random.choice(FIRST_CONSUMERS)
        self._say_killed(victim)
        await self._kill_consumer(victim)

        await self._until(lambda: all(self._workers[name].is_done for name in self._producers))
        stored = await topic.stored()
        await self._until(lambda: self._tally.unread(stored) == 0)
        await self._end_workers()
        return self._figures(stored)

    def _figures(self, stored: dict[tuple[str, int], int]) -> dict[str, Any]:
        producers = [self._workers[name] for name in self._producers]
        silence_ms = max(each.silence_ms for each in producers)
        repeated = sum(each.repeated for each in producers)
        figures = super()._figures(stored)
        figures["notes"] = [
            f"{PROXY_NAME} and {broker_names(1)[0]} were killed with SIGKILL and started again; "
            f"the longest time without an acknowledgement was {silence_ms:.0f} ms",
            f"{repeated:,} sends failed after the SDK's own attempts, and were repeated",
            *figures["notes"],
        ]
        return figures

    async def _kill_and_restart(self, name: str, down_s: float = 0.0) -> None:
        self._say_killed(name)
        await self._cluster[name].kill()
        await self._clock.sleep(down_s)
        await self._cluster.restart(name)
        self._display.say(f"{name} has started again")

    async def _start_producer(self, part: int) -> None:
        name = f"producer-{part + 1}"
        path = self._data / "flights" / f"{name}.tsv"
        # In a thread, as the loop has to read the workers' reports meanwhile.
        await asyncio.to_thread(self._write_part, path, part)
        rate = self._total / SHORTEST_SEND_S / PRODUCERS
        await self._start_sdk(name, "send", "--flights", str(path), "--rate", f"{rate:.3f}")

    async def _start_consumer(self, name: str) -> None:
        path = self._data / "consumed" / f"{name}.csv"
        path.parent.mkdir(exist_ok=True)
        self._records[name] = RecordReader(path)
        # After this time the killed consumer's popped messages come again.
        hidden_s = POP_INVISIBLE_MS // 1000
        await self._start_sdk(
            name,
            "receive",
            *("--group", CONSUMER_GROUP, "--records", str(path), "--invisible-s", str(hidden_s)),
        )

    async def _start_sdk(self, name: str, does: str, *more: str) -> None:
        arguments = (
            *(does, "--name", name, "--endpoints", self._cluster.endpoints, "--topic", TOPIC),
            *more,
        )
        # `-P` keeps the script's folder off the path, where the demo's modules could hide others.
        program = (sdk_python(), "-P", str(WORKER))
        spec = ProcessSpec("client", name, "", arguments, program=program)
        await self._start(spec, env={"HOME": str(self._data)})  # below which the SDK keeps its log

    def _write_part(self, path: Path, part: int) -> None:
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as file:
            for flight in data.flights(
                data.find_csv(), self._options.flights, part=part, parts=PRODUCERS
            ):
                file.write(b"\t".join((flight.key.encode(), flight.carrier.encode(), flight.body)))
                file.write(b"\n")
