"""`pocketmq group`: list, show, explain, reset, simulate."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

import typer

from pocketmq.client import Admin
from pocketmq.cluster.cli.common.complete import GroupName, TopicName, complete_topic
from pocketmq.cluster.cli.common.output import Output, Sentences, is_table, show, show_names
from pocketmq.cluster.cli.common.run import (
    DEFAULT_NAMESERVERS,
    Nameservers,
    nameserver_addresses,
    remoting,
    run,
)
from pocketmq.cluster.cli.common.strategy import ALL_STRATEGIES, Imagined
from pocketmq.cluster.cli.common.tables import Table
from pocketmq.cluster.cli.kept import group_edit
from pocketmq.cluster.cli.roles.clock import present_ms
from pocketmq.cluster.control import discover, reachable
from pocketmq.cluster.durations import parse_duration_ms
from pocketmq.cluster.explain.facts import gather_facts
from pocketmq.cluster.explain.findings import Finding, findings
from pocketmq.cluster.group_reset import END_MS, START_MS, QueueMove, plan_reset, reset_group
from pocketmq.cluster.group_view import GroupView, known_groups, look_at
from pocketmq.protocol.allocation.preview import Allocation, moved, preview
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.validation import check_topic, is_system_group
from pocketmq.runtime.errors import CallerError
from pocketmq.runtime.words import counted

LIST_HELP = """List the consumer groups that brokers know.

\b
Examples:
  pocketmq group list
  pocketmq group list --all                         also built-in groups
"""

SHOW_HELP = """Show a consumer group's members, subscriptions and offsets.

The table of queues has these columns. end: the offset that the next stored message gets. offset:
the offset of the next message that the group consumes. lag: the difference between end and offset.
owner: the client that consumes the queue.

\b
Examples:
  pocketmq group show billing
  pocketmq group show billing -o json
"""

EXPLAIN_HELP = """Explain why a group lags, gets nothing, or gets messages twice.

The command asks brokers, gRPC proxies and members. It prints each problem, and what to do about it.
Examples of problems: no member, members with different subscriptions, more members than queues, two
clients with one id, offsets past the end, missing permissions, dead letters. The exit status is 1
if there is a problem.

\b
Examples:
  pocketmq group explain billing
  pocketmq group explain billing -o json
"""

RESET_HELP = """Set a group's offsets in a topic.

The command works with and without running members. For each queue, it prints the old and the new
offset, and how many messages are consumed again or skipped. If you give a time, the group continues
at the first message stored at that time or later. On a 4.9 broker, the group continues at the
message whose store time is nearest to that time.

\b
Examples:
  pocketmq group reset billing orders --to start
  pocketmq group reset billing orders --to end
  pocketmq group reset billing orders --ago 10m
  pocketmq group reset billing orders --to 2026-11-22T09:30
      local time; or with Z, +01:00
  pocketmq group reset billing orders --ago 1h --dry-run
      only shows what it would do
"""

SIMULATE_HELP = """Show which client would get which queue, step by step.

The command asks the running cluster for the topic's queues. With --queues, the command needs no
cluster.

\b
Examples:
  pocketmq group simulate orders --clients 5
  pocketmq group simulate orders --clients 5 --strategy consistent-hash
  pocketmq group simulate any --queues 8 --clients 3 --strategy circle
  pocketmq group simulate any --queues 4 --broker east@a --broker west@b \\
      --rooms east --strategy machine-room
  pocketmq group simulate any --queues 2 --clients 2 --strategy config \\
      --fixed consumer-1=broker-a/0 --fixed consumer-2=broker-a/1
