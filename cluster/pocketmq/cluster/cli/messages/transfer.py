"""`pocketmq message export`, `import` and `resend`: many messages out, in, and once more."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, BinaryIO, Literal

import typer

from pocketmq.client import Admin, MessageQueue, Producer
from pocketmq.cluster.cli.common.complete import GroupName, TopicName
from pocketmq.cluster.cli.common.output import Output, Sentences, show
from pocketmq.cluster.cli.common.output import tell as tell_deed
from pocketmq.cluster.cli.common.progress import counting
from pocketmq.cluster.cli.common.run import (
    DEFAULT_NAMESERVERS,
    Nameservers,
    nameserver_addresses,
    run,
)
from pocketmq.cluster.cli.common.tables import Table
from pocketmq.cluster.cli.messages.tail import Format, From, Queues, queue_names
from pocketmq.cluster.cli.roles.clock import present_ms
from pocketmq.cluster.messages.again import dead_letters, read_lines, resent
from pocketmq.cluster.messages.exporting import LineOf, exported, json_line
from pocketmq.cluster.messages.formats import MessageFormat
from pocketmq.cluster.messages.positions import position
from pocketmq.cluster.messages.reading import bounds_of, ranges
from pocketmq.protocol.messages.validation import (
    MAX_GROUP_CHARS,
    check_group,
    check_topic,
)
from pocketmq.runtime.errors import CallerError, DiskError
from pocketmq.runtime.words import counted

EXPORT_HELP = """Write messages as JSON lines, with properties and times.

If a body is not UTF-8, the command writes the body as base64, into the field bodyBase64. You can
also export retry topics and dead letter topics.

\b
Examples:
  pocketmq message export orders > orders.jsonl
  pocketmq message export orders --to orders.jsonl --bodies base64
  pocketmq message export orders --from 2026-11-22T09:00 \\
      --until 2026-11-22T10:00
  pocketmq message export orders --queue broker-a/0 --from 100 --until 200
  pocketmq message export '%DLQ%billing' --from -50
  pocketmq message export orders -f '%k\\t%s\\n'
      letters: `pocketmq message tail --help`
"""

IMPORT_HELP = """Send the messages from a file that `message export` wrote.

The command checks the whole file before it sends the first message. Each message keeps its body,
flag, properties and unique id, but gets a new queue, offset and time. Properties of delays and
retries are left out. Messages that were in the same queue keep their order.

\b
Examples:
  pocketmq message import orders.jsonl
  pocketmq message import orders.jsonl --topic orders-copy
  pocketmq message import orders.jsonl --dry-run
  pocketmq message export orders | pocketmq message import - \\
      --topic orders-copy
"""

RESEND_HELP = """Send a group's dead letters to their original topics again.

Each message keeps its id, keys and properties, and may be retried as often as a new message. The
message's property ORIGIN_MESSAGE_ID is the id of the message's first copy. The dead letters also
stay in the dead letter topic.

\b
Examples:
  pocketmq message resend billing --dry-run
  pocketmq message resend billing
  pocketmq message resend billing --id 7F0000010001... --id 7F0000010002...
  pocketmq message resend billing --from 100 --until 200 --count 10
  pocketmq message resend billing --to orders-again
