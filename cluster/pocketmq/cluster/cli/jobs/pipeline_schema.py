"""`pocketmq pipeline schema` and `schema-check`: bodies by the schemas of their topics."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

import typer

from pocketmq.cluster.cli.common.output import Output, show
from pocketmq.cluster.cli.common.run import DEFAULT_NAMESERVERS, Nameservers, told_or_found_for
from pocketmq.cluster.cli.common.tables import Table
from pocketmq.cluster.cli.jobs.pipeline_jobs import Out
from pocketmq.cluster.cli.jobs.pipeline_spark import Master, tell_starting
from pocketmq.runtime.words import counted

DECODE_HELP = """Decode bodies by their schemas into Parquet, with Spark.

The job writes the rows of each topic into the folder DIR/topics/TOPIC. Bodies that it cannot decode
go to DIR/bad as bad rows. SOURCE is store:DIR, parquet:DIR, delta:TABLE, iceberg:DIR/NAMESPACE.NAME
or topic:NAME. --registry names a JSON file, {"orders": {"type": "AVRO|JSON|PROTOBUF", "schema":
...}}, or the address of a registry with Confluent's REST interface. With --envelope, the job reads
change events of Debezium or Canal. The exit status is 1 if there are bad rows. The job needs Java
17 or later and `pip install 'pocketmq[spark,schema]'`.

\b
Examples:
  pocketmq pipeline schema store:cluster/broker-a decoded \\
      --registry schemas.json --topic orders
  pocketmq pipeline schema topic:orders framed \\
      --registry http://127.0.0.1:8081 --framed
  pocketmq pipeline schema topic:changes changes --envelope --keys id
"""

CHECK_HELP = """Check whether versions of a schema are compatible.

The option --mode has three values. backward: the newer version can read data that the older version
wrote. forward: the older version can read data that the newer version wrote. full: each version can
read the other's data. The exit status is 1 if the versions are not compatible, or if a field cannot
be checked.

\b
Examples:
  pocketmq pipeline schema-check orders --registry schemas.json
  pocketmq pipeline schema-check orders --registry http://127.0.0.1:8081 \\
      --mode full
"""

Where = Annotated[str, typer.Option("--registry", help="A JSON file, or an http:// address.")]


def register(group: typer.Typer) -> None:
    """Add the commands to `pocketmq pipeline`."""
    group.command("schema", help=DECODE_HELP)(decode)
    group.command("schema-check", help=CHECK_HELP)(check)


def decode(
    source: Annotated[str, typer.Argument(help="Where the messages are.")],
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder for the tables.")],
    registry: Where = "",
    topic: Annotated[str, typer.Option(help="Only these topics, separated by commas.")] = "",
    framed: Annotated[
        bool, typer.Option("--framed", help="Each body begins with the id of its schema.")
    ] = False,
    envelope: Annotated[bool, typer.Option("--envelope", help="Bodies are change events.")] = False,
    keys: Annotated[str, typer.Option(help="Columns of the primary key.")] = "",
    master: Master = "",
    out: Out = None,
    output: Output = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> int:
    from pocketmq.pipeline.jobs import Decoded
    from pocketmq.pipeline.jobs import schema as run
    from pocketmq.pipeline.jobs.output import ResultTable, check_path, write_tables
    from pocketmq.pipeline.jobs.schemas.decoded import Reason

    if out is not None:
        check_path(out)
    done = run(
        source,
        registry,
        folder,
        topics=_words(topic),
        framed=framed,
        envelope=envelope,
        keys=_words(keys),
        nameservers=told_or_found_for([source], nameservers),
        master=master,
        starting=tell_starting,
    )
    reasons = [Reason(*item) for item in done.reasons.items()]
    if out is not None:
        # The reasons get a table of their own, since a column cannot hold them.
        did = ResultTable("", [done], Decoded, without=("reasons",))
        write_tables(out, did, ResultTable("reasons", reasons, Reason))
    show(
        output,
        asdict(done),
        Table(
            "reason", ("bad rows", "reason"), [(each.count, each.reason) for each in reasons[:10]]
        ),
        heading=f"{counted(done.rows, 'row')} in {folder}, {counted(done.bad, 'bad row')}",
        summary=Table("schema", ("rows", "bad rows"), [(done.rows, done.bad)]),
    )
    return 1 if done.bad else 0


def check(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    registry: Where,
    mode: Annotated[
        Literal["backward", "forward", "full"], typer.Option(help="Who must be able to read.")
    ] = "backward",
    out: Out = None,
    output: Output = None,
) -> int:
    from pocketmq.pipeline.jobs import Misfit
    from pocketmq.pipeline.jobs import schema_check as run
    from pocketmq.pipeline.jobs.output import check_path, write_rows
    from pocketmq.pipeline.jobs.schemas.evolution import MISFIT

    if out is not None:
        check_path(out)
    checked = run(topic, registry, mode=mode)
    found = checked.misfits
    if out is not None:
        write_rows(found, out, Misfit)
    misfits = sum(each.verdict == MISFIT for each in found)
    verdict = counted(misfits, "misfit") if found else f"all {mode} compatible"
    if len(found) > misfits:
        verdict += f", {len(found) - misfits} that cannot be told"
    show(
        output,
        [asdict(each) for each in found],
        Table(
            "misfit",
            ("reading version", "of version", "verdict", "what"),
            [(each.reader, each.writer, each.verdict, each.what) for each in found],
        ),
        heading=f"{counted(checked.versions, 'version')} of {topic}: {verdict}",
    )
    # Also for what could not be decided: a script must not take that for compatible.
    return 1 if found else 0


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
