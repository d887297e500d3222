"""`pocketmq pipeline`: Spark jobs. Spark is imported when one runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from pocketmq.pipeline.jobs.flights import Totals

FLIGHTS_HELP = """Compute the delay per carrier and hour from the flights of a topic, with Spark.

Needs Java 17 or later and `pip install 'pocketmq[spark]'`. Reads the topic to its end and stops, or
with --follow goes on until Ctrl-C. Writes Parquet, a picture and a checkpoint into the folder; a
second run goes on from the checkpoint.

\b
Examples:
  pocketmq up --data ./flights          a cluster on the stores of `pocketmq demo --data ./flights`
  pocketmq topic create flight-delays
  pocketmq pipeline flights             writes flight-delays/delays/ and flight-delays/delays.png
  pocketmq consume flight-delays --count 5
"""


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Spark jobs.")
    group.command("flights", help=FLIGHTS_HELP)(flights)
    app.add_typer(group, name="pipeline")


def flights(
    nameservers: Annotated[
        str,
        typer.Option(envvar="NAMESRV_ADDR", help="Nameservers, separated by ';'."),
    ] = "127.0.0.1:9876",
    topic: Annotated[str, typer.Option(help="Topic with a flight as JSON in each message.")] = (
        "flights"
    ),
    to: Annotated[str, typer.Option(help="Topic for the windows; empty for none.")] = (
        "flight-delays"
    ),
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the results.")] = Path(
        "flight-delays"
    ),
    window: Annotated[str, typer.Option(help="Length of a window.")] = "1 hour",
    watermark: Annotated[
        str, typer.Option(help="How late a flight may be; the demo's are months apart.")
    ] = "400 days",
    follow: Annotated[bool, typer.Option("--follow", help="Keep reading until Ctrl-C.")] = False,
) -> int:
    from rich.console import Console
    from rich.live import Live

    from pocketmq.pipeline.jobs.flights import FlightsJob

    console = Console()
    with Live(console=console, transient=True, auto_refresh=False) as live:

        def show(batch: int, totals: Totals) -> None:
            live.update(totals_table(totals, f"after batch {batch}"), refresh=True)

        job = FlightsJob(
            nameservers,
            out,
            topic=topic,
            to_topic=to,
            window=window,
            watermark=watermark,
            on_batch=show,
        )
        totals = job.run(follow=follow)
    console.print(totals_table(totals, "all batches"))
    console.print(f"windows: {out / 'delays'}; picture: {out / 'delays.png'}", highlight=False)
    return 0


def totals_table(totals: Mapping[str, Any], title: str) -> Any:
    """One row per carrier."""
    from rich.table import Table

    table = Table(title=f"Flights by carrier, {title}", title_justify="left")
    table.add_column("carrier")
    for column in ("flights", "departed", "mean delay in minutes"):
        table.add_column(column, justify="right")
    for carrier, row in totals.items():
        mean = "-" if row.mean is None else f"{float(row.mean):.5f}"
        table.add_row(carrier, f"{row.flights:,}", f"{row.departed:,}", mean)
    return table
