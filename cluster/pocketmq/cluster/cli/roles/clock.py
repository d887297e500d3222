"""`pocketmq clock`: move the time of a running cluster."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Annotated

import msgspec
import typer

from pocketmq.client.config import ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE
from pocketmq.cluster.cli.common.output import Output, OutputFormat, Sentences, show, tell
from pocketmq.cluster.cli.common.run import (
    DEFAULT_NAMESERVERS,
    Nameservers,
    nameserver_addresses,
    remoting,
    run,
)
from pocketmq.cluster.cli.common.tables import Table
from pocketmq.cluster.cli.roles.steer import Control, Data
from pocketmq.cluster.control import ControlledProcess, discover, reachable
from pocketmq.cluster.control_address.client import ControlClient
from pocketmq.cluster.control_address.declarations import MAX_SPEED, Advance, Clock, Moved, Run
from pocketmq.cluster.durations import parse_duration_ms
from pocketmq.cluster.steering.errors import TooFarError
from pocketmq.cluster.steering.shape import MAX_ADVANCE_S
from pocketmq.protocol.errors import BrokerError, NoNameServerError
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import CallerError, ClockMemberError
from pocketmq.runtime.manual_time import lock_step

ADVANCE_HELP = """Move all clocks of a cluster together, from timer to timer.

The command moves the clocks of all processes that were started with --clock manual, except dead and
frozen processes. If only some clocks moved, a process could take its healthy peers for dead.

\b
Examples:
  pocketmq clock advance 126
      a silent broker expires after 120 s and one scan (N-2)
  pocketmq clock advance 2h
      messages of delay level 18 are delivered
  pocketmq clock advance 500ms
"""

SHOW_HELP = """Show each process's time, and when its next timer is due.

\b
Example:
  pocketmq clock show
"""

NEXT_HELP = """Move all clocks to the next timer, and show which timers fired.

\b
Example:
  pocketmq clock next
"""

RUN_HELP = """Let a manual clock run by itself, until `clock freeze`.

The clock may run faster or slower than real time.

\b
Example:
  pocketmq clock run --speed 60              a minute each second
"""

FREEZE_HELP = """Stop a clock that runs by itself.

\b
Example:
  pocketmq clock freeze
"""

SET_HELP = """Move all clocks to a time, at most 31 days ahead.

Clocks cannot go back.

\b
Examples:
  pocketmq clock set 2026-12-01T09:30:00     UTC; or with +01:00
  pocketmq clock set 1796120000000           epoch ms
