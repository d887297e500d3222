"""Every error a user can cause, sorted by who must act.

    PocketMQError
    ├── CallerError              the caller asked for something that cannot be done
    │   ├── ConfigError          an option has a bad name or value
    │   └── ClockStuckError      a moved clock waits for a task that never rests
    ├── PeerError                another process misbehaved or is gone
    │   └── ClockMemberError     a process did not follow a lock step
    ├── DiskError                the file system refused
    │   └── DiskFullError        no space left: what is there stays, reads go on
    └── EnvironmentFault         this machine lacks something
        ├── PortInUseError       somebody else listens there
        └── MissingToolError     a program or package is not installed

Errors that carry a response code live in `pocketmq.protocol.errors`, below the same root.
A message says what happened, with values, and then what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar


class PocketMQError(Exception):
    """Root of the tree: catch it to catch whatever PocketMQ itself raises."""

    exit_status: ClassVar[int] = 1
    """What a command that ends with this error returns to its shell."""

    def __reduce__(self) -> tuple[object, ...]:
        """How `pickle` and `copy` make it again: message and facts as they are.

        Python's own way would call the class with the message alone, which no class that builds
        its message from several facts can take. Errors cross processes in worker pools and Spark.
        """
        return _made_again, (type(self), self.args, self.__dict__)


def _made_again(
    kind: type[PocketMQError], args: tuple[object, ...], facts: dict[str, object]
) -> PocketMQError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(facts)
    return error


class CallerError(PocketMQError):
    """The caller can change what it asked for."""


class PeerError(PocketMQError):
    """Another process misbehaved or cannot be reached."""


class DiskError(PocketMQError):
    """The file system refused an operation on `path`."""

    def __init__(self, path: Path | str, reason: str, *, advice: str = "") -> None:
        self.path = Path(path)
        self.reason = reason
        self.advice = advice
        super().__init__(f"{path}: {reason}" + (f"; {advice}" if advice else ""))


class DiskFullError(DiskError):
    """No space left for data that was about to be written; nothing was changed."""


class EnvironmentFault(PocketMQError):
    """Something on this machine must change before it can work."""


class ConfigError(CallerError):
    """An option has a value that cannot be used, or a name that does not exist."""

    def __init__(self, option: str, problem: str, *, origin: str = "", advice: str = "") -> None:
        self.option = option
        self.problem = problem
        self.origin = origin
        """Where the value came from, such as `environment POCKETMQ_BROKER_PORT`."""
        self.advice = advice
        where = f" (from {origin})" if origin else ""
        super().__init__(f"{option}{where}: {problem}" + (f"; {advice}" if advice else ""))


class ClockStuckError(CallerError):
    """A manual clock moved, and the tasks it woke neither slept on it again nor ended."""

    def __init__(self, busy: Sequence[str], guard_s: float, time_ms: int) -> None:
        self.busy = tuple(busy)
        """Names of the tasks still busy, in the order in which they were woken."""
        self.guard_s = guard_s
        self.time_ms = time_ms
        super().__init__(
            f"the clock stands at {time_ms} ms: {', '.join(self.busy)} still busy after "
            f"{guard_s:g} s of real time; wrap a wait for another process in clock.peer_wait()"
        )


class ClockMemberError(PeerError):
    """A process did not answer when its clock was asked or moved, or refused."""

    def __init__(self, member: str, doing: str, reason: str, *, refused: bool = False) -> None:
        self.member = member
        self.doing = doing
        self.reason = reason
        self.refused = refused
        """It runs, and its refusal says what is missing: a super user's keys, or the secret."""
        if refused:
            super().__init__(f"{member} refused to {doing}: {reason}; give what it asks for")
        else:
            super().__init__(
                f"{member} did not answer to {doing}: {reason}; leave it out of the step if it is "
                "frozen or dead"
            )


class PortInUseError(EnvironmentFault):
    """Somebody else listens on the port."""

    def __init__(self, port: int, pid: int | None = None, *, host: str = "") -> None:
        self.port = port
        self.pid = pid
        """Process that holds the port, when the system lets us see it."""
        self.host = host
        holder = f"pid {pid}" if pid is not None else "another process"
        at = f" on {host}" if host else ""
        super().__init__(
            f"port {port}{at} is taken by {holder}; stop it or start with --port 0 for a free one"
        )


class MissingToolError(EnvironmentFault):
    """A program or package that this action needs is not installed."""

    def __init__(self, tool: str, needed_for: str, advice: str) -> None:
        self.tool = tool
        self.needed_for = needed_for
        super().__init__(f"{needed_for} needs {tool}, which is not installed; {advice}")
