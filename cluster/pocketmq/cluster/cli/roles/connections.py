"""`pocketmq connections`: the clients that brokers and gRPC proxies know."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from pocketmq.client import Admin
from pocketmq.cluster.cli.common.complete import complete_broker, complete_group
from pocketmq.cluster.cli.common.output import Output, show
from pocketmq.cluster.cli.common.run import (
    DEFAULT_NAMESERVERS,
    Nameservers,
    nameserver_addresses,
    run,
)
from pocketmq.cluster.cli.common.tables import Table
from pocketmq.cluster.group_view import known_groups
from pocketmq.protocol.errors import BrokerNotFoundError
from pocketmq.runtime.errors import CallerError
from pocketmq.runtime.words import counted

HELP = """Show the clients of each broker and gRPC proxy.

\b
Examples:
  pocketmq connections
  pocketmq connections --broker broker-a --group billing
  pocketmq connections -o json
"""


@dataclass(frozen=True, slots=True, order=True)
class ConnectionView:
    """One client in one group, as one broker or gRPC proxy knows it."""

    broker: str
    """Or the proxy; a producer's group is its topic there."""
    role: str
    """`producer` or `consumer`."""
    group: str
    client_id: str
    address: str
    language: str
    """Of a client of a proxy with its SDK's version behind it, and then `version` is 0."""
    version: int
    """The client's protocol version, as RocketMQ's number."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("connections", help=HELP)(connections)


def connections(
    broker: Annotated[
        list[str] | None,
        typer.Option(help="Only this broker; may be repeated.", autocompletion=complete_broker),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(help="Only this group; may be repeated.", autocompletion=complete_group),
    ] = None,
    output: Output = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    async def command() -> list[ConnectionView]:
        async with Admin(nameservers=nameserver_addresses(nameservers)) as admin:
            known = await admin.brokers()
            # Otherwise the answer to a misspelt name would be an empty list.
            for name in broker or ():
                if name not in known:
                    raise BrokerNotFoundError(name)
            return await connected(admin)

    found = [
        each
        for each in run(command())
        if (not broker or each.broker in broker) and (not group or each.group in group)
    ]
    # A group without a client is an error: otherwise the list would be empty without a word.
    for name in group or ():
        if all(each.group != name for each in found):
            raise CallerError(
                f"no client of group {name!r} is connected; leave out --group to see all clients"
            )
    show(
        output,
        [asdict(each) for each in found],
        connection_table(found),
        heading=counted(len(found), "connection"),
    )


async def connected(admin: Admin) -> list[ConnectionView]:
    """Ask every master and every gRPC proxy for its clients."""
    # Only a proxy knows the SDKs behind it; brokers see the proxy as their client.
    producers = await admin.proxy_producers()
    for name in await admin.brokers():
        producers[name] = await admin.producers(name)
    found = [
        ConnectionView(
            # Java writes an address with a leading slash.
            name, "producer", group, each.client_id, each.remote_ip.lstrip("/"), each.language,
            each.version,
        )
        for name, groups in producers.items()
        for group, clients in groups.items()
        for each in clients
    ]  # fmt: skip
    for group in await known_groups(admin):
        consumers = await admin.consumer_connections(group) | await admin.proxy_consumers(group)
        found += [
            ConnectionView(
                name, "consumer", group, each.client_id, each.client_addr, each.language,
                each.version,
            )
            for name, here in consumers.items()
            for each in here.connection_set
        ]  # fmt: skip
    return sorted(found)


def connection_table(found: list[ConnectionView]) -> Table:
    """A row for each."""
    return Table(
        "connection",
        ("broker", "role", "group", "client id", "address", "language", "version"),
        [
            (
                each.broker, each.role, each.group, each.client_id, each.address, each.language,
                str(each.version),
            )
            for each in found
        ],
    )  # fmt: skip
