"""`pocketmq store`: inspects and checks the files of a broker, and rebuilds a stopped one's."""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import structlog
import typer

from pocketmq.cluster.cli.common.output import Output, Sentences, show, tell
from pocketmq.cluster.cli.common.tables import Cell, Table
from pocketmq.cluster.messages.formats import MessageFormat
from pocketmq.runtime import logs
from pocketmq.runtime.errors import CallerError
from pocketmq.runtime.profile import DEFAULT_PROFILE, ProfileName, profile_named
from pocketmq.runtime.words import counted

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID
    from structlog.typing import EventDict

    from pocketmq.broker.store.tools.inspect import StoreFacts
    from pocketmq.broker.store.tools.rebuild import Rebuild
    from pocketmq.broker.store.tools.verify import Verified

INSPECT_HELP = """Show a store's files, offsets, topics, sizes and times.

DIR is a store root, or a folder of store roots. The command changes nothing. A broker may use the
store at the same time.

\b
Examples:
  pocketmq store inspect ~/store
  pocketmq store inspect ./flights            each broker's store below it
  pocketmq store inspect ~/store -o json
"""

VERIFY_HELP = """Check every record, queue entry and index entry.

For each record, the command checks the record's offsets and the CRC of the record's body.

The command prints each problem with its file and byte. The exit status is 1 if there is a problem.
If a broker was killed, the store can have damage that the broker's next start repairs. The command
prints such damage only as a note. The command changes no file. If a broker has the store open, the
command checks the data that the store had at the command's start.

\b
Examples:
  pocketmq store verify ~/store
  pocketmq store verify ./flights             each broker's store below it
"""

CAT_HELP = """Print the messages of one queue, as JSON lines or raw records.

If a body is not UTF-8, the command prints the body as base64, in the field bodyBase64. If a message
cannot be read, standard error says so, and the exit status is 1. A broker may use the store at the
same time.

\b
Examples:
  pocketmq store cat ~/store --topic orders --queue 0 --from 100 --count 10
  pocketmq store cat ~/store --topic orders -f '%o %k %s\\n'
  pocketmq store cat ~/store --topic orders --raw > records.bin
"""

REBUILD_HELP = """Rebuild consume queues and index from the log.

Stop the broker before you run this command. The command first deletes the old queues and the old
index.

\b
Example:
  pocketmq store rebuild ~/store
  pocketmq store rebuild ~/store --profile 5.3     an index without tags
"""

