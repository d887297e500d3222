"""`pocketmq send` and `pocketmq consume`; registers `pocketmq message`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from types import FrameType
from typing import Annotated, Any, Literal

import typer

from pocketmq.client import ConsumeFromWhere, Message, Producer, PushConsumer, SendResult
from pocketmq.cluster.cli.common.complete import TopicName, complete_group
from pocketmq.cluster.cli.common.output import Output, show_one
from pocketmq.cluster.cli.common.reader import while_read
from pocketmq.cluster.cli.common.run import (
    DEFAULT_NAMESERVERS,
    Nameservers,
    nameserver_addresses,
    run,
)
from pocketmq.cluster.cli.common.strategy import strategy_named
from pocketmq.cluster.cli.messages import tail, transfer
from pocketmq.cluster.cli.messages.route_watch import watch_route
from pocketmq.cluster.cli.roles.clock import cluster_time_ms
from pocketmq.cluster.control_port import client_port_door, control_port
from pocketmq.cluster.durations import LEVELS, parse_duration_ms
from pocketmq.protocol.allocation.by_name import STRATEGIES
from pocketmq.runtime.errors import CallerError
from pocketmq.runtime.logs import go_nowhere
from pocketmq.runtime.process import RoleContext, RoleOptions, run_role
from pocketmq.runtime.profile import DEFAULT_PROFILE, ProfileName

SEND_HELP = """Send messages, and print where each message was stored.

If BODY is -, the command sends each line of standard input as a message.

\b
Examples:
  pocketmq send orders "hello"
  pocketmq send orders "hello" --tag new --key order-17 --count 100
  pocketmq send orders "step 2" --ordered-by order-17     same key, same queue
  pocketmq send orders "later" --delay 10s                or --delay-level 3
  pocketmq send orders "in 95 s" --delay 95s --property region=eu
  seq 1000 | pocketmq send orders -
"""

CONSUME_HELP = """Consume a topic as a member of a group; print each message.

The members of a group share the topic's queues. To see this, run the command twice at the same
time. A group gets each message once. If you start the command again later, the group continues
where it stopped. With another --group, the command begins with the first message.

\b
Examples:
  pocketmq consume orders
  pocketmq consume orders --tags "new || changed" --count 10
  pocketmq consume orders --group billing --from last
  pocketmq consume orders -f '%o %k %s\\n'
      letters: `pocketmq message tail --help`
  pocketmq consume orders --strategy circle
  pocketmq consume orders --strategy mymodule:MyStrategy
  pocketmq consume orders --clock manual
      its time moves with `pocketmq clock advance`; where users are on, by
      those whom POCKETMQ_SUPER_USERS='{"name":"password"}' names
