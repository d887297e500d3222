"""Runs `pocketmq demo` with given options."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from pocketmq.cluster.demo.data import TOTAL_FLIGHTS, find_csv
from pocketmq.cluster.demo.director import Director
from pocketmq.cluster.demo.display import display_for
from pocketmq.cluster.demo.modes import DEFAULT_MODE, Mode
from pocketmq.cluster.demo.options import DemoOptions
from pocketmq.cluster.demo.report import DemoReport, render
from pocketmq.cluster.folder import data_folder
from pocketmq.runtime.errors import CallerError
from pocketmq.runtime.process import RoleContext, RoleOptions, run_role

PLAIN_WIDTH = 120
"""Width when the output is no terminal, so that a log has complete tables."""


def run_demo(
    *,
    flights: int | None = None,
    seed: int = 2013,
    data: Path | None = None,
    mode: Mode = DEFAULT_MODE,
    spark: bool = True,
    replicas: int = 1,
    secure: bool = False,
    record: Path | None = None,
) -> int:
    """Run the demo and print its report.

    Returns:
        The exit status: 0 only if nothing was lost and the figures agree; 130 after Ctrl-C.

    Raises:
        MissingToolError: The flights, what makes a certificate, or what mode `grpc` needs, are not
            installed.
        CallerError: Folder `data` is not empty.
    """
    # Checked first: without the flights nothing needs to start.
    find_csv()
    director = Director
    if mode.name == "grpc":
        from pocketmq.cluster.demo.grpc_director import GrpcDirector, check_tools

        check_tools()
        director = GrpcDirector
    # Old stores would contain flights of an earlier run, and make the counts wrong.
    if data is not None and data.is_dir() and any(data.iterdir()):
        raise CallerError(
            f"{data} is not empty, but the demo starts with new stores; choose an empty folder"
        )
    console = Console()
    # For a pipe Rich assumes 80 columns, which would cut the tables.
    if not console.is_terminal:
        console = Console(width=PLAIN_WIDTH)
    report: DemoReport | None = None

    async def main(_role: RoleContext) -> None:
        nonlocal report
        total = min(flights or TOTAL_FLIGHTS, TOTAL_FLIGHTS)
        with data_folder(data) as folder, display_for(console, total) as display:
            options = DemoOptions(flights, seed, mode, spark, replicas, secure, record)
            report = await director(options, folder.path, display).run()
            if not report.is_good and not folder.is_kept:
                folder.is_kept = True
                display.say(f"stores, logs and records are kept in {folder.path}")

    status = run_role(main, role="pocketmq", name="demo", options=RoleOptions(log_level="error"))
    if report is None:
        # Interrupted, or ended by an error that `run_role` has already printed.
        return status or 130
    render(report, console)
    return 0 if report.is_good else 1