"""

_ENDS_MS = {"start": START_MS, "end": END_MS}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("list", help=LIST_HELP)(list_groups)
    group.command("show", help=SHOW_HELP)(show_group)
    group.command("explain", help=EXPLAIN_HELP)(explain)
    group.command("reset", help=RESET_HELP)(reset)
    group.command("simulate", help=SIMULATE_HELP)(simulate)
    group_edit.register(group)
    app.add_typer(
        group,
        name="group",
        help="Consumer groups: show, create, change, reset, delete.",
    )


def list_groups(
    everything: Annotated[bool, typer.Option("--all", help="Also list built-in groups.")] = False,
    output: Output = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    async def command() -> list[str]:
        async with Admin(nameservers=nameserver_addresses(nameservers)) as admin:
            return await known_groups(admin)

    names = run(command())
    shown = [name for name in names if everything or not is_system_group(name)]
    show_names(output, shown, "group")


def show_group(
    group: GroupName,
    output: Output = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    async def command() -> GroupView:
        async with Admin(nameservers=nameserver_addresses(nameservers)) as admin:
            return await look_at(admin, group)

    view = run(command())
    about = f"{view.message_model}, {view.consume_from_where}" if view.members else "no members"
    heading = f"group {view.group}: {about}; lag {counted(view.lag, 'message')}"
    show(output, view.as_dict(), *group_tables(view), heading=heading)


def explain(
    group: GroupName,
    output: Output = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> int:
    where = nameserver_addresses(nameservers)

    async def command() -> list[Finding]:
        async with remoting() as client:
            everyone = await discover(where, client)
            # Any process on a manual clock will do: none knows whether somebody is moving it.
            clock_stands = bool(await reachable(everyone))
        async with Admin(nameservers=where) as admin:
            return findings(await gather_facts(admin, group, clock_stands=clock_stands))

    found = run(command())
    if not is_table(output):
        rows = [(each.problem, each.advice) for each in found]
        show(
            output,
            [asdict(each) for each in found],
            Table("problem", ("problem", "what to do"), rows),
        )
        return int(bool(found))
    if not found:
        typer.echo(f"{group}: no problem found")
    for number, each in enumerate(found, start=1):
        typer.echo(f"{number}. {each.problem}\n   {each.advice}")
    return int(bool(found))


def reset(
    group: GroupName,
    topic: TopicName,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="start|end|TIME",
            help=(
                "Where the group continues: start, end or a time. You can give --ago instead "
                "of --to."
            ),
        ),
    ] = None,
    ago: Annotated[
        str | None, typer.Option(metavar="DURATION", help="A duration before now: 90s, 10m, 2h.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing.")] = False,
    output: Sentences = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    if (to is None) == (ago is None):
        raise CallerError("give exactly one of --to start, --to end, --to TIME and --ago DURATION")
    where = nameserver_addresses(nameservers)
    by_ms = 0 if ago is None else parse_duration_ms(ago)
    time_ms = None if to is None else _moment_ms(to)

    async def command() -> list[QueueMove]:
        moment_ms = time_ms
        if moment_ms is None:
            # Counted from the cluster's time, which on a manual clock differs from this machine's.
            moment_ms = max(START_MS, await present_ms(where) - by_ms)
        do = plan_reset if dry_run else reset_group
        async with Admin(nameservers=where) as admin:
            return await do(admin, group, topic, moment_ms)

    moves = run(command())
    if output is not None:
        show(output, [_facts_of(move) for move in moves], reset_table(moves))
        return
    for move in moves:
        typer.echo(str(move))
    if dry_run:
        typer.echo("nothing was changed")


def _facts_of(move: QueueMove) -> dict[str, Any]:
    queue = move.queue
    return {
        "broker": queue.broker_name,
        "queue": queue.queue_id,
        "before": move.before,
        "after": move.after,
    }


def reset_table(moves: list[QueueMove]) -> Table:
    """The offsets before and after."""
    return Table(
        "queue",
        ("queue", "before", "after"),
        [(_place(move.queue), move.before, move.after) for move in moves],
    )


def _moment_ms(text: str) -> int:
    """Epoch ms of `start`, `end` or a time; one without a zone is local.

    Raises:
        CallerError: The text is none of them.
    """
    if text in _ENDS_MS:
        return _ENDS_MS[text]
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise CallerError(
            f"{text!r} is not a time; write start, end, or a time like 2026-11-22T09:30"
        ) from None


def simulate(
    topic: Annotated[
        str,
        typer.Argument(
            help="Topic whose queues are shared. With --queues, the topic need not exist.",
            autocompletion=complete_topic,
        ),
    ],
    clients: Annotated[int, typer.Option(min=1, help="Number of members of the group.")] = 5,
    strategy: Annotated[
        str,
        typer.Option(
            help=f"Strategy: {', '.join(ALL_STRATEGIES)}, or your own class as module:Class."
        ),
    ] = "averagely",
    queues: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of queues on each broker. With this option, the command needs no cluster.",
            show_default="the route's",
        ),
    ] = None,
    broker: Annotated[
        list[str] | None,
        typer.Option(help="With --queues: name of a broker. The option may be repeated."),
    ] = None,
    rooms: Annotated[
        str,
        typer.Option(
            metavar="A,B",
            help=(
                "Names of machine rooms, for the machine-room strategies. Clients are assigned "
                "to the rooms in turn."
            ),
        ),
    ] = "",
    fixed: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLIENT=BROKER/QUEUE,...", help="For the strategy config: a client's queues."
        ),
    ] = None,
    output: Sentences = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    check_topic(topic)
    room_names = tuple(name.strip() for name in rooms.split(",") if name.strip())
    imagined = Imagined(clients, room_names, tuple(fixed or ()))
    # Before any cluster is asked: a wrong strategy name is found without one.
    strategy_of = imagined.strategy_of(strategy, topic)

    async def of_the_route() -> list[MessageQueue]:
        async with Admin(nameservers=nameserver_addresses(nameservers)) as admin:
            return await admin.subscribe_queues(topic)

    if queues is None:
        mq_all = run(of_the_route())
    else:
        names = broker or ["broker-a"]
        mq_all = [MessageQueue(topic, name, number) for name in names for number in range(queues)]
    allocation = preview(strategy_of, mq_all, imagined.client_ids())
    if output is not None:
        shares = [
            (share.client_id, " ".join(map(_place, share.queues)), len(share.queues))
            for share in allocation.shares
        ]
        show(
            output,
            {
                share.client_id: [_place(each) for each in share.queues]
                for share in allocation.shares
            },
            Table("member", ("client id", "queues", "count"), shares),
        )
        return
    _tell(allocation, strategy_of(allocation.shares[0].client_id).name)
    # The last client leaves; its joining would be the same step in reverse.
    fewer = [share.client_id for share in allocation.shares[:-1]]
    if fewer:
        count = moved(allocation, preview(strategy_of, mq_all, fewer))
        typer.echo(
            f"4. If {allocation.shares[-1].client_id} left, or joined the others: "
            f"{count} of {counted(len(allocation.queues), 'queue')} would change owner"
        )


def _tell(allocation: Allocation, name: str) -> None:
    """Print the steps of one allocation."""
    queues, shares = allocation.queues, allocation.shares
    typer.echo(
        f"{queues[0].topic} with {name}: {counted(len(queues), 'queue')} for "
        f"{counted(len(shares), 'member')}"
    )
    typer.echo("1. All members sort the queues by broker and number (A-1):")
    for at, queue in enumerate(queues):
        typer.echo(f"   {at:3}  {_place(queue)}")
    typer.echo("2. All members sort the client ids as text (A-1):")
    for at, share in enumerate(shares):
        typer.echo(f"   {at:3}  {share.client_id}")
    typer.echo("3. Each member computes its own share:")
    for share in shares:
        typer.echo(f"   {share.client_id}: {share.explanation}")
        typer.echo(f"      -> {' '.join(map(_place, share.queues)) or 'nothing'}")
    # Users' own strategies may share queues out wrongly.
    owners = allocation.owners()
    for problem, places in (
        ("without owner", [queue for queue, who in owners.items() if not who]),
        ("with several owners", [queue for queue, who in owners.items() if len(who) > 1]),
        ("not in the topic", [queue for queue in owners if queue not in queues]),
    ):
        if places:
            typer.echo(f"   {problem}: {' '.join(map(_place, places))}")
    sizes = [len(share.queues) for share in shares]
    typer.echo(f"   {min(sizes)} to {counted(max(sizes), 'queue')} per member")


def _place(queue: MessageQueue) -> str:
    return f"{queue.broker_name}/{queue.queue_id}"


def group_tables(view: GroupView) -> tuple[Table, Table, Table]:
    """Members, subscriptions and queues."""
    return (
        Table(
            "member",
            ("client id", "address", "language", "version", "known to", "queues"),
            [
                (
                    member.client_id, member.address, member.language, str(member.version),
                    " ".join(member.brokers),
                    # A member that does not answer may own queues that cannot be counted.
                    sum(member.client_id in queue.owners for queue in view.queues)
                    if member.answers else "no answer",
                )
                for member in view.members
            ],
        ),
        Table(
            "subscription",
            ("topic", "expression", "type"),
            [(each.topic, each.expression, each.expression_type) for each in view.subscriptions],
        ),
        Table(
            "queue",
            ("topic", "queue", "end", "offset", "lag", "owner"),
            [
                (
                    each.topic, f"{each.broker}/{each.queue}", each.broker_offset,
                    # -1 means that the group has no offset in this queue yet.
                    None if each.consumer_offset < 0 else each.consumer_offset, each.lag,
                    " ".join(each.owners) or None,
                )
                for each in view.queues
            ],
        ),
    )  # fmt: skip