_MOST_SHOWN = 200

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="A store root.", show_default=False)]
IndexSlots = Annotated[
    int | None,
    typer.Option(
        "--index-slots",
        min=1,
        help=(
            "Number of hash slots in an index file. Default: a quarter of the number of "
            "entries in the file."
        ),
        show_default=False,
    ),
]
DelayLevels = Annotated[
    str | None,
    typer.Option(
        "--delay-levels",
        metavar="'1s 5s ...'",
        help=(
            "The broker's value of the option message_delay_level. Needed only if the "
            "broker does not use the default."
        ),
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("inspect", help=INSPECT_HELP)(inspect)
    group.command("verify", help=VERIFY_HELP)(verify)
    group.command("cat", help=CAT_HELP)(cat)
    group.command("rebuild", help=REBUILD_HELP)(rebuild)
    app.add_typer(group, name="store", help="Inspect, check and rebuild a broker's store.")


# -- inspect -------------------------------------------------------------------------------------


def inspect(directory: Directory, index_slots: IndexSlots = None, output: Output = None) -> None:
    import msgspec

    from pocketmq.broker.store.disk.disk import OsDisk
    from pocketmq.broker.store.tools.inspect import inspect_store
    from pocketmq.broker.store.tools.running_store import open_store
    from pocketmq.broker.store.tools.stopped_store import find_stores

    disk = OsDisk()
    found: list[StoreFacts] = []
    for root in find_stores(disk, str(directory)):
        with open_store(disk, root, index_slots=index_slots) as store:
            found.append(inspect_store(store))
    if output == "json":
        show(output, msgspec.to_builtins(found))
        return
    for facts in found:
        told = _told(facts)
        heading = "\n".join(told)
        summary = Table("store", ("root", "state", "messages", "log"), [told])
        show(output, None, *store_tables(facts), heading=heading, summary=summary)


def _told(facts: StoreFacts) -> tuple[str, str, str, str]:
    """Root, state, times and log of a store, in words."""
    state = "stopped cleanly" if facts.is_clean else "not stopped cleanly; the next start recovers"
    # The files of a running broker always look as if it had not stopped cleanly.
    if facts.is_running:
        state = "a broker has it open; as it was a moment ago"
    elif facts.is_ledger:
        state = "written by DLedger: can only be read"
    span = f"{_when(facts.first_ms)} to {_when(facts.last_ms)}" if facts.last_ms else "no messages"
    held = facts.max_physical - facts.min_physical
    confirmed = f", confirmed to {facts.confirmed}" if facts.confirmed >= 0 else ""
    return (
        facts.root,
        state,
        span,
        f"log offsets {facts.min_physical} to {facts.max_physical} ({_bytes(held)}){confirmed}",
    )


def store_tables(facts: StoreFacts) -> tuple[Table, Table]:
    """Its files and its queues."""
    files: list[tuple[Cell, ...]] = [
        (file.path, _bytes(file.used), _bytes(file.size))
        for file in (*facts.log_files, *facts.config_files)
    ]
    for index in facts.index_files:
        # RocketMQ's layout of an index file: a header of 40 bytes, 4 for each slot, 20 for each
        # entry.
        size = facts.shape.index_slots * 4 + index.entries * 20 + 40
        files.append((index.path, _bytes(size), _entries(index.entries)))
    return (
        Table("file", ("file", "used", "length"), files),
        Table(
            "queue",
            ("topic", "queue", "min", "max", "size", "first", "last"),
            [
                (
                    queue.topic, str(queue.queue_id), queue.min_offset, queue.max_offset,
                    _bytes(queue.size_bytes), _minute(queue.first_ms), _minute(queue.last_ms),
                )
                for queue in facts.queues
            ],
        ),
    )  # fmt: skip


def _when(time_ms: int, form: str = "%Y-%m-%d %H:%M:%SZ") -> str:
    """A time in UTC, which the Z says: times that people type are local ones without it."""
    if time_ms <= 0:
        return "-"
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime(form)
    # A damaged record may contain any number.
    except (ValueError, OverflowError, OSError):
        return str(time_ms)


def _minute(time_ms: int) -> str:
    return _when(time_ms, "%Y-%m-%d %H:%MZ")


def _bytes(count: int) -> str:
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


# -- verify --------------------------------------------------------------------------------------


def verify(
    directory: Directory,
    index_slots: IndexSlots = None,
    delay_levels: DelayLevels = None,
    output: Sentences = None,
) -> int:
    import msgspec

    from pocketmq.broker.store.disk.disk import OsDisk
    from pocketmq.broker.store.tools.stopped_store import find_stores
    from pocketmq.broker.store.tools.verify import verify_store
    from pocketmq.protocol.messages.properties import DELAY_LEVELS

    disk = OsDisk()
    found: list[Verified] = []
    for root in find_stores(disk, str(directory)):
        with _progress() as bar:
            task = bar.add_task(os.path.basename(root), total=None)

            # Bound as defaults: a plain closure would see only the last store's bar.
            def show(done: int, total: int, bar: Progress = bar, task: TaskID = task) -> None:
                bar.update(task, completed=done, total=total, refresh=True)

            result = verify_store(
                disk,
                root,
                workers=os.cpu_count() or 1,
                index_slots=index_slots,
                delay_levels=delay_levels or DELAY_LEVELS,
                progress=show,
            )
        found.append(result)
        if output != "json":
            # Reported store by store: a large store takes minutes, so its problems can be read
            # meanwhile.
            _report(result)
    if output == "json":
        tell(output, msgspec.to_builtins(found))
    return int(any(each.problem_count for each in found))


def _report(result: Verified) -> None:
    for note in result.notes:
        typer.echo(f"note: {note}")
    shown = result.problems[:_MOST_SHOWN]
    for problem in shown:
        typer.echo(str(problem))
    if hidden := result.problem_count - len(shown):
        typer.echo(f"... and {hidden:,} more")
    counts = (
        f"{counted(result.records, 'record')} in {_bytes(result.log_bytes)}, "
        f"{_entries(result.entries, 'queue')}, {_entries(result.index_entries, 'index')}"
    )
    count = result.problem_count
    verdict = counted(count, "problem") if count else "all right"
    typer.echo(f"{result.root}: {verdict}: {counts}")


def _entries(count: int, of: str = "") -> str:
    return " ".join(filter(None, (f"{count:,}", of, "entry" if count == 1 else "entries")))


def _progress() -> AbstractContextManager[Progress]:
    """A progress bar on standard error without a thread of its own: `verify_store` forks."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    console = Console(stderr=True, force_terminal=sys.stderr.isatty())
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        console=console,
        transient=True,
        auto_refresh=False,
        disable=not console.is_terminal,
    )


# -- cat -----------------------------------------------------------------------------------------


def cat(
    directory: Directory,
    topic: Annotated[str, typer.Option(help="Topic to print.")],
    queue: Annotated[int, typer.Option(min=0, help="Queue id.")] = 0,
    start: Annotated[int, typer.Option("--from", min=0, help="First offset.")] = 0,
    count: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of messages.", show_default="all")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Write the records as stored.")] = False,
    format_text: Annotated[
        str | None,
        typer.Option(
            "--format", "-f", help="As kcat's; `pocketmq message tail --help` lists the letters."
        ),
    ] = None,
    output: Annotated[
        Literal["json"] | None,
        typer.Option("--output", "-o", help="How to print.", show_default="json"),
    ] = None,
) -> int:
    if sum((raw, format_text is not None, output is not None)) > 1:
        raise CallerError("give only one of --raw, -f and -o")
    in_format = None if format_text is None else MessageFormat(format_text)
    from pocketmq.broker.store.disk.disk import OsDisk
    from pocketmq.broker.store.tools.dump import read_queue
    from pocketmq.broker.store.tools.running_store import open_store
    from pocketmq.broker.store.tools.stopped_store import Problem, find_stores
    from pocketmq.protocol.messages.message_json import as_json

    disk = OsDisk()
    roots = find_stores(disk, str(directory))
    if len(roots) > 1:
        names = ", ".join(os.path.basename(root) for root in roots)
        # Queues of several brokers have the same topic and id, so their offsets would be confused.
        raise CallerError(f"{directory} holds several stores: {names}; name one of them")
    status = printed = 0
    with open_store(disk, roots[0]) as store:
        for found in read_queue(store, topic, queue, start):
            if isinstance(found, Problem):
                typer.echo(str(found), err=True)
                # It continues: one damaged record must not hide the records after it.
                status = 1
                continue
            if raw:
                sys.stdout.buffer.write(found.record)
            elif in_format is not None:
                sys.stdout.buffer.write(in_format.line(found))
            else:
                print(json.dumps(as_json(found), ensure_ascii=False))
            printed += 1
            if printed == count:
                break
        sys.stdout.flush()
    return status


# -- rebuild -------------------------------------------------------------------------------------


def rebuild(
    directory: Directory,
    index_slots: IndexSlots = None,
    delay_levels: DelayLevels = None,
    profile: Annotated[
        ProfileName,
        typer.Option(
            "--profile",
            help="Profile of the broker. From profile 5.5 on, the index also contains tags.",
        ),
    ] = DEFAULT_PROFILE,
    output: Sentences = None,
) -> None:
    from pocketmq.broker.store.disk.disk import OsDisk
    from pocketmq.broker.store.tools.rebuild import Rebuild
    from pocketmq.broker.store.tools.stopped_store import find_stores
    from pocketmq.protocol.messages.properties import DELAY_LEVELS
    from pocketmq.runtime.clock import SystemClock

    # The command reports losses itself, with their place in the log.
    if "POCKETMQ_DEBUG" not in os.environ:
        logs.configure("error", first=_without_losses)
    disk = OsDisk()
    facts: list[dict[str, Any]] = []
    for root in find_stores(disk, str(directory)):
        work = Rebuild(
            disk,
            root,
            SystemClock(),
            profile_named(profile).broker,
            index_slots=index_slots,
            delay_levels=delay_levels or DELAY_LEVELS,
        )
        _run(work, os.path.basename(root))
        if output == "json":
            facts.append(
                {
                    "root": root,
                    "entries": work.entries,
                    "index_entries": work.index_entries,
                    "lost": [list(each) for each in work.lost],
                }
            )
            continue
        typer.echo(
            f"{root}: {_entries(work.entries, 'queue')} and {_entries(work.index_entries, 'index')}"
            f" from {_bytes(work.reached_offset - work.start_offset)} of log"
        )
        for at, size, reason in work.lost:
            typer.echo(f"lost: {counted(size, 'byte')} at log offset {at}: {reason}")
    if output == "json":
        tell(output, facts)


def _without_losses(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Leave out what the command itself prints."""
    if event.get("event") == "record.lost":
        raise structlog.DropEvent
    return event


def _run(work: Rebuild, name: str) -> None:
    """Rebuild on another thread, and show the progress."""
    with ThreadPoolExecutor(1) as pool, _progress() as bar:
        task = bar.add_task(name, total=work.end_offset - work.start_offset)
        job = pool.submit(work.run)
        # Only this thread draws, as Rich's bar belongs to it.
        while not wait([job], timeout=0.1).done:
            bar.update(task, completed=work.reached_offset - work.start_offset, refresh=True)
        job.result()
