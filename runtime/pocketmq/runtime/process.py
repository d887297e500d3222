"""Starts a role: loop, clock, signals, ready line, exit status.

    # pocketmq/broker/__main__.py
    from pocketmq.runtime.process import RoleContext, RoleOptions, load_all, run_role
    async def main(role: RoleContext) -> None:
        broker = ...                    # everything heavy is imported in here
        await broker.start()
        role.ready(port=broker.port)
        await role.stopped()
        await broker.stop()

Import this module before anything else that is not the standard library (`runtime.logs` says why).
Exit statuses: 0 stopped as asked, 1 an error that the user can correct, 2 an error of ours.
"""

from __future__ import annotations

from pocketmq.runtime import logs  # isort: skip  - first: keeps rich out of the process

import argparse
import asyncio
import contextlib
import errno
import gc
import os
import signal
import stat
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, TypeVar

import structlog

from pocketmq.runtime.clock import Clock, SystemClock
from pocketmq.runtime.configuration.config import Loaded, load, unknown_names
from pocketmq.runtime.configuration.flags import add_arguments
from pocketmq.runtime.configuration.options import option
from pocketmq.runtime.configuration.toml_keys import refuse_unused
from pocketmq.runtime.errors import ConfigError, EnvironmentFault, PocketMQError
from pocketmq.runtime.files.descriptors import raise_soft_limit
from pocketmq.runtime.heard_signals import call_on_signal
from pocketmq.runtime.manual_time.manual_clock import ManualClock, whole_second_ms
from pocketmq.runtime.profile import DEFAULT_PROFILE, ProfileName
from pocketmq.runtime.slow_turns import SlowTurns
from pocketmq.runtime.tasks import TaskOwner

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")

log = structlog.get_logger()

EXIT_STOPPED = 0
EXIT_CRASHED = 2

_START_OBJECTS = 50_000
"""A start makes so many objects, nearly all of which stay: the garbage collector waits for more.
What it would find among them, about 1,000 objects of a broker, is left where it is."""

PRIVATE_UMASK = 0o077
"""What a role creates is for its user alone: messages and the tables of who reads them."""

SAME_SIGNAL_S = 0.1
"""Real seconds in which a second signal is the first one once more: coreutils' `timeout` signals
its child and then the child's group, and wrappers pass a Ctrl-C on that the terminal sent too."""

ORPHAN_GRACE_S = 15
"""Real seconds in which a role whose parent died may stop in order before it is ended."""

PARENT_PID = "POCKETMQ_PARENT_PID"
"""A supervisor may put its pid here: then a parent that died before we watch it is noticed."""


@dataclass(frozen=True, kw_only=True)
class RoleOptions:
    """Options that every role process has."""

    section: ClassVar[str] = "process"

    log_level: Literal["debug", "info", "warning", "error"] = option(
        "info", help="Log messages of at least this level to standard error."
    )
    log_format: Literal["auto", "console", "json"] = option(
        "auto", help="Format of the log. auto: text on a terminal, JSON elsewhere."
    )
    clock: Literal["real", "manual"] = option(
        "real", help="real or manual. A manual clock stands still until a command moves the clock."
    )
    clock_start_ms: int = option(
        0,
        unit="ms",
        help=(
            "Start time of a manual clock, in milliseconds since 1970. 0: the current "
            "time, rounded up to a whole second."
        ),
    )
    profile: ProfileName = option(
        DEFAULT_PROFILE, help="RocketMQ release whose rules hold where RocketMQ 4.9 and 5.x differ."
    )
    exit_with_parent: bool = option(
        False, help="Stop when the process that started this process has ended."
    )

    events: bool = option(
        False,
        help=(
            "Keep events from the start on. Without this option, the role keeps events "
            "only while somebody watches them (docs/events.md)."
        ),
    )

    slow_turn_ms: int = option(
        0,
        unit="ms",
        help=(
            "Log each turn of the event loop that took longer than this time, with the "
            "reason. 0: log no turns."
        ),
    )

    def make_clock(self) -> Clock:
        """The clock that these options ask for."""
        if self.clock == "real":
            return SystemClock()
        return ManualClock(self.clock_start_ms or whole_second_ms())