"""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("advance", help=ADVANCE_HELP)(advance)
    group.command("show", help=SHOW_HELP)(show_clocks)
    group.command("next", help=NEXT_HELP)(next_deadline)
    group.command("run", help=RUN_HELP)(run_clock)
    group.command("freeze", help=FREEZE_HELP)(freeze)
    group.command("set", help=SET_HELP)(set_time)
    app.add_typer(group, name="clock", help="Move the time of a running cluster.")


def advance(
    duration: Annotated[str, typer.Argument(help="How far: seconds, or 500ms, 5m, 2h.")],
    output: Sentences = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    by_ms = parse_duration_ms(duration)
    # Checked before any role is asked: otherwise each would refuse it.
    if by_ms > MAX_ADVANCE_S * 1000:
        raise TooFarError(by_ms / 1000)
    where = nameserver_addresses(nameservers)
    silent: list[ClockMemberError] = []

    def left_out(error: ClockMemberError) -> None:
        typer.echo(f"left out: {error.member} ({error.reason})", err=True)

    async def command() -> None:
        async with remoting() as client:
            everyone = await discover(where, client)
            members = await reachable(everyone, silent.append)
            # If nobody answers, one error says more than the list of all.
            if len(silent) == len(everyone):
                # Who refuses says what is missing, and is no wrong address.
                raise next(filter(_is_refusal, silent), NoNameServerError(tuple(where)))
            for error in silent:
                left_out(error)
            # RocketMQ's own roles and PocketMQ's on real time answer, but cannot be moved.
            if not members:
                raise CallerError(
                    f"no process at {';'.join(where)} has a clock that can be moved; start the "
                    "cluster with `pocketmq up --clock manual`"
                )

            # A member that ends during the move must not stop the others.
            time_ms = await lock_step.advance(
                members, by_ms, on_lost=lambda _member, error: left_out(error)
            )
            names = [member.name for member in members]
            tell(
                output,
                {"now_ms": time_ms, "moved": names},
                f"{moment_text(time_ms)}  {', '.join(names)}",
            )

    run(command())


def show_clocks(output: Output = None, nameservers: Nameservers = DEFAULT_NAMESERVERS) -> None:
    where = nameserver_addresses(nameservers)

    async def command() -> list[ClockView]:
        async with remoting() as client:
            everyone = await discover(where, client)
            # could be better: members are asked one after another, and each silent one costs the
            # whole time limit.
            return [await _look_at(member) for member in everyone]

    views = run(command())
    # If nobody answers, the address is probably wrong.
    if all(each.kind is None and each.refused is None for each in views):
        raise NoNameServerError(tuple(where))
    show(output, [asdict(each) for each in views], clock_table(views))


@dataclass(frozen=True, slots=True)
class ClockView:
    """The clock of one process."""

    name: str
    address: str
    time_ms: int | None = None
    kind: str | None = None
    """`real` or `manual`; None when the process does not answer."""
    next_in_s: float | None = None
    """Seconds to the next deadline of a manual clock."""
    refused: str | None = None
    """Why the process does not tell its time, although it answers."""

    @property
    def state(self) -> str:
        """For people."""
        if self.kind is None:
            return self.refused or "no answer"
        if self.kind == "real":
            return "real"
        due = "nothing due" if self.next_in_s is None else f"next in {self.next_in_s:g} s"
        return f"manual, {due}"


def clock_table(views: list[ClockView]) -> Table:
    """A row for each process."""
    return Table(
        "clock",
        ("process", "address", "time", "clock"),
        [
            (
                each.name, each.address,
                None if each.time_ms is None else moment_text(each.time_ms), each.state,
            )
            for each in views
        ],
    )  # fmt: skip


def next_deadline(output: Sentences = None, control: Control = None, data: Data = None) -> None:
    _show(output, ControlClient.found(control, data).post("/clock/next", Moved))


def run_clock(
    speed: Annotated[
        float, typer.Option(min=0.001, max=MAX_SPEED, help="Protocol seconds each real second.")
    ] = 60.0,
    output: Sentences = None,
    control: Control = None,
    data: Data = None,
) -> None:
    clock = ControlClient.found(control, data).post("/clock/run", Clock, Run(speed))
    line = f"{moment_text(clock.now_ms)}  runs at x{clock.speed:g}"
    tell(output, msgspec.to_builtins(clock), line)


def freeze(output: Sentences = None, control: Control = None, data: Data = None) -> None:
    clock = ControlClient.found(control, data).post("/clock/freeze", Clock)
    tell(output, msgspec.to_builtins(clock), f"{moment_text(clock.now_ms)}  stands still")


def set_time(
    moment: Annotated[
        str, typer.Argument(help="ISO date and time in UTC, or milliseconds since 1970.")
    ],
    output: Sentences = None,
    control: Control = None,
    data: Data = None,
) -> None:
    try:
        at = int(moment) if moment.isdigit() else None
        if at is None:
            parsed = datetime.fromisoformat(moment)
            # Without a zone the moment is in UTC, as `clock show` prints it; `group reset` uses
            # local time.
            aware = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
            at = round(aware.timestamp() * 1000)
    except ValueError as exc:
        raise CallerError(f"{moment!r} is no moment; write 2030-01-01T00:00:00") from exc
    client = ControlClient.found(control, data)
    _show(output, client.post("/clock/advance", Moved, Advance(to_ms=at)))


def _show(output: OutputFormat | None, moved: Moved) -> None:
    lines = [f"+{each.in_s:.3f} s  {each.role:14} {each.what}" for each in moved.fired]
    if moved.more_fired:
        lines.append(f"and {moved.more_fired} more")
    tell(output, msgspec.to_builtins(moved), *lines, moment_text(moved.now_ms))


async def cluster_time_ms(nameservers: list[str]) -> int:
    """The time of the first name server's clock, in epoch ms.

    Raises:
        NoNameServerError: It does not answer, or is RocketMQ's, whose clock cannot be asked.
        CallerError: It tells super users only.
    """
    async with remoting() as client:
        try:
            return await ControlledProcess("the nameserver", nameservers[0], client).time_ms()
        except ClockMemberError as exc:
            if exc.refused:
                raise CallerError(
                    f"{nameservers[0]} refused to tell its time: {exc.reason}; set "
                    f"{ACCESS_KEY_VARIABLE} and {SECRET_KEY_VARIABLE} to the keys of a super "
                    "user"
                ) from exc
            raise NoNameServerError((nameservers[0],)) from exc


async def present_ms(nameservers: list[str]) -> int:
    """The cluster's time, which may be manual; this machine's if no name server tells it."""
    try:
        return await cluster_time_ms(nameservers)
    # RocketMQ's nameserver does not know this request; its cluster runs on real time. One with
    # users tells its time to super users only; for others it is taken to run on real time, too.
    except (NoNameServerError, CallerError):
        return SystemClock().time_ms()


def moment_text(time_ms: int) -> str:
    """A moment in UTC, to the millisecond; `--from`, `--to` and the like take it as it stands."""
    try:
        moment = datetime.fromtimestamp(time_ms / 1000, UTC).replace(tzinfo=None)
    # A broken message may have any number as its time.
    except (ValueError, OverflowError, OSError):
        return str(time_ms)
    return moment.isoformat(sep=" ", timespec="milliseconds") + "Z"


def _is_refusal(error: ClockMemberError) -> bool:
    return isinstance(error.__cause__, BrokerError)


async def _look_at(member: ControlledProcess) -> ClockView:
    try:
        clock = await member.clock()
    except ClockMemberError as exc:
        refused = exc.reason if _is_refusal(exc) else None
        return ClockView(member.name, member.address, refused=refused)
    if not clock.manual:
        return ClockView(member.name, member.address, clock.now_ms, "real")
    due_ms = clock.next_deadline_ms
    in_s = None if due_ms is None else (due_ms - clock.now_ms) / 1000
    return ClockView(member.name, member.address, clock.now_ms, "manual", in_s)
