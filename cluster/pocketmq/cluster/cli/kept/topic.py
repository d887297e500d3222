"""`pocketmq topic`: create, update, list, route, stats, delete."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Final

import typer

from pocketmq.client import Admin
from pocketmq.cluster.cli.common.asking import ask
from pocketmq.cluster.cli.common.complete import OnBrokers, TopicName
from pocketmq.cluster.cli.common.output import Output, Sentences, show, show_names, tell
from pocketmq.cluster.cli.common.run import (
    DEFAULT_NAMESERVERS,
    Nameservers,
    nameserver_addresses,
    run,
)
from pocketmq.cluster.cli.common.tables import Table
from pocketmq.cluster.cli.roles.clock import moment_text
from pocketmq.cluster.own_topics import peoples_topics, systems_topics
from pocketmq.cluster.topic_changes import MAX_QUEUES, change, create_or_change, differences
from pocketmq.protocol.bodies.route import TopicRouteData
from pocketmq.protocol.errors import TopicNotFoundError
from pocketmq.protocol.messages.validation import check_topic, is_system_topic
from pocketmq.protocol.scalars import MessageType, Perm
from pocketmq.runtime.errors import CallerError
from pocketmq.runtime.words import counted

CREATE_HELP = """Create a topic.

If the topic exists already, the command only shows what would change. With --update, the command
makes the changes.

\b
Examples:
  pocketmq topic create invoices                    4 queues on each broker
  pocketmq topic create letters --queues 8 --broker broker-a
  pocketmq topic create invoices --queues 8 --update
  pocketmq topic create payments --message-type FIFO
      RocketMQ's 5.x SDKs can then send only FIFO messages to it
"""

UPDATE_HELP = """Change the given settings of a topic.

\b
Examples:
  pocketmq topic update orders --queues 8
  pocketmq topic update payments --message-type FIFO
      also for a topic whose first message has created it
"""

LIST_HELP = """List the topics that the nameservers know.

\b
Examples:
  pocketmq topic list
  pocketmq topic list --all
      also system and retry topics
"""

ROUTE_HELP = """Show the brokers of a topic's queues, and their addresses.

\b
Example:
  pocketmq topic route orders
"""

STATS_HELP = """Show the queues of a topic, and how many messages go in and out.

For each queue, the command shows the oldest stored offset, the offset of the next message, and the
time of the last message. For each broker, it shows how many messages went in and out per second in
the last minute. The rate "out" counts the messages to all groups together.

\b
Examples:
  pocketmq topic stats orders
  pocketmq topic stats '%DLQ%billing' -o json
"""

DELETE_HELP = """Delete a topic with its messages, on all brokers and nameservers.

Without --yes, the command asks before it deletes the topic. System topics cannot be deleted.

\b
Examples:
  pocketmq topic delete orders
  pocketmq topic delete orders --yes
