"""`pocketmq pipeline`: jobs over topics, stores and tables. Their libraries load when one runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pocketmq.cluster.cli.common.output import Output, Sentences, show, tell
from pocketmq.cluster.cli.common.run import DEFAULT_NAMESERVERS, Nameservers, told_or_found
from pocketmq.cluster.cli.common.tables import Table
from pocketmq.cluster.cli.jobs import pipeline_jobs, pipeline_replay, pipeline_schema
from pocketmq.cluster.cli.jobs.pipeline_spark import Master, tell_starting

if TYPE_CHECKING:
    from pocketmq.pipeline.jobs.flights_job import Totals

FLIGHTS_HELP = """Compute flight delays per carrier and hour, with Spark.

The job reads the topic to its end and stops. With --follow, the job goes on until Ctrl-C. It writes
Parquet files, a picture and a checkpoint into the folder of --out. A second run continues from the
checkpoint. The job needs Java 17 or later and `pip install 'pocketmq[spark]'`.

\b
Examples:
  pocketmq up --data ./flights
      a cluster on the stores of `pocketmq demo --data ./flights`
  pocketmq topic create flight-delays
  pocketmq pipeline flights
      writes flight-delays/delays/ and flight-delays/delays.png
  pocketmq consume flight-delays --count 5
"""

PACKAGE_HELP = """Write the files that Spark's executors need to run PocketMQ.

The command writes two files, and prints the spark-submit command line that uses them. The zip file
for --py-files contains PocketMQ's code. The archive for --archives contains the compiled
dependencies. The executors need the same Python version and platform as this machine, and also
PyArrow and NumPy. In client mode, the driver needs `pip install 'pocketmq[spark]'`. For cluster
mode, the command prints what you must add. --with adds another package with its dependencies.

\b
Examples:
  pocketmq pipeline package
      writes ./pocketmq-spark.zip and ./pocketmq-deps.tar.gz
  pocketmq pipeline package --out dist
  pocketmq pipeline package --with s3fs
      adds what reads stores at s3://
"""

EXPORT_HELP = """Export a topic's new messages into a table, with Spark.

The job exports the messages that the topic has at the start of the job, and stops. To export later
messages, run the job again. If a run is killed, the next run leaves no message twice in the table.
If messages were deleted before their export, or if the topic was created again, the job fails. With
--no-fail-on-data-loss, the job counts the lost messages and continues. The job needs Java 17 or
later and `pip install 'pocketmq[spark]'`. Delta and Iceberg tables also need `pocketmq[lake]`.

\b
Examples:
  pocketmq pipeline export orders --to parquet:orders
  pocketmq pipeline export orders --to csv:orders-csv --columns keys,tags
  pocketmq pipeline export orders --to delta:tables/orders
  pocketmq pipeline export orders --to iceberg:warehouse/shop.orders
  pocketmq pipeline export orders --to parquet:/shared/orders \\
      --store cluster/broker-a --master spark://HOST:7077
  pocketmq pipeline export orders --to delta:tables/latest --last-by keys \\
      --tombstone deleted