class RoleContext:
    """What a role's main function gets: clock, owned tasks, a way to say ready and to stop."""

    def __init__(self, role: str, name: str, clock: Clock) -> None:
        self.role = role
        self.name = name
        self.clock = clock
        self.tasks = TaskOwner(role, on_failure=self._task_failed)
        """Background tasks of the role; the first that fails stops the role with status 2."""
        self.stop_reason: str | None = None
        self.stop_asked_at = 0.0
        """Real monotonic seconds at which it was first asked to stop."""
        self.is_ready = False
        self._gc_threshold = gc.get_threshold()
        """As it was before the start; the start may set another."""
        self._stopping = asyncio.Event()
        self._main: asyncio.Task[None] | None = None

    def ready(self, *, port: int, **facts: object) -> None:
        """Print the ready line; call it once, when requests are answered.

        Objects that exist now stay, so the garbage collector need not scan them.

        Args:
            port: Port actually bound.
            facts: More `key=value` pairs for the line; values without spaces.
        """
        self.is_ready = True
        gc.freeze()
        # The start raised the threshold; from now on requests make garbage, which must be found.
        gc.set_threshold(*self._gc_threshold)
        line = ready_line(role=self.role, name=self.name, port=port, pid=os.getpid(), **facts)
        try:
            print(line, flush=True)
        except (BrokenPipeError, ValueError) as exc:  # the process that started us no longer reads
            log.warning("ready.unread", reason=str(exc))
        log.info("role.started", role=self.role, name=self.name, port=port)

    async def stopped(self) -> None:
        """Return when the role shall stop: on a signal, `request_stop`, or a failed task."""
        await self._stopping.wait()

    def request_stop(self, reason: str) -> None:
        """Let `stopped()` return; a main function that is not ready yet is cancelled."""
        # The first reason is the cause; what fails during the stop only follows from it.
        if self.stop_reason is not None:
            return
        self.stop_reason, self.stop_asked_at = reason, SystemClock().monotonic()
        log.info("role.stopping", role=self.role, name=self.name, reason=reason)
        self._stopping.set()
        # A start that waits for a peer does not notice `stopped`, so it is cancelled.
        if not self.is_ready and self._main is not None:
            self._main.cancel()

    def _task_failed(self, task: str, error: BaseException) -> None:
        self.request_stop(f"{task} failed: {error!r}")


RoleMain = Callable[[RoleContext], Awaitable[None]]


def run_role(main: RoleMain, *, role: str, name: str, options: RoleOptions | None = None) -> int:
    """Run a role until it is told to stop; the process's exit status.

    SIGINT and SIGTERM ask it to stop in order; a second one ends it at once, unless it comes within
    `SAME_SIGNAL_S`. A `PocketMQError` becomes one line on standard error (with the traceback when
    `POCKETMQ_DEBUG` is set).
    """
    options = options if options is not None else RoleOptions()
    try:
        ready_line(role=role, name=name)  # a name that cannot be told stops us before we begin
        logs.configure(options.log_level, options.log_format)
        # Raise the limit of open files before anything listens: it bounds the connections.
        raise_soft_limit()
        os.umask(PRIVATE_UMASK)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(_run(main, role, name, options))
    except PocketMQError as exc:
        return report(exc, role)


def report(exc: PocketMQError, who: str) -> int:
    """Print an error that the user can correct, as one line; the exit status."""
    if os.environ.get("POCKETMQ_DEBUG"):
        traceback.print_exception(exc)
    print(f"{who}: {exc}", file=sys.stderr, flush=True)
    return exc.exit_status


