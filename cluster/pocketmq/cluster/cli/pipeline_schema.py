"""`pocketmq pipeline schema` and `schema-check`: bodies by the schemas of their topics."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from pocketmq.cluster.cli.pipeline_jobs import LOCAL, AsJson, Nameservers, progress_bar

DECODE_HELP = """Decode bodies by the schemas of their topics into Parquet, bad ones aside.

SOURCE is store:DIR, parquet:DIR, delta:TABLE, iceberg:DIR/NAMESPACE.NAME or topic:NAME. REGISTRY is
a JSON file, {"orders": {"type": "AVRO|JSON|PROTOBUF", "schema": ...}}, or the address of a registry
with Confluent's REST interface. --envelope reads change events of Debezium and Canal. The exit
status is 1 when there are bad rows.

\b
Examples:
  pocketmq pipeline schema store:cluster/broker-a tables --registry schemas.json
  pocketmq pipeline schema topic:orders tables --registry http://127.0.0.1:8081 --framed
  pocketmq pipeline schema topic:changes tables --envelope --keys id
"""

CHECK_HELP = """Say whether the versions of a topic's schema fit each other.

backward: the newer reads what the older wrote; forward: the other way; full: both. The exit status
is 1 when they do not.

\b
Examples:
  pocketmq pipeline schema-check orders --registry schemas.json
  pocketmq pipeline schema-check orders --registry http://127.0.0.1:8081 --mode full
"""

Where = Annotated[str, typer.Option("--registry", help="A JSON file, or an http:// address.")]


def register(group: typer.Typer) -> None:
    """Add the commands to `pocketmq pipeline`."""
    group.command("schema", help=DECODE_HELP)(decode)
    group.command("schema-check", help=CHECK_HELP)(check)


def decode(
    source: Annotated[str, typer.Argument(help="Where the messages are.")],
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the tables.")],
    registry: Where = "",
    topic: Annotated[str, typer.Option(help="Only these topics, separated by commas.")] = "",
    framed: Annotated[
        bool, typer.Option("--framed", help="Bodies begin with the id of their schema.")
    ] = False,
    envelope: Annotated[bool, typer.Option("--envelope", help="Bodies are change events.")] = False,
    keys: Annotated[str, typer.Option(help="Columns of the primary key.")] = "",
    as_json: AsJson = False,
    nameservers: Nameservers = LOCAL,
) -> int:
    from pocketmq.pipeline.jobs.schemas.decode import Decoded
    from pocketmq.pipeline.jobs.schemas.decode import decode as run

    with progress_bar() as show:

        def on_batch(done: Decoded) -> None:
            show("rows", done.rows, None)

        done = run(
            source,
            registry,
            out,
            topics=_words(topic),
            framed=framed,
            envelope=envelope,
            keys=_words(keys),
            nameservers=nameservers,
            on_batch=on_batch,
        )
    if as_json:
        typer.echo(json.dumps(asdict(done)))
    else:
        typer.echo(f"{done.rows:,} rows in {out}, {done.bad:,} bad rows")
        for reason, count in sorted(done.reasons.items(), key=lambda item: -item[1])[:10]:
            typer.echo(f"  {count:,} times: {reason}")
    return 1 if done.bad else 0


def check(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    registry: Where,
    mode: Annotated[
        Literal["backward", "forward", "full"], typer.Option(help="Who must be able to read.")
    ] = "backward",
    as_json: AsJson = False,
) -> int:
    from pocketmq.pipeline.jobs.schemas.evolution import misfits
    from pocketmq.pipeline.jobs.schemas.registry import registry_of
    from pocketmq.runtime.errors import CallerError

    versions = registry_of(registry).versions(topic)
    if not versions:
        raise CallerError(f"the registry has no schema of topic {topic!r}")
    found = misfits(versions, mode)
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in found]))
    else:
        for each in found:
            typer.echo(f"version {each.reader} cannot read version {each.writer}: {each.what}")
        verdict = f"{len(found)} reasons why not" if found else f"all {mode} compatible"
        typer.echo(f"{len(versions)} versions of {topic}: {verdict}")
    return 1 if found else 0


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