"""

SEND_GROUP = "pocketmq-send"

Until = Annotated[
    str, typer.Option("--until", metavar="POSITION", help="The first that is left out.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Send nothing.")]


def export_messages(
    topic: TopicName,
    start: From = "start",
    until: Until = "end",
    queue: Queues = None,
    to: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write here.", show_default="standard output"),
    ] = None,
    bodies: Annotated[
        Literal["text", "base64"],
        typer.Option(help="base64: write every body as base64, even if it is text."),
    ] = "text",
    format_text: Format = None,
    output: Sentences = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    # A format has its own letters for the body.
    if format_text is not None and bodies != "text":
        raise CallerError("give -f or --bodies, not both")
    line_of: LineOf = partial(json_line, base64_body=bodies == "base64")
    if format_text is not None:
        line_of = MessageFormat(format_text).line
    where, only = nameserver_addresses(nameservers), queue_names(queue)
    begin, end = position(start), position(until)

    async def command() -> int:
        done = 0
        async with Admin(nameservers=where) as admin:
            # The ends are fixed at the start, so the export ends even if messages keep coming.
            bounds = await bounds_of(admin, topic, only)
            wanted = await ranges(admin, bounds, begin, end, await present_ms(where))
            # Opened only now, so that a missing topic does not empty an existing file.
            with (
                _writing(to) as file,
                counting(f"export {topic}", sum(each.count for each in wanted)) as tell,
            ):
                async with aclosing(exported(admin, wanted, line_of)) as lines:
                    async for line in lines:
                        file.write(line)
                        done += 1
                        tell(done)
        return done

    done = run(command())
    if to is not None:
        facts = {"topic": topic, "messages": done, "file": str(to)}
        tell_deed(output, facts, f"{counted(done, 'message')} of {topic} written to {to}")


def import_messages(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="JSON lines; - reads standard input.")
    ],
    topic: Annotated[
        str | None, typer.Option(help="Send all to this topic.", show_default="each one's own")
    ] = None,
    dry_run: DryRun = False,
    output: Sentences = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    if topic is not None:
        check_topic(topic)
    total = None
    # Standard input cannot be read twice: from there, lines before a wrong one are sent.
    if file != "-":  # nothing is sent of a file that is broken further down
        with _reading(file) as lines:
            total = sum(1 for _ in read_lines(lines, file, topic))

    async def command() -> dict[str, int]:
        sent: dict[str, int] = {}
        with (
            _reading(file) as lines,
            counting(f"import {file}", total) as tell,
        ):
            # Error messages name the file, and `-` would not be clear.
            name = "standard input" if file == "-" else file
            where = nameserver_addresses(nameservers)
            async with Producer(SEND_GROUP, nameservers=where) as producer:
                for done, each in enumerate(read_lines(lines, name, topic), start=1):
                    if not dry_run:
                        # The lane is the key, so that messages of one queue stay in order.
                        await producer.send(each.message, key=each.lane)
                    sent[each.message.topic] = sent.get(each.message.topic, 0) + 1
                    tell(done)
        return sent

    verb = "would go" if dry_run else "sent"
    counts = sorted(run(command()).items())
    tell_deed(
        output,
        {"messages": dict(counts), "sent": not dry_run},
        *(f"{counted(count, 'message')} {verb} to {name}" for name, count in counts),
    )


def resend(
    group: GroupName,
    ids: Annotated[
        list[str] | None, typer.Option("--id", help="Only this message; may be repeated.")
    ] = None,
    start: From = "start",
    until: Until = "end",
    count: Annotated[
        int | None,
        typer.Option("--count", "-c", min=1, help="At most so many.", show_default="all"),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(metavar="TOPIC", help="Send to this topic.", show_default="each one's origin"),
    ] = None,
    dry_run: DryRun = False,
    output: Output = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    check_group(group, max_chars=MAX_GROUP_CHARS)
    if to is not None:
        check_topic(to)
    where, begin, end = nameserver_addresses(nameservers), position(start), position(until)

    async def command() -> list[dict[str, str | None]]:
        told: list[dict[str, str | None]] = []
        async with (
            Admin(nameservers=where) as admin,
            Producer(SEND_GROUP, nameservers=where) as producer,
        ):
            letters = await dead_letters(
                admin, group, begin, end, ids or (), await present_ms(where)
            )
            letters = letters[:count]
            messages = [resent(letter, to) for letter in letters]  # all of them, or none is sent
            with counting(f"resend {group}", len(letters)) as tell:
                for letter, message in zip(letters, messages, strict=True):
                    place = None
                    if not dry_run:
                        # By its keys, so that dead letters of one key are sent again in their
                        # order.
                        result = await producer.send(message, key=letter.keys)
                        place = _place(result.queue, result.queue_offset)
                    told.append(
                        {
                            "messageId": letter.msg_id,
                            "deadLetter": _place(letter.queue, letter.queue_offset),
                            "topic": message.topic,
                            "sentTo": place,
                        }
                    )
                    tell(len(told))
        return told

    facts = run(command())
    verb = "would be sent again" if dry_run else "sent again"
    show(
        output,
        facts,
        Table(
            "message",
            ("message id", "dead letter", "topic", "sent to"),
            [tuple(each.values()) for each in facts],
        ),
        heading=f"{counted(len(facts), 'dead letter')} of {group} {verb}",
    )


def _place(queue: MessageQueue, offset: int) -> str:
    return f"{queue.broker_name}/{queue.queue_id} {offset}"


@contextmanager
def _writing(path: Path | None) -> Iterator[BinaryIO]:
    if path is None:
        # Not closed, as it is the process's standard output.
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        file = path.open("wb")
    except OSError as exc:
        raise DiskError(path, exc.strerror or str(exc), advice="choose another file") from exc
    with file:
        yield file


@contextmanager
def _reading(name: str) -> Iterator[BinaryIO]:
    if name == "-":
        yield sys.stdin.buffer
        return
    path = Path(name)
    try:
        file = path.open("rb")
    except OSError as exc:
        raise DiskError(name, exc.strerror or str(exc), advice="name another file") from exc
    with file:
        yield file
