"""`pocketmq watch`: a cluster, running or recorded, in the browser."""

from __future__ import annotations

import tempfile
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from pocketmq.cluster.cli.roles.steer import Control, Data
from pocketmq.runtime.errors import CallerError
from pocketmq.runtime.words import counted

WATCH_HELP = """Watch a cluster, or a recording of a cluster, in the browser.

The page shows processes and clients, messages as they travel, the owner of each queue, and the
files.

Without an option, the command opens the page of the running cluster. You can show a recording again
without a cluster, at any speed. You can also export a recording as one HTML file, which needs no
server.

\b
Examples:
  pocketmq watch
      the cluster that `pocketmq up` started
  pocketmq watch --demo
      a small cluster with clients, to look at and to break
  pocketmq watch --record lesson.jsonl       record what happens, until Ctrl-C
  pocketmq watch --from lesson.jsonl         show a recording
  pocketmq watch --export lesson.html
      the same as one HTML file that needs no server
  pocketmq watch --from lesson.jsonl --export lesson.html
  pocketmq watch --export lesson.html --begin 10 --end 30 --from lesson.jsonl
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("watch", help=WATCH_HELP)(watch)


def watch(
    control: Control = None,
    data: Data = None,
    source: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Show this recording.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option("--record", metavar="FILE", help="Record into this file.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="Record for so long.", show_default="until Ctrl-C")
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option("--export", metavar="HTML", help="Put a recording into one HTML file."),
    ] = None,
    begin: Annotated[
        float | None,
        typer.Option(min=0, help="First second to export.", show_default="the beginning"),
    ] = None,
    end: Annotated[
        float | None, typer.Option(min=0, help="Last second to export.", show_default="the end")
    ] = None,
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Start a small cluster with clients, and show this cluster."),
    ] = False,
    browser: Annotated[
        bool,
        typer.Option(
            "--browser/--no-browser",
            help="Open the page in a browser. With --no-browser, only print the page's URL.",
        ),
    ] = True,
) -> int:
    if demo and (source or record or export):
        raise CallerError("--demo starts a cluster of its own; leave out --from, --record "
                          "and --export")  # fmt: skip
    if seconds is not None and (source is not None or not (record or export)):
        raise CallerError("--seconds says how long to record; give it only with --record FILE "
                          "or --export HTML, and without --from")  # fmt: skip
    # Recording and showing always use the whole file.
    if (begin, end) != (None, None) and export is None:
        raise CallerError(
            "--begin and --end choose what --export HTML writes; give --export HTML too"
        )
    if demo:
        from pocketmq.cluster.watching.demo import run_watch_demo

        return run_watch_demo(lambda url: _show(url, browser=browser))
    if export is not None:
        from pocketmq.cluster.watching.export import export_recording

        with tempfile.TemporaryDirectory() as folder:
            # Without a recording, a temporary one is made first.
            if record is not None or source is None:
                source = record or Path(folder) / f"{export.stem}.jsonl"
                _record(control, data, source, seconds)
            typer.echo(export_recording(source, export, begin_s=begin, end_s=end))
        return 0
    if record is not None:
        _record(control, data, record, seconds)
        return 0
    if source is not None:
        from pocketmq.cluster.watching.recording_server import serve_recording

        return serve_recording(source, lambda url: _show(url, browser=browser))
    from pocketmq.cluster.control_address.client import ControlClient
    from pocketmq.cluster.control_address.declarations import Health

    client = ControlClient.found(control, data)
    # Checked first: otherwise the browser would show an empty page.
    client.get("/healthz", Health)
    _show(client.page, browser=browser)
    return 0


def _record(control: str | None, data: Path | None, into: Path, seconds: float | None) -> None:
    from pocketmq.cluster.control_address.client import ControlClient
    from pocketmq.cluster.watching.recorder import record

    typer.echo(f"recording into {into}; Ctrl-C ends it")
    count = record(ControlClient.found(control, data), into, most_s=seconds)
    typer.echo(f"{counted(count, 'event')} in {into}")


def _show(url: str, *, browser: bool) -> None:
    typer.echo(url)
    # A machine without a desktop has no browser.
    if browser and not webbrowser.open(url):
        typer.echo("no browser opened; open this address yourself")
