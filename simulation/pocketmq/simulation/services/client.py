"""One process of a service: it can be killed, and comes back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol, TypeVar

from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import PocketMQError
from pocketmq.simulation.loop import SimProcess, VirtualLoop
from pocketmq.simulation.network import SimNetwork
from pocketmq.simulation.scenario import ServicePlan
from pocketmq.simulation.trace import Trace

T = TypeVar("T")

FAILURES = (PocketMQError, TimeoutError)
"""What a client may meet while something is wrong."""


class Surroundings(Protocol):
    """What a client needs of the cluster that it is in."""

    @property
    def loop(self) -> VirtualLoop: ...

    @property
    def network(self) -> SimNetwork: ...

    @property
    def trace(self) -> Trace: ...

    def client_options(self, process: SimProcess) -> dict[str, Any]:
        """Keyword arguments of every client in a process."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What all clients of a run share."""

    setting: Surroundings
    plan: ServicePlan
    chance: Random
    is_sending: Callable[[], bool]
    """False at the end, when nothing more is sent."""
    is_calm: Callable[[], bool]
    """The end: nobody fails or is slow."""
    numbers: Any
    """An iterator: names of messages, which no two share."""
    is_fair: bool
    """No request of any service is ever lost."""


class ServiceClient(ABC):
    """A process of a service.

    Args:
        name: Its own, in events too.
        stage: What it lives in.
    """

    def __init__(self, name: str, stage: Stage) -> None:
        self.name = name
        self.stage = stage
        self.process = SimProcess(stage.setting.loop, name)
        self._kept: list[object] = []

    def start(self) -> None:
        """A new process."""
        setting = self.stage.setting
        self.process = SimProcess(setting.loop, self.name)
        setting.network.machine_is_back(self.name)
        self.process.start(self.live(), f"live {self.name}")

    def crash(self) -> SimProcess:
        """Kill it; the dead process."""
        self.process.kill()
        self.stage.setting.network.process_died(self.process, silently=False)
        return self.process

    def kept(self, made: T) -> T:
        """Keep something of a process for as long as the run lasts.

        Nothing is stopped in order: a killed process says no goodbye, and no finalizer may run.
        """
        self._kept.append(made)
        return made

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of its clients."""
        return self.stage.setting.client_options(self.process)

    @property
    def clock(self) -> Clock:
        """Its process's."""
        return self.process.clock

    def note(self, *words: object) -> None:
        """Into the trace."""
        self.stage.setting.trace.note(*words)

    async def pause(self) -> None:
        """Between two sends."""
        await self.clock.sleep(self.stage.chance.uniform(0.5, 1.5) * self.stage.plan.gap_s)

    @abstractmethod
    async def live(self) -> None:
        """What the process does."""
