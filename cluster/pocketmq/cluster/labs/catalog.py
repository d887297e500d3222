"""The eight labs, and where their files are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pocketmq.runtime.errors import CallerError

if TYPE_CHECKING:
    from pocketmq.cluster.labs.trial import Trial

MATERIAL: Final = Path(__file__).parent / "material"

PAGE: Final = "README.md"
PROGRAM: Final = "lab.py"


@dataclass(frozen=True, slots=True)
class Lab:
    """One lab.

    Its page is `material/lab1/README.md`, its starting file `material/lab1/lab.py`, and its judge
    `judges/<judge>.py`.
    """

    number: int
    title: str
    question: str
    judge: str
    """Module in `judges/`."""
    stages: tuple[str, ...]
    brokers: int = 1
    controllers: int = 0
    broker_arguments: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Where page and starting file lie."""
        return MATERIAL / f"lab{self.number}"

    def judged_by(self) -> Callable[[Trial], Awaitable[None]]:
        """The judge; its module is imported now."""
        # Imported on demand: judges import the client, which `pocketmq lab list` does not need.
        module = import_module(f"pocketmq.cluster.labs.judges.{self.judge}")
        judge: Callable[[Trial], Awaitable[None]] = module.judge
        return judge


KEEP_CLIENTS: Final = ("--channel-expired-timeout-ms", str(31 * 24 * 3600 * 1000))
"""The learner's program lives on real time: hours on the broker's clock must not expire it."""

LABS: Final = (
    Lab(
        1,
        "where does a message lie",
        "Which bytes of which file are this message?",
        "message_bytes",
        ("the entry", "the record", "tag and keys", "the second file", "where nothing lies"),
        # a page of the log holds about 30 of the judge's messages, so that there are several files
        broker_arguments=("--mapped-file-size-commit-log", "65536"),
    ),
    Lab(
        2,
        "route and expiry",
        "A broker stops. When does the last one hear of it?",
        "route_expiry",
        ("the route, over the wire", "frozen", "killed", "shut down normally"),
        brokers=2,
    ),
    Lab(
        3,
        "an allocation strategy",
        "Can few queues move and all still be shared out evenly?",
        "allocation",
        ("one owner each", "balance", "movement", "the same everywhere", "a real group"),
    ),
    Lab(
        4,
        "survive redelivery",
        "Messages come again. How is everything done once?",
        "redelivery",
        ("sent twice", "killed before success", "killed before anything"),
    ),
    Lab(
        5,
        "order under failure",
        "A consumer hangs and loses its lock. What protects the order?",
        "order",
        ("in order", "busy", "the answer is lost", "the lock expires"),
    ),
    Lab(
        6,
        "retry and dead letter",
        "When does a failed message come again, and when never?",
        "retries",
        ("the waits", "the budget", "poison", "hours"),
        broker_arguments=KEEP_CLIENTS,
    ),
    Lab(
        7,
        "half messages",
        "How do a message and a database become true together?",
        "half_messages",
        ("two orders", "dies before", "dies after", "asked too early"),
        broker_arguments=KEEP_CLIENTS,
    ),
    Lab(
        8,
        "who is the master",
        "The master is dead. Who may take over?",
        "election",
        ("read an election", "in sync", "unclean"),
        brokers=0,
        controllers=1,
    ),
)


def lab_of(number: int) -> Lab:
    """A lab by its number.

    Raises:
        CallerError: There is none.
    """
    for lab in LABS:
        if lab.number == number:
            return lab
    raise CallerError(
        f"there is no lab {number}; choose a number from 1 to {len(LABS)}; `pocketmq lab list` "
        "shows all labs"
    )