"""

SEND_GROUP = "pocketmq-send"
CONSUME_GROUP = "pocketmq-consume"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("send", help=SEND_HELP)(send)
    app.command("consume", help=CONSUME_HELP)(consume)
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("tail", help=tail.TAIL_HELP)(tail.tail)
    group.command("show", help=tail.SHOW_HELP)(tail.show_message)
    group.command("export", help=transfer.EXPORT_HELP)(transfer.export_messages)
    group.command("import", help=transfer.IMPORT_HELP)(transfer.import_messages)
    group.command("resend", help=transfer.RESEND_HELP)(transfer.resend)
    about = "Tail, show, export, import messages; resend dead letters."
    app.add_typer(group, name="message", help=about)


def send(
    topic: TopicName,
    body: Annotated[
        str,
        typer.Argument(
            help="Body of the message. With -, each line of standard input is a message."
        ),
    ],
    tag: Annotated[str | None, typer.Option(help="Tag, by which consumers filter.")] = None,
    key: Annotated[
        str | None, typer.Option(help="Key of the message. Tools can find the message by its key.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="How often to send the message.")] = 1,
    ordered_by: Annotated[
        str | None,
        typer.Option(
            help="Messages with the same value of this option go to the same queue, in order."
        ),
    ] = None,
    delay_level: Annotated[
        int, typer.Option(min=0, max=len(LEVELS), help="1..18: 1s 5s 10s 30s 1m ... 2h.")
    ] = 0,
    delay: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help=(
                "Deliver the message after this time, such as 10s, 95s or 2h. A delay that is "
                "not one of the delay levels needs a broker of 5.x, and may be at most 3d."
            ),
        ),
    ] = None,
    prop: Annotated[
        list[str] | None,
        typer.Option(
            "--property", metavar="NAME=VALUE", help="A property. The option may be repeated."
        ),
    ] = None,
    output: Output = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    delay_ms: int | None = None
    if delay is not None:
        if delay_level:
            raise CallerError("give either --delay 2h or --delay-level 18, not both")
        delay_level, delay_ms = _delay_of(delay)
    properties = [_property(each) for each in prop or ()]
    # The bytes that the shell gave: a body that is no UTF-8 is sent unchanged.
    bodies = _lines() if body == "-" else iter((os.fsencode(body),) * count)
    if body == "-":
        # Reading a line blocks the loop, which then could not handle Ctrl-C.
        signal.signal(signal.SIGINT, _interrupt)

    async def command() -> None:
        async with Producer(SEND_GROUP, nameservers=nameserver_addresses(nameservers)) as producer:
            for each in bodies:
                message = Message(
                    topic, each, tags=tag, keys=key, delay_level=delay_level, delay_ms=delay_ms
                )
                for name, value in properties:
                    message.put_user_property(name, value)
                # One after another, so that messages with one key are stored in the order of the
                # lines.
                result = await producer.send(message, key=ordered_by)
                show_one(output, _facts_of(result), partial(_sent, result))

    run(command())


def _delay_of(text: str) -> tuple[int, int | None]:
    """The delay level of this length and None; or 0 and milliseconds, where no level has it.

    Raises:
        CallerError: The text is no duration.
    """
    delay_ms = parse_duration_ms(text)
    lengths = [parse_duration_ms(each) for each in LEVELS]
    # A delay level if one has this length, as brokers of 4.9 have no timer.
    return (lengths.index(delay_ms) + 1, None) if delay_ms in lengths else (0, delay_ms)


def _property(text: str) -> tuple[str, str]:
    """Name and value.

    Raises:
        CallerError: There is no `=`.
    """
    name, found, value = text.partition("=")
    if not found:
        raise CallerError(f"--property {text} has no value; write --property NAME=VALUE")
    return name, value


def _sent(result: SendResult) -> str:
    queue = result.queue
    return (
        f"{result.status.value} {queue.broker_name}/{queue.queue_id} "
        f"offset {result.queue_offset} id {result.msg_id}"
    )


def _facts_of(result: SendResult) -> dict[str, Any]:
    return {
        "status": result.status.value,
        "brokerName": result.queue.broker_name,
        "queueId": result.queue.queue_id,
        "queueOffset": result.queue_offset,
        "msgId": result.msg_id,
    }


def _lines() -> Iterator[bytes]:
    # Only the line feed is removed: other white space is part of the body.
    for line in sys.stdin.buffer:
        yield line.rstrip(b"\n")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def consume(
    topic: TopicName,
    group: Annotated[
        str, typer.Option(help="Consumer group.", autocompletion=complete_group)
    ] = CONSUME_GROUP,
    tags: Annotated[str, typer.Option(help="Tags like 'a || b'; * for all.")] = "*",
    start: Annotated[
        Literal["first", "last"],
        typer.Option("--from", help="Where a group without offsets begins."),
    ] = "first",
    count: Annotated[
        int | None,
        typer.Option(min=1, help="Stop after this many messages.", show_default="never"),
    ] = None,
    strategy: Annotated[
        str,
        typer.Option(
            help=f"Allocation strategy: {', '.join(STRATEGIES)}, or your own class as module:Class."
        ),
    ] = "averagely",
    clock: Annotated[
        Literal["real", "manual"], typer.Option(help="manual: use the cluster's manual time.")
    ] = "real",
    profile: Annotated[
        ProfileName, typer.Option(help="RocketMQ release whose client the consumer imitates.")
    ] = DEFAULT_PROFILE,
    format_text: tail.Format = None,
    output: Output = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> int:
    where = nameserver_addresses(nameservers)
    allocation = strategy_named(strategy)
    first = ConsumeFromWhere.FIRST_OFFSET if start == "first" else ConsumeFromWhere.LAST_OFFSET
    # Several may run at once, each with its own control port to announce.
    name = f"consume-{os.getpid()}"
    door = client_port_door(os.environ)
    tell_message = tail.printer(format_text, output)

    async def main(role: RoleContext) -> None:
        consumer = PushConsumer(
            group,
            nameservers=where,
            clock=role.clock,
            profile=profile,
            strategy=allocation,
            consume_from_where=first,
        )
        consumer.subscribe(topic, tags)

        # Otherwise a topic that is created later would be noticed only at the next poll of routes.
        def on_found() -> None:
            consumer.subscribe(topic, tags)  # makes a running consumer fetch the route at once

        role.tasks.start(watch_route(topic, where, _tell, on_found), name="route watch")
        status = {"role": "consumer", "group": group, "topic": topic}
        # The port comes before the consumer, so that its first timers follow the cluster's clock.
        async with (
            control_port(name, role.clock, lambda: status, door=door, announce_to=where),
            consumer,
        ):

            async def print_all() -> None:
                async for message in consumer.take(count) if count else consumer:
                    try:
                        tell_message(message)
                    except BrokenPipeError:  # `... | head` has ended; this message is not consumed
                        go_nowhere(sys.stdout)
                        return

            await while_read(print_all())

    options = RoleOptions(
        log_level="error",
        clock=clock,
        # A manual clock begins at the cluster's time, not at this machine's.
        clock_start_ms=run(cluster_time_ms(where)) if clock == "manual" else 0,
    )
    return run_role(main, role="pocketmq", name=name, options=options)


def _tell(news: str) -> None:
    print(f"pocketmq consume: {news}", file=sys.stderr, flush=True)
