"""`pocketmq topic`: create, list, route."""

from __future__ import annotations

from typing import Annotated

import typer

from pocketmq.client import Admin
from pocketmq.cluster.cli.run import DEFAULT_NAMESERVERS, Nameservers, addresses, run
from pocketmq.cluster.own_topics import peoples_topics
from pocketmq.protocol.errors import TopicNotFoundError
from pocketmq.runtime.words import counted

CREATE_HELP = """Create a topic, or change its number of queues.

\b
Examples:
  pocketmq topic create orders                      4 queues on each broker
  pocketmq topic create orders --queues 8 --broker broker-a
"""

LIST_HELP = """List the topics that the nameservers know.

\b
Examples:
  pocketmq topic list
  pocketmq topic list --all                         also system and retry topics
"""

ROUTE_HELP = """Show which brokers have a topic's queues, with their addresses.

\b
Example:
  pocketmq topic route orders
"""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("create", help=CREATE_HELP)(create)
    group.command("list", help=LIST_HELP)(list_topics)
    group.command("route", help=ROUTE_HELP)(route)
    app.add_typer(group, name="topic", help="Create topics, list them, show their routes.")


def create(
    topic: Annotated[str, typer.Argument(help="Its name.")],
    queues: Annotated[int, typer.Option(min=1, help="Queues on each broker.")] = 4,
    broker: Annotated[
        list[str] | None, typer.Option(help="Only on this broker; may be repeated.")
    ] = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    async def command() -> None:
        async with Admin(nameservers=addresses(nameservers)) as admin:
            await admin.create_topic(topic, queues=queues, brokers=broker)
            names = broker or sorted(await admin.brokers())
        typer.echo(f"{topic}: {counted(queues, 'queue')} on each of {', '.join(names)}")

    run(command())


def list_topics(
    everything: Annotated[
        bool, typer.Option("--all", help="Also list system topics and retry topics.")
    ] = False,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    async def command() -> None:
        async with Admin(nameservers=addresses(nameservers)) as admin:
            topics = await admin.topics() if everything else await peoples_topics(admin)
        for topic in topics:
            typer.echo(topic)

    run(command())


def route(
    topic: Annotated[str, typer.Argument(help="Its name.")],
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    async def command() -> None:
        async with Admin(nameservers=addresses(nameservers)) as admin:
            found = await admin.route(topic)
        if found is None:
            raise TopicNotFoundError(topic)
        brokers = {data.broker_name: data for data in found.broker_datas}
        for queues in sorted(found.queue_datas, key=lambda each: each.broker_name):
            read = "R" if queues.perm & 4 else "-"
            write = "W" if queues.perm & 2 else "-"
            data = brokers.get(queues.broker_name)
            where = ", ".join(
                f"{'master' if number == 0 else f'slave {number}'} {address}"
                for number, address in sorted(data.broker_addrs.items() if data else ())
            )
            typer.echo(
                f"{queues.broker_name:16} {counted(queues.read_queue_nums, 'queue')} to read, "
                f"{queues.write_queue_nums} to write, {read}{write}  {where}"
            )

    run(command())
