"""`pocketmq explain message`: the whole life of one message."""

from __future__ import annotations

from dataclasses import asdict

import typer

from pocketmq.client import Admin
from pocketmq.cluster.cli.common.output import Output, show
from pocketmq.cluster.cli.common.run import (
    DEFAULT_NAMESERVERS,
    Nameservers,
    nameserver_addresses,
    run,
)
from pocketmq.cluster.cli.common.tables import Table
from pocketmq.cluster.cli.messages.tail import MessageName, SearchedTopics
from pocketmq.cluster.cli.roles.clock import moment_text
from pocketmq.cluster.explain.message_facts import gather_life
from pocketmq.cluster.explain.message_life import Life, LifeFacts, life

MESSAGE_HELP = """Show the whole life of a message, and where it is now.

The command finds every copy of the message, also in the topics of delays, transactions, retries and
dead letters. For each group, it compares the group's offset with the message's offset, and says
whether the group has consumed the message.

\b
Examples:
  pocketmq explain message 7F0000010001...
      the id that `pocketmq send` prints
  pocketmq explain message orders broker-a/0 17
  pocketmq explain message 7F0000010001... --topic orders \\
      --topic %RETRY%billing
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("message", help=MESSAGE_HELP)(explain_message)
    app.add_typer(group, name="explain", help="Explain what became of a message.")


def explain_message(
    words: MessageName,
    topic: SearchedTopics = None,
    output: Output = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    async def command() -> LifeFacts:
        async with Admin(nameservers=nameserver_addresses(nameservers)) as admin:
            return await gather_life(admin, words, topic or ())

    told = life(run(command()))
    show(output, asdict(told), *life_tables(told), heading=f"{told.message_id}: {told.now}")


def life_tables(told: Life) -> tuple[Table, Table]:
    """Where it was stored, and what became of it in each group."""
    return (
        Table(
            "step",
            ("stored", "topic", "queue, offset", "what"),
            [(moment_text(each.time_ms), each.topic, each.place, each.what) for each in told.steps],
        ),
        Table(
            "group",
            ("group", "state", "sent back", "where"),
            [(each.group, each.state, each.sent_back, each.what) for each in told.groups],
            kept_whole="where",
        ),
    )