def loop_factory(env: Mapping[str, str] = os.environ) -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop's loop where it can be imported, else asyncio's.

    `POCKETMQ_LOOP=asyncio` forces the plain one, `POCKETMQ_LOOP=uvloop` refuses to go without.
    """
    choice = env.get("POCKETMQ_LOOP", "")
    if choice not in ("", "asyncio", "uvloop"):
        raise ConfigError(
            "POCKETMQ_LOOP",
            f"{choice!r} is not an event loop that PocketMQ knows; choose asyncio or uvloop",
        )
    # Where uvloop cannot be had, asyncio's loop does the same more slowly.
    if choice != "asyncio":
        try:
            import uvloop

            return uvloop.new_event_loop
        except ImportError as exc:
            if choice == "uvloop":
                raise ConfigError("POCKETMQ_LOOP", f"uvloop cannot be imported: {exc}") from exc
    return asyncio.new_event_loop


async def _run(main: RoleMain, role: str, name: str, options: RoleOptions) -> int:
    context = RoleContext(role, name, options.make_clock())
    gc.set_threshold(_START_OBJECTS)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_log_unhandled)
    # Ask now: after the parent's death, `getppid` returns another process.
    parent = os.getppid()

    async def call_main() -> None:
        await main(context)

    # `call_main`, because `main` may return any awaitable and a task takes a coroutine only.
    context._main = asyncio.create_task(call_main(), name=f"{role}.main")
    # Before the role has done anything, so that a Ctrl-C during the start is heard too.
    for number in (signal.SIGINT, signal.SIGTERM):
        call_on_signal(loop, number, _on_signal, context, number, parent)
    if options.exit_with_parent:
        _watch_parent(context, loop)
    turns = SlowTurns(options.slow_turn_ms) if options.slow_turn_ms > 0 else None
    if turns is not None:
        turns.start()
    try:
        await context._main
    except asyncio.CancelledError:
        # The task was cancelled by others than `request_stop`: this is no orderly end.
        if context.stop_reason is None:
            raise
    except PocketMQError:
        # `run_role` reports it in one line: the user can correct it.
        raise
    except OSError as exc:
        # A port that is taken is the one such error that the user can do something about.
        if exc.errno != errno.EADDRINUSE:
            log.exception("role.crashed", role=role, name=name)
            return EXIT_CRASHED
        raise EnvironmentFault(f"{exc.strerror}; choose another with --port") from exc
    except Exception:
        log.exception("role.crashed", role=role, name=name)
        return EXIT_CRASHED
    finally:
        if turns is not None:
            turns.stop()
        # Also after a crash: a task that still runs would complain when the loop is closed.
        await context.tasks.stop()
    # The stop was orderly, but a task had failed: a supervisor must see that.
    if context.tasks.failure is not None:
        return EXIT_CRASHED
    log.info("role.stopped", role=role, name=name)
    return EXIT_STOPPED


def _on_signal(context: RoleContext, number: signal.Signals, parent: int) -> None:
    if context.stop_reason is not None:
        if SystemClock().monotonic() - context.stop_asked_at < SAME_SIGNAL_S:
            return
        log.warning("role.ended", role=context.role, name=context.name, signal=number.name)
        # Skip everything that may hang; shells show 128 + number for a signal.
        os._exit(128 + number)
    if os.getppid() != parent:
        signal.alarm(ORPHAN_GRACE_S)  # nobody is left to kill us if the orderly stop hangs
    context.request_stop(number.name)


def _log_unhandled(_loop: asyncio.AbstractEventLoop, facts: dict[str, Any]) -> None:
    exc = facts.get("exception")
    log.error("loop.failed", message=facts.get("message"), exc_info=exc if exc else None)


# -- parent -------------------------------------------------------------------------------------


def _watch_parent(context: RoleContext, loop: asyncio.AbstractEventLoop) -> None:
    """Stop the role when its parent dies: by the kernel's word on Linux, else by standard input.

    The word is SIGCONT and not SIGTERM, which a role that somebody froze (SIGSTOP) would only hear
    when it is thawed, and whoever would do that is dead. Anybody may thaw us, and the kernel also
    speaks when only the *thread* that started us ends: so we look who our parent is.
    """
    if sys.platform == "linux":
        import ctypes

        call_on_signal(loop, signal.SIGCONT, _on_continued, context, os.getppid())
        # Python has no `prctl`. If the kernel refuses the call, only this watch is missing.
        pr_set_pdeathsig = 1
        ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGCONT)
    else:
        # Only a pipe or a socket: the end of a file or of a terminal says nothing about the parent.
        mode = os.fstat(0).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            loop.add_reader(0, _on_stdin, context, loop)
    # The parent may have died before the watch began.
    expected = os.environ.get(PARENT_PID)
    if expected is not None and expected != str(os.getppid()):
        context.request_stop("parent died")


def _on_continued(context: RoleContext, parent: int) -> None:
    if os.getppid() != parent:
        _orphaned(context)


def _on_stdin(context: RoleContext, loop: asyncio.AbstractEventLoop) -> None:
    with contextlib.suppress(BlockingIOError):
        # Input is ignored; only its end counts.
        if not os.read(0, 4096):
            loop.remove_reader(0)
            _orphaned(context)


def _orphaned(context: RoleContext) -> None:
    signal.alarm(ORPHAN_GRACE_S)  # nobody is left to kill us if the orderly stop hangs
    context.request_stop("parent died")


# -- ready line ---------------------------------------------------------------------------------


def ready_line(**facts: object) -> str:
    """`READY role=broker name=broker-a port=10911 pid=4312`, the first line on standard output."""
    for key, value in facts.items():
        # Readers of the line split it at white space.
        if any(char.isspace() for char in str(value)):
            raise ConfigError(key, f"{str(value)!r} contains white space")
    return "READY " + " ".join(f"{key}={value}" for key, value in facts.items())


def parse_ready_line(line: str) -> dict[str, str] | None:
    """The facts of a ready line; None for any other line."""
    # Any program may print a long first line; a ready line has few facts.
    word, *pairs = line.split()[:64] or [""]
    if word != "READY" or not all("=" in pair for pair in pairs):
        return None
    return dict(pair.split("=", 1) for pair in pairs)


# -- options ------------------------------------------------------------------------------------


class RoleParser(argparse.ArgumentParser):
    """A parser whose complaint is one line: a role has too many options to list them each time."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see `{self.prog} --help`\n")