"""

CLUSTERS = {"yarn": "YARN", "kubernetes": "Kubernetes"}
"""Cluster managers whose drivers may run in the cluster, as they write themselves."""


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(
        no_args_is_help=True, rich_markup_mode=None, help="Jobs over topics and stores."
    )
    group.command("flights", help=FLIGHTS_HELP)(flights)
    group.command("package", help=PACKAGE_HELP)(package)
    group.command("export", help=EXPORT_HELP)(export)
    pipeline_jobs.register(group)
    pipeline_replay.register(group)
    pipeline_schema.register(group)
    app.add_typer(group, name="pipeline")


def export(
    topic: Annotated[str, typer.Argument(help="Topics, separated by commas.")],
    to: Annotated[
        str, typer.Option(metavar="KIND:PATH", help="parquet:, csv:, json:, delta:, iceberg:")
    ],
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
    columns: Annotated[str, typer.Option(help="Columns, separated by commas; else all.")] = "",
    store: Annotated[
        str,
        typer.Option(metavar="DIRS", help="Read these stores instead; separated by commas."),
    ] = "",
    last_by: Annotated[
        str,
        typer.Option(
            metavar="COLUMN", help="For each value of this column, keep only the last row."
        ),
    ] = "",
    tombstone: Annotated[
        str, typer.Option(metavar="PROPERTY", help="With --last-by: a message with it deletes.")
    ] = "",
    rows_per_commit: Annotated[
        int,
        typer.Option(
            min=0,
            help=(
                "Maximum number of rows in a commit. 0: the job chooses a number for the kind "
                "of table."
            ),
        ),
    ] = 0,
    fail_on_data_loss: pipeline_jobs.FailOnDataLoss = True,
    master: Master = "",
    out: pipeline_jobs.Out = None,
    output: Output = None,
) -> int:
    from dataclasses import asdict

    from pocketmq.pipeline.jobs import Exported
    from pocketmq.pipeline.jobs import export as run
    from pocketmq.pipeline.jobs.output import check_path, write_rows

    # Before Spark runs for minutes: a wrong file name must not cost the result.
    if out is not None:
        check_path(out)
    # A store needs no nameservers, and looking for them would fail where no cluster runs.
    source: dict[str, Any] = {} if store else {"nameServer": told_or_found(nameservers)}
    with pipeline_jobs.progress_bar() as progress:

        def on_commit(done: Exported) -> None:
            progress("rows", done.rows, None)

        done = run(
            topic,
            to,
            stores=store,
            key=last_by,
            tombstone=tombstone,
            rows_per_commit=rows_per_commit,
            master=master,
            starting=tell_starting,
            on_commit=on_commit,
            columns=columns,
            failOnDataLoss=str(fail_on_data_loss).lower(),
            **source,
        )
    if out is not None:
        write_rows([done], out, Exported)
    show(
        output,
        asdict(done),
        Table(
            "export",
            ("rows", "commits", "lost"),
            [(done.rows, done.commits, done.lost)],
        ),
        heading=f"added to {to}",
    )
    return 0


def package(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for both files.")] = Path("."),
    also: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="PACKAGE", help="Add this package; repeatable."),
    ] = None,
    output: Sentences = None,
) -> int:
    from pocketmq.pipeline.spark.package import package as make
    from pocketmq.pipeline.spark.package import platform_name

    packed = make(out, also or ())
    facts = {
        "code": str(packed.code),
        "dependencies": str(packed.dependencies),
        "platform": platform_name(),
        "arguments": packed.arguments,
        "cluster_mode": packed.cluster_mode,
    }
    pairs = zip(packed.arguments[::2], packed.arguments[1::2], strict=True)
    tell(
        output,
        facts,
        *(f"{path}  {path.stat().st_size:,} bytes" for path in (packed.code, packed.dependencies)),
        f"for executors with {platform_name()}, PyArrow and NumPy:\n",
        "spark-submit --master spark://HOST:7077 \\",
        *(f"  {name} {value} \\" for name, value in pairs),
        "  your_job.py\n",
        "with --deploy-mode cluster the driver lacks PocketMQ too: it calls",
        "pocketmq.pipeline.register(spark), and spark-submit is given besides",
        *(
            f"  {CLUSTERS[manager]:<11} {' '.join(words)}"
            for manager, words in packed.cluster_mode.items()
        ),
    )
    return 0


def flights(
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
    topic: Annotated[
        str, typer.Option(help="Topic with the flights. Each message is one flight in JSON.")
    ] = ("flights"),
    to: Annotated[str, typer.Option(help="Topic for the windows; empty for none.")] = (
        "flight-delays"
    ),
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the results.")] = Path(
        "flight-delays"
    ),
    window: Annotated[str, typer.Option(help="Length of a window.")] = "1 hour",
    watermark: Annotated[
        str,
        typer.Option(
            help=(
                "Spark's watermark: how many hours or days late a flight may arrive, compared "
                "with the latest flight that was read. In the demo, flights can be months late."
            )
        ),
    ] = "400 days",
    follow: Annotated[bool, typer.Option("--follow", help="Keep reading until Ctrl-C.")] = False,
    master: Master = "",
    output: Output = None,
) -> int:
    from pocketmq.pipeline.jobs import flights as run

    with pipeline_jobs.progress_bar() as progress:

        def on_batch(_: int, totals: Totals) -> None:
            progress("flights", sum(row.flights for row in totals.values()), None)

        totals = run(
            told_or_found(nameservers),
            out,
            topic=topic,
            to_topic=to,
            window=window,
            watermark=watermark,
            follow=follow,
            master=master,
            starting=tell_starting,
            on_batch=on_batch,
        )
    means = {name: None if row.mean is None else float(row.mean) for name, row in totals.items()}
    columns = ("carrier", "flights", "departed", "mean delay in minutes")
    show(
        output,
        [
            {"carrier": name, "flights": row.flights, "departed": row.departed, "mean": means[name]}
            for name, row in totals.items()
        ],
        Table(
            "carrier",
            columns,
            [(name, row.flights, row.departed, means[name]) for name, row in totals.items()],
        ),
        heading=f"windows: {out / 'delays'}; picture: {out / 'delays.png'}",
    )
    return 0
