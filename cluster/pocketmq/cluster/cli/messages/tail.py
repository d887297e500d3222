"""`pocketmq message tail` and `show`: messages, read without a group."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import aclosing
from typing import Annotated

import typer

from pocketmq.client import Admin, MessageExt
from pocketmq.cluster.cli.common.complete import (
    TopicName,
    complete_queue,
    complete_topic,
    complete_words,
)
from pocketmq.cluster.cli.common.output import Output, OutputFormat, show
from pocketmq.cluster.cli.common.reader import while_read
from pocketmq.cluster.cli.common.run import (
    DEFAULT_NAMESERVERS,
    Nameservers,
    nameserver_addresses,
    run,
)
from pocketmq.cluster.cli.common.tables import Cell, Table
from pocketmq.cluster.cli.roles.clock import moment_text, present_ms
from pocketmq.cluster.messages.bodies import BodyForm, shown
from pocketmq.cluster.messages.finding import find_copies, find_message
from pocketmq.cluster.messages.formats import MessageFormat
from pocketmq.cluster.messages.positions import END, QueueName, position, queue_name
from pocketmq.cluster.messages.reading import bounds_of, follow, ranges, read_range
from pocketmq.protocol.messages.message_json import as_json
from pocketmq.runtime.errors import CallerError
from pocketmq.runtime.words import counted

FORMAT_LETTERS = """\
  %t topic        %b broker      %p queue     %o offset    %k keys      %g tag
  %s body         %S its bytes   %R the same as 4 bytes    %K keys' bytes
  %h properties as a=1,b=2
  %T store time   %B birth, both epoch ms     %r retries
  %i message id   %I offset id   %% percent   \\n \\t \\r \\0 \\xHH characters
"""

TAIL_HELP = f"""Print messages as they arrive, without using a group.

The command creates no group and commits no offset, so consumers still get all of their messages.
Without --from, the command begins with the next message that arrives. With -o json, it prints each
message as a JSON object on one line.

\b
Formats of -f:
{FORMAT_LETTERS}
\b
Examples:
  pocketmq message tail orders
  pocketmq message tail orders --from -10 --no-follow
      the last ten of each queue
  pocketmq message tail orders --from 10m-ago --count 5
  pocketmq message tail orders --from 2026-11-22T09:00 \\
      --until 2026-11-22T10:00
  pocketmq message tail orders --queue broker-a/0 --from 120
  pocketmq message tail orders -f '%t [%p] at %o: %k=%s\\n'
  pocketmq message tail '%DLQ%billing' --from start --no-follow -o json
"""

SHOW_HELP = """Show one message: its fields, properties and body.

You can name the message by its unique id, by its offset id, or by its topic, queue and offset.

\b
Examples:
  pocketmq message show 7F00000100002A9F0000000000000000
  pocketmq message show orders broker-a/0 17
  pocketmq message show orders broker-a/0 17 --body hex
  pocketmq message show orders broker-a/0 17 -f '%s'