class ShowVersion(argparse.Action):
    """`--version` of a role: prints it and ends."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help="Show the version.")

    def __call__(self, parser: argparse.ArgumentParser, *_parsed: object) -> NoReturn:
        from importlib.metadata import version

        print(f"pocketmq {version('pocketmq')}")
        parser.exit()


def toml_file(flags: Mapping[str, Any]) -> Path | None:
    """The TOML file of a role's command line."""
    from pathlib import Path

    found = flags["config"] or flags["shared_config"]
    return Path(found) if found else None


def load_all(
    parser: argparse.ArgumentParser,
    config_classes: Sequence[type[Any]],
    arguments: Sequence[str] | None = None,
    *,
    others: Sequence[type[Any]] | None = (),
) -> list[Loaded[Any]]:
    """Parse a role's command line and load each class from it, the environment and the files.

    Adds `--config FILE.toml`, of which all is used, `--shared-config FILE.toml`, where other
    processes have tables too, and `--broker-conf FILE` to the flags of the classes. Names in the
    environment and in `broker.conf` that no class has are listed on standard error.

    Args:
        parser: Gets the flags.
        config_classes: What to load.
        arguments: The command line, by default this process's.
        others: Classes that the caller loads from the same files; None: list no unknown names.

    Raises:
        ConfigError: A value or a file is wrong.
    """
    from pathlib import Path

    toml = parser.add_mutually_exclusive_group()
    toml.add_argument("--config", metavar="TOML", default=None, help="TOML file with options.")
    toml.add_argument(
        "--shared-config",
        metavar="TOML",
        default=None,
        help="TOML file that others read too: tables of theirs are left alone.",
    )
    parser.add_argument(
        "-c", "--broker-conf", metavar="FILE", default=None, help="RocketMQ properties file."
    )
    parser.add_argument("--version", action=ShowVersion)
    add_arguments(parser, *config_classes)
    flags = vars(parser.parse_args(arguments))
    toml_path = toml_file(flags)
    # A file of `--config` is for this role alone, so the role must use all its keys.
    if flags["config"] and others is not None:
        refuse_unused(
            Path(flags["config"]),
            # The role's own table first: `refuse_unused` advises to write a stray key below the
            # first.
            sorted([*config_classes, *others], key=lambda each: each is RoleOptions),
            parser.prog,
            more_advice="; a file of several processes is given with --shared-config",
        )
    broker_conf = Path(flags["broker_conf"]) if flags["broker_conf"] else None
    loaded = [
        load(config_class, flags, os.environ, toml_path, broker_conf=broker_conf)
        for config_class in config_classes
    ]
    if others is None:
        return loaded
    ignored = unknown_names([*config_classes, *others], os.environ, broker_conf)
    if ignored:  # no log line: the level and format of logs are among these very options
        print(f"{parser.prog}: unknown options ignored: {', '.join(ignored)}", file=sys.stderr)
    return loaded
