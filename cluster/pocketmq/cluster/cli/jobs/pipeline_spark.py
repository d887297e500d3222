"""What the commands of `pocketmq pipeline` that run on Spark share."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

Master = Annotated[
    str,
    typer.Option(
        "--master",
        metavar="MASTER",
        help="Where Spark runs: local[N], spark://HOST:PORT, yarn, k8s://...",
        show_default="SPARK_MASTER or what spark-submit was given, else local[2]",
    ),
]


def tell_starting(master: str) -> None:
    """Say on a terminal why nothing is to be seen for a while."""
    if sys.stderr.isatty():
        typer.echo(f"Spark starts at {master}, which takes some seconds", err=True)