"""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("create", help=CREATE_HELP)(create)
    group.command("update", help=UPDATE_HELP)(update)
    group.command("list", help=LIST_HELP)(list_topics)
    group.command("route", help=ROUTE_HELP)(route)
    group.command("stats", help=STATS_HELP)(stats)
    group.command("delete", help=DELETE_HELP)(delete)
    app.add_typer(group, name="topic", help="Create, change, list, route, count and delete topics.")


NEW_QUEUES: Final = 4
"""On each broker, of a topic that is created without a number."""


async def _lacking(admin: Admin, topic: str, brokers: list[str] | None) -> list[str]:
    """Brokers, of all or of those that are named, that do not have a topic yet."""
    route = await admin.route(topic)
    # The route lists only brokers with queues of the topic; all others are in the list of brokers.
    having = set() if route is None else {each.broker_name for each in route.queue_datas}
    return [each for each in brokers or sorted(await admin.brokers()) if each not in having]


MessageTypeOption = Annotated[
    MessageType | None,
    typer.Option(
        metavar="TYPE",
        help=(
            "Type of the messages that proxies accept for the topic: NORMAL, FIFO, DELAY, "
            "TRANSACTION or MIXED (all of these types). Profile 5.5 also has the type "
            "PRIORITY."
        ),
        case_sensitive=False,
        show_default="as it is; a new topic is for NORMAL",
    ),
]


def create(
    topic: Annotated[str, typer.Argument(help="Its name.")],
    queues: Annotated[
        int | None,
        typer.Option(min=1, max=MAX_QUEUES, help="Queues on each broker.", show_default="4"),
    ] = None,
    broker: OnBrokers = None,
    message_type: MessageTypeOption = None,
    change_it: Annotated[
        bool, typer.Option("--update", help="Change the topic if it exists already.")
    ] = False,
    output: Sentences = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    count = NEW_QUEUES if queues is None else queues

    async def command() -> tuple[list[str], dict[str, int]]:
        async with Admin(nameservers=nameserver_addresses(nameservers)) as admin:
            # With --update: the named brokers, or None for all.
            targets = broker
            if not change_it:
                # Without --update an existing topic must not change.
                would = await differences(admin, topic, queues, broker, message_type)
                if would:
                    changes = "; ".join(f"{name}: {what}" for name, what in would.items())
                    raise CallerError(
                        f"topic {topic} already exists, and nothing was changed; --update would "
                        f"make these changes: {changes}"
                    )
                # Where it is there already, its queues, perm and order stay as they are.
                targets = await _lacking(admin, topic, broker)
                if would is not None and not targets:
                    return [], {}
            before = await create_or_change(admin, topic, count, targets, message_type)
            return targets or sorted(await admin.brokers()), before

    names, before = run(command())
    if not names:
        tell(
            output,
            {"topic": topic, "brokers": [], "queues_before": {}, "message_type": message_type},
            f"{topic} is there already; nothing was changed",
        )
        return
    tell(
        output,
        {
            "topic": topic,
            "queues": count,
            "brokers": names,
            "queues_before": before,
            "message_type": message_type,
        },
        f"{topic}: {counted(count, 'queue')} on each of {', '.join(names)}"
        + (f", for messages of type {message_type}" if message_type else ""),
        *(
            f"{topic} was there: {name} {old} -> {counted(count, 'queue')}"
            for name, old in before.items()
        ),
    )


def update(
    topic: TopicName,
    queues: Annotated[
        int | None,
        typer.Option(
            min=1, max=MAX_QUEUES, help="Queues on each broker.", show_default="as before"
        ),
    ] = None,
    broker: OnBrokers = None,
    message_type: MessageTypeOption = None,
    output: Sentences = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    if queues is None and message_type is None:
        raise CallerError("nothing to change: give --queues or --message-type")

    async def command() -> dict[str, int]:
        async with Admin(nameservers=nameserver_addresses(nameservers)) as admin:
            return await change(
                admin, topic, queues=queues, message_type=message_type, brokers=broker
            )

    before = run(command())
    tell(
        output,
        {
            "topic": topic,
            "brokers": list(before),
            "queues": {name: queues or count for name, count in before.items()},
            "queues_before": before,
            "message_type": message_type,
        },
        *(
            f"{topic} on {name}: "
            + (f"{count} -> " if queues not in (None, count) else "")
            + counted(queues or count, "queue")
            + (f", for messages of type {message_type}" if message_type else "")
            for name, count in before.items()
        ),
    )


def list_topics(
    everything: Annotated[
        bool, typer.Option("--all", help="Also list system topics and retry topics.")
    ] = False,
    output: Output = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    async def command() -> list[str]:
        async with Admin(nameservers=nameserver_addresses(nameservers)) as admin:
            return await admin.topics() if everything else await peoples_topics(admin)

    show_names(output, run(command()), "topic")


# -- route ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BrokerOfTopic:
    """A topic's queues on one broker name."""

    broker: str
    read_queues: int
    write_queues: int
    permission: str
    """Of RW-."""
    addresses: dict[int, str]
    """By broker id; 0 is the master."""

    @property
    def replicas(self) -> str:
        """The addresses, for people."""
        return ", ".join(
            f"{'master' if number == 0 else f'slave {number}'} {address}"
            for number, address in self.addresses.items()
        )


def route(
    topic: TopicName, output: Output = None, nameservers: Nameservers = DEFAULT_NAMESERVERS
) -> None:
    async def command() -> TopicRouteData | None:
        async with Admin(nameservers=nameserver_addresses(nameservers)) as admin:
            return await admin.route(topic)

    found = run(command())
    if found is None:
        raise TopicNotFoundError(topic)
    brokers = brokers_of(found)
    show(output, [asdict(each) for each in brokers], route_table(brokers))


def brokers_of(found: TopicRouteData) -> list[BrokerOfTopic]:
    """The brokers of a route, by name."""
    datas = {data.broker_name: data for data in found.broker_datas}
    return [
        BrokerOfTopic(
            queues.broker_name,
            queues.read_queue_nums,
            queues.write_queue_nums,
            ("R" if queues.perm & Perm.READ else "-") + ("W" if queues.perm & Perm.WRITE else "-"),
            dict(sorted(datas[queues.broker_name].broker_addrs.items()))
            # A broker may have left the nameserver while its queues are still in the route.
            if queues.broker_name in datas
            else {},
        )
        for queues in sorted(found.queue_datas, key=lambda each: each.broker_name)
    ]