"""

From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="POSITION",
        help=(
            "Where to begin: start, end, an offset, -N (the last N messages of each queue), "
            "10m-ago or a time."
        ),
    ),
]
Queues = Annotated[
    list[str] | None,
    typer.Option(
        "--queue",
        metavar="BROKER/QUEUE",
        help="Only this queue; may be repeated.",
        autocompletion=complete_queue,
    ),
]
MessageName = Annotated[
    list[str],
    typer.Argument(metavar="ID | TOPIC BROKER/QUEUE OFFSET", autocompletion=complete_words),
]
SearchedTopics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        help="Search only this topic; may be repeated.",
        show_default="all",
        autocompletion=complete_topic,
    ),
]
Format = Annotated[
    str | None, typer.Option("--format", "-f", metavar="FORMAT", help="As kcat's; see above.")
]


def queue_names(texts: list[str] | None) -> list[QueueName]:
    """What `--queue` names."""
    return [queue_name(text) for text in texts or ()]


def printer(format_text: str | None, output: OutputFormat | None) -> Callable[[MessageExt], None]:
    """Prints messages as `-f` or `-o` says; else as `pocketmq consume` does."""
    if format_text is not None:
        if output is not None:
            raise CallerError("give -f or -o, not both")
        # Compiled before the cluster is asked, so that a wrong letter is reported at once.
        compiled = MessageFormat(format_text)
        return lambda message: _write(compiled.line(message))
    if output == "json":
        return lambda message: print(json.dumps(as_json(message), ensure_ascii=False), flush=True)
    return lambda message: print(line_of(message), flush=True)


def _write(data: bytes) -> None:
    # `print` has a buffer of its own, which must be written before these bytes.
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def line_of(message: MessageExt) -> str:
    """One line: where it is stored, its tag and keys, its body."""
    place = f"{message.broker_name}/{message.queue_id} offset {message.queue_offset}"
    labels = {"tag": message.tags, "key": message.keys}
    facts = "".join(f" {name}={value}" for name, value in labels.items() if value)
    again = f" again={message.reconsume_times}" if message.reconsume_times else ""
    return f"{place}{facts}{again}: {message.body.decode('utf-8', 'replace')}"


def tail(
    topic: TopicName,
    start: From = "end",
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="POSITION",
            help=(
                "Where to end, in the same form as --from. The message at this place is not "
                "printed."
            ),
            show_default="never",
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("--count", "-c", min=1, help="Stop after so many.", show_default="never"),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Wait for more at the end.")
    ] = True,
    queue: Queues = None,
    tags: Annotated[str, typer.Option(help="Tags like 'a || b'; * for all.")] = "*",
    format_text: Format = None,
    output: Output = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    # All are checked before a cluster is asked: a wrong position is found without one.
    where, only, begin = nameserver_addresses(nameservers), queue_names(queue), position(start)
    end = END if until is None else position(until)
    tell = printer(format_text, output)

    async def print_all() -> None:
        left = count or sys.maxsize
        async with Admin(nameservers=where) as admin:
            bounds = await bounds_of(admin, topic, only)
            # `10m-ago` counts from the cluster's time, which on a manual clock differs from this
            # machine's.
            found = await ranges(admin, bounds, begin, end, await present_ms(where))
            if wait and until is None:
                begins = {each.queue: each.begin for each in found}
                # `aclosing` ends the reads under way when the count is reached.
                async with aclosing(follow(admin, begins, tags)) as messages:
                    async for message in messages:
                        tell(message)
                        left -= 1
                        if not left:
                            return
            # Queue by queue, since no new messages are awaited, and queues have no common order.
            for each in found:
                async with aclosing(read_range(admin, each, tags)) as messages:
                    async for message in messages:
                        tell(message)
                        left -= 1
                        if not left:
                            return

    async def command() -> None:
        await while_read(print_all())

    run(command())


def show_message(
    words: MessageName,
    body: Annotated[BodyForm, typer.Option(help="How to print the body.")] = "auto",
    topic: SearchedTopics = None,
    format_text: Format = None,
    output: Output = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    async def command() -> tuple[MessageExt, int]:
        async with Admin(nameservers=nameserver_addresses(nameservers)) as admin:
            found = await find_message(admin, words, topic or ())
            copies = [found]
            if found.uniq_key is not None and format_text is None:
                copies = await find_copies(admin, found.uniq_key, topic or ())
            return found, len(copies)

    if format_text is not None:
        tell = printer(format_text, output)
        tell(run(command())[0])
        return
    message, copies = run(command())
    show(output, as_json(message), *message_tables(message))
    if output == "json":
        return
    typer.echo("")
    # After the tables: a body may be long, and may have lines that look like a table.
    typer.echo(shown(message.body, body))
    if copies > 1:
        typer.echo(
            f"\n{copies} copies of it are stored; "
            f"`pocketmq explain message {message.msg_id}` tells its life",
            # On standard error, so that a pipe gets only the message.
            err=True,
        )


def message_tables(message: MessageExt) -> tuple[Table, Table]:
    """Its fields and its properties."""
    fields: list[tuple[Cell, ...]] = [
        ("topic", message.topic),
        ("queue", f"{message.broker_name}/{message.queue_id}"),
        ("offset", str(message.queue_offset)),
        ("message id", message.msg_id),
        ("offset id", message.offset_msg_id),
        ("tag", message.tags),
        ("keys", message.keys),
        ("stored", moment_text(message.store_timestamp_ms)),
        ("born", moment_text(message.born_timestamp_ms)),
        ("born at", message.born_host),
        ("retries", str(message.reconsume_times)),
        ("body", counted(len(message.body), "byte")),
    ]
    return (
        Table("field", ("field", "value"), fields),
        Table("property", ("property", "value"), list(message.properties.items())),
    )
