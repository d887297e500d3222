"""The modes of the demo's consumers, and what each changes in a run.

    shared       the queues are shared, many messages at a time (the default)
    orderly      the same, but the messages of a queue one after the other
    broadcast    every consumer gets every message
    failures     as shared, with a listener that fails at random: retries and dead letters
    pop          nobody owns queues: every consumer takes messages from all and acknowledges each
    failover     as shared, on three replicas whose master is killed: sends are repeated
    grpc         RocketMQ's Python SDK through a proxy; proxy, broker and consumer are killed

Pure: a mode has the arguments of brokers and consumers, and the tally for their files.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from pocketmq.cluster.demo.allocation import QueueName
from pocketmq.cluster.demo.mode_tallies import BroadcastTally, OrderedTally, RetriedTally
from pocketmq.cluster.demo.tally import Tally
from pocketmq.runtime.errors import ConfigError

ModeName: TypeAlias = Literal[
    "shared", "orderly", "broadcast", "failures", "pop", "failover", "grpc"
]

LOCK_LIFE_MS: Final = 30_000
"""A killed consumer's queue locks expire after this time; RocketMQ's 60 s would double the run. It
cannot be less, since a consumer relies on a lock for 30 s after renewing it (C-52)."""

RETRY_DELAYS: Final = ("1s", "2s")
"""Delays before the second and the third delivery, instead of RocketMQ's 10 s and 30 s."""

MAX_RECONSUME_TIMES: Final = len(RETRY_DELAYS)
"""Retries; a message that fails after them is a dead letter."""

FIRST_RETRY_LEVEL: Final = 3
"""Delay level of the first retry (B-83)."""


WITH_IDS: Final = frozenset({"failures", "pop", "failover"})
"""Modes whose consumers write down message ids, because one message may have two places."""

POP_INVISIBLE_MS: Final = 10_000
"""So long a message is hidden that a consumer popped; RocketMQ's 60 s would treble the run."""


@dataclass(frozen=True, slots=True)
class Mode:
    """One of the modes.

    Raises:
        ConfigError: The rate is not between 0 and 1.
    """

    name: ModeName = "shared"
    failure_rate: float = 0.0
    """Share of deliveries that fail, in mode `failures`."""

    def __post_init__(self) -> None:
        if self.name == "failures" and not 0 < self.failure_rate < 1:
            raise ConfigError(
                "failures", f"{self.failure_rate:g} is no rate", advice="give one between 0 and 1"
            )

    @classmethod
    def chosen(
        cls,
        *,
        orderly: bool,
        broadcast: bool,
        failures: float | None,
        pop: bool = False,
        kill_master: bool = False,
        grpc: bool = False,
    ) -> Mode:
        """The mode for the options of a command line.

        Raises:
            ConfigError: More than one was chosen, or the rate is not between 0 and 1.
        """
        if orderly + broadcast + (failures is not None) + pop + kill_master + grpc > 1:
            raise ConfigError(
                "mode",
                "only one of --orderly, --broadcast, --failures, --pop, --kill-master and "
                "--grpc can be given",
                advice="choose one of these options",
            )
        if kill_master:
            return cls("failover")
        if grpc:
            return cls("grpc")
        if failures is not None:
            return cls("failures", failures)
        if pop:
            return cls("pop")
        return cls("orderly" if orderly else "broadcast" if broadcast else "shared")

    @property
    def everyone_owns_all(self) -> bool:
        """Whether each consumer owns all queues."""
        return self.name in ("broadcast", "pop")

    def assigned(self, queues: Iterable[QueueName]) -> list[QueueName]:
        """What consumers together say that they own; -1 is all queues of a broker (K-24)."""
        if self.name == "pop":
            return sorted({QueueName(queue.broker, -1) for queue in queues})
        return list(queues)

    @property
    def stores_copies(self) -> bool:
        """Whether the topic may have flights twice: dead letters are sent again, and so is what
        a killed master, broker or proxy had not answered."""
        return self.name in ("failures", "failover", "grpc")

    def broker_arguments(self) -> tuple[str, ...]:
        """Added to each broker's command line."""
        if self.name == "orderly":
            return ("--lock-max-live-time-ms", str(LOCK_LIFE_MS))
        if self.name == "failures":
            # The list begins with level 1, so the unused levels before the first retry's need a
            # value.
            unused = ["1s"] * (FIRST_RETRY_LEVEL - 1)
            return ("--message-delay-level", " ".join([*unused, *RETRY_DELAYS]))
        if self.name == "failover":  # acknowledged means: two replicas have it (D-90)
            return ("--min-in-sync-replicas", "2")
        return ()

    def consumer_arguments(self) -> tuple[str, ...]:
        """Added to each consumer's command line."""
        return ("--mode", self.name, "--failure-rate", str(self.failure_rate))

    def notes(self) -> list[str]:
        """Lines about settings that differ from RocketMQ's defaults to keep the run short."""
        if self.name == "orderly":
            return [
                f"queue locks expire after {LOCK_LIFE_MS // 1000} s here (default: 60 s); "
                "until then no consumer takes over a killed consumer's queues"
            ]
        if self.name == "failures":
            return [
                f"retries came after {' and '.join(RETRY_DELAYS)} here, 10s and 30s by default",
                "Spark is left out: it would count dead letters that were sent again twice",
            ]
        if self.name in ("failover", "grpc"):
            return ["Spark is left out: it would count a flight twice whose send was repeated"]
        if self.name == "pop":
            return [
                f"popped messages are hidden for {POP_INVISIBLE_MS // 1000} s here, 60 s by "
                "default: then those of the killed consumer came again"
            ]
        return []

    def tally(self, total: int) -> Tally:
        """The tally for the consumers' files of a run with `total` flights."""
        match self.name:
            case "orderly":
                return OrderedTally()
            case "broadcast":
                return BroadcastTally()
            # One message may be stored at two places, so these modes count by id.
            case "failures" | "pop" | "failover" | "grpc":
                return RetriedTally(total=total)
            case "shared":
                return Tally()


DEFAULT_MODE: Final = Mode()
