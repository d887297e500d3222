"""`pocketmq demo`: the main job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEMO_HELP = """Send the flights of 2013 through a cluster, and lose none.

Each of the 336,776 flights that left New York in 2013 is a message.

The demo starts two nameservers, two brokers, two producers and three consumers, each as a process.
When a third of the flights is consumed, a fourth consumer joins. When two thirds are consumed, the
demo kills one of the first three consumers with SIGKILL. At the end, it computes each carrier's
mean delay from the consumed messages, and compares this mean with the CSV file's mean. The exit
status is 0 only if no message is lost and all means are right. If Java 17 and PySpark are
installed, Spark also computes the means from the brokers' topics.

\b
Examples:
  pocketmq demo                       336,776 flights
  pocketmq demo --flights 5000
      the first 5,000; with --no-spark in about ten seconds
  pocketmq demo --data ./flights
      keep it: ./flights/broker-a/ is a RocketMQ store root
  pocketmq demo --orderly
      each queue in order, by one consumer at a time
  pocketmq demo --broadcast           every consumer gets every flight
  pocketmq demo --failures 0.05
      listeners fail at random: retries and dead letters
  pocketmq demo --pop
      no consumer owns queues: messages are popped and acknowledged
  pocketmq demo --grpc --flights 5000
      RocketMQ's Python SDK through a proxy, which is killed on the way
  pocketmq demo --replicas 3 --kill-master
      three replicas; their master is killed on the way
  pocketmq demo --secure
      over TLS, with users and rules, and members who prove who they are
  pocketmq demo --record demo.jsonl
      and then: pocketmq watch --from demo.jsonl
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo", help=DEMO_HELP)(demo)


def demo(
    flights: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of flights (rows) to take from the CSV file.", show_default="all"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed: decides which consumer is killed.")] = 2013,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Keep stores, logs and the consumers' files in this folder."
        ),
    ] = None,
    orderly: Annotated[
        bool, typer.Option("--orderly", help="Consume the messages of a queue one after the other.")
    ] = False,
    broadcast: Annotated[
        bool, typer.Option("--broadcast", help="Let every consumer consume every message.")
    ] = False,
    failures: Annotated[
        float | None,
        typer.Option(
            metavar="RATE",
            help="Share of deliveries that fail, such as 0.05.",
            show_default="none",
        ),
    ] = None,
    pop: Annotated[
        bool, typer.Option("--pop", help="Pop messages instead of sharing queues out.")
    ] = False,
    grpc: Annotated[
        bool,
        typer.Option(
            "--grpc", help="Send and receive through a proxy, with RocketMQ's Python SDK."
        ),
    ] = False,
    replicas: Annotated[
        int,
        typer.Option(
            min=1,
            help=(
                "Number of brokers with the same broker name. Above 1, the demo also starts "
                "three controllers."
            ),
        ),
    ] = 1,
    kill_master: Annotated[
        bool,
        typer.Option(
            "--kill-master",
            help="With --replicas 3 or more: kill a master with SIGKILL during the demo.",
        ),
    ] = False,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure",
            help=(
                "Use only TLS, check users and their rules, and give all roles a secret that "
                "they must know."
            ),
        ),
    ] = False,
    record: Annotated[
        Path | None,
        typer.Option(
            "--record",
            metavar="FILE",
            help="Record what happens. `pocketmq watch --from FILE` shows it again.",
        ),
    ] = None,
    no_spark: Annotated[
        bool,
        typer.Option(
            "--no-spark", help="Leave out the last step, in which Spark computes the mean delays."
        ),
    ] = False,
) -> int:
    from pocketmq.cluster.demo.modes import Mode
    from pocketmq.cluster.demo.run import run_demo
    from pocketmq.runtime.errors import ConfigError

    if kill_master and replicas < 3:
        raise ConfigError(
            "kill_master",
            f"--replicas {replicas} is not enough: after the kill, too few replicas remain to "
            "acknowledge messages",
            advice="add --replicas 3",
        )
    if secure and record is not None:
        raise ConfigError(
            "record",
            "--record cannot be combined with --secure, because --record reads the events of "
            "producers and consumers without TLS",
            advice="leave out --record, or --secure",
        )
    if grpc and (replicas > 1 or secure or record is not None):
        raise ConfigError(
            "grpc",
            "--grpc cannot be combined with --replicas, --secure or --record",
            advice="leave those out",
        )
    mode = Mode.chosen(
        orderly=orderly,
        broadcast=broadcast,
        failures=failures,
        pop=pop,
        kill_master=kill_master,
        grpc=grpc,
    )
    return run_demo(
        flights=flights,
        seed=seed,
        data=data,
        mode=mode,
        spark=not no_spark,
        replicas=replicas,
        secure=secure,
        record=record,
    )