def route_table(brokers: list[BrokerOfTopic]) -> Table:
    """A row for each."""
    return Table(
        "broker",
        ("broker", "to read", "to write", "permission", "addresses"),
        [
            (each.broker, each.read_queues, each.write_queues, each.permission, each.replicas)
            for each in brokers
        ],
    )


# -- stats ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueueStats:
    """One queue."""

    broker: str
    queue: int
    min_offset: int
    max_offset: int
    last_update_ms: int
    """Epoch ms of the last message; 0 if there is none."""


@dataclass(frozen=True, slots=True)
class BrokerRates:
    """Messages per second of the last minute; None if the broker has counted none."""

    broker: str
    in_per_s: float | None
    out_per_s: float | None


@dataclass(frozen=True, slots=True)
class TopicStats:
    """A topic's queues and rates."""

    topic: str
    messages: int
    queues: tuple[QueueStats, ...]
    brokers: tuple[BrokerRates, ...]


def stats(
    topic: TopicName, output: Output = None, nameservers: Nameservers = DEFAULT_NAMESERVERS
) -> None:
    async def command() -> TopicStats:
        async with Admin(nameservers=nameserver_addresses(nameservers)) as admin:
            return await look_at_topic(admin, topic)

    found = run(command())
    heading = f"topic {topic}: {counted(found.messages, 'message')}"
    show(output, asdict(found), *stats_tables(found), heading=heading)


async def look_at_topic(admin: Admin, topic: str) -> TopicStats:
    """Ask the topic's brokers; raises `TopicNotFoundError`."""
    bounds = await admin.topic_stats(topic)
    groups = await admin.topic_consumers(topic)
    rates = []
    # Once for each broker, which may have several queues.
    for broker in dict.fromkeys(queue.broker_name for queue in bounds):
        put = await admin.broker_stats(broker, "TOPIC_PUT_NUMS", topic)
        # Brokers count outgoing messages only by group, so the topic's rate is their sum.
        got = [await admin.broker_stats(broker, "GROUP_GET_NUMS", f"{topic}@{g}") for g in groups]
        counted_out = [each.stats_minute.tps for each in got if each is not None]
        rates.append(
            BrokerRates(
                broker,
                None if put is None else put.stats_minute.tps,
                # Unknown rather than 0 if the broker has counted nothing yet.
                sum(counted_out) if counted_out else None,
            )
        )
    return TopicStats(
        topic,
        sum(each.max_offset - each.min_offset for each in bounds.values()),
        tuple(
            QueueStats(
                queue.broker_name, queue.queue_id, each.min_offset, each.max_offset,
                each.last_update_timestamp,
            )
            for queue, each in bounds.items()
        ),
        tuple(rates),
    )  # fmt: skip


def stats_tables(found: TopicStats) -> tuple[Table, Table]:
    """Queues, and brokers with their rates."""
    return (
        Table(
            "queue",
            ("queue", "min", "max", "last update"),
            [
                (
                    f"{each.broker}/{each.queue}", each.min_offset, each.max_offset,
                    moment_text(each.last_update_ms) if each.last_update_ms else None,
                )
                for each in found.queues
            ],
        ),
        Table(
            "broker",
            ("broker", "in/s", "out/s"),
            [(each.broker, each.in_per_s, each.out_per_s) for each in found.brokers],
        ),
    )  # fmt: skip


# -- delete --------------------------------------------------------------------------------------


def delete(
    topic: TopicName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: Sentences = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    check_topic(topic)
    where = nameserver_addresses(nameservers)

    async def stored() -> int:
        async with Admin(nameservers=where) as admin:
            if is_system_topic(topic) or topic in await systems_topics(admin):
                raise CallerError(
                    f"topic {topic!r} is a system topic of the cluster and cannot be deleted"
                )
            found = await admin.topic_stats(topic)
            return sum(each.max_offset - each.min_offset for each in found.values())

    async def command() -> None:
        async with Admin(nameservers=where) as admin:
            await admin.delete_topic(topic)

    # Also with --yes, since this refuses the cluster's own topics.
    count = run(stored())
    if not yes:
        ask(f"Delete topic {topic} with {counted(count, 'message')}?", "nothing was deleted")
    run(command())
    tell(output, {"topic": topic, "messages": count}, f"topic {topic} is deleted")
