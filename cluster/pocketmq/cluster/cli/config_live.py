"""`pocketmq config get` and `set`: options of brokers and nameservers while they run (O-2, O-3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from pocketmq.client import Admin
from pocketmq.cluster.cli.run import DEFAULT_NAMESERVERS, Nameservers, addresses, run
from pocketmq.protocol.budget import Budget
from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.options import describe

if TYPE_CHECKING:
    from rich.table import Table

GET_HELP = """Show the options of running brokers, or of nameservers, under RocketMQ's names.

\b
Examples:
  pocketmq config get                               all options of all brokers
  pocketmq config get brokerPermission flushDiskType
  pocketmq config get --broker broker-a
  pocketmq config get --nameserver
"""

SET_HELP = """Change options of running brokers, or of nameservers.

Says what was and what is, and what acts only after a restart. The change is written to the file
that the role was started with (-c FILE), else into its store.

\b
Examples:
  pocketmq config set brokerPermission=4            all brokers: no more sends
  pocketmq config set --broker broker-a transactionCheckMax=5 autoCreateTopicEnable=false
  pocketmq config set --nameserver orderMessageEnable=true
"""

PLAIN_WIDTH = 120
"""Of tables that go into a file or a pipe."""

Brokers = Annotated[list[str] | None, typer.Option(help="Only this broker; may be repeated.")]
OfNameservers = Annotated[
    bool, typer.Option("--nameserver", help="Every nameserver, not the brokers.")
]


def get(
    keys: Annotated[list[str] | None, typer.Argument(help="Only these options.")] = None,
    broker: Brokers = None,
    nameserver: OfNameservers = False,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    async def command() -> dict[str, dict[str, str]]:
        async with Admin(nameservers=addresses(nameservers)) as admin:
            return await _options(admin, broker, nameserver=nameserver)

    found = run(command())
    known = set().union(*found.values())
    for key in keys or ():
        if key not in known:
            raise ConfigError(key, "is unknown there", advice="`pocketmq config get` lists all")
    _print(_values_table(found, sorted(keys or known), _acts(nameserver=nameserver)))


def set_options(
    changes: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...", help="What to change.")],
    broker: Brokers = None,
    nameserver: OfNameservers = False,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    wanted = _wanted(changes)

    async def command() -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]], list[str]]:
        async with Admin(nameservers=addresses(nameservers)) as admin:
            before = await _options(admin, broker, nameserver=nameserver)
            if nameserver:
                remarks = await admin.update_nameserver_config(wanted)
            else:
                remarks = {name: await admin.update_broker_config(name, wanted) for name in before}
            after = await _options(admin, broker, nameserver=nameserver)
        return before, after, [f"{name}: {text}" for name, text in remarks.items() if text]

    before, after, remarks = run(command())
    _print(_changes_table(before, after, sorted(wanted), _acts(nameserver=nameserver)))
    for remark in remarks:
        typer.echo(remark)
    if any(key not in options for options in after.values() for key in wanted) or any(
        "not changed: " in remark for remark in remarks
    ):
        raise typer.Exit(1)


def _wanted(changes: Iterable[str]) -> dict[str, str]:
    wanted = {}
    for change in changes:
        key, separator, value = change.partition("=")
        if not separator:
            raise ConfigError(change, "is no KEY=VALUE")
        wanted[key.strip()] = value.strip()
    return wanted


async def _options(
    admin: Admin, brokers: list[str] | None, *, nameserver: bool
) -> dict[str, dict[str, str]]:
    if nameserver:
        return await admin.nameserver_config()
    names = brokers or sorted(await admin.brokers())
    return {name: await admin.broker_config(name) for name in names}


def _acts(*, nameserver: bool) -> dict[str, str]:
    """RocketMQ's name of an option -> when a change of it acts."""
    if nameserver:
        from pocketmq.nameserver.config import NameServerConfig

        classes: list[type] = [NameServerConfig, Budget]
    else:
        from pocketmq.broker.config import BrokerConfig
        from pocketmq.broker.store.config import StoreConfig

        classes = [BrokerConfig, StoreConfig, Budget]
    return {
        each.rocketmq_name: "at once" if each.live else "after a restart"
        for config_class in classes
        for each in describe(config_class)
    }


def _values_table(
    found: Mapping[str, Mapping[str, str]], keys: Iterable[str], acts: Mapping[str, str]
) -> Table:
    from rich.table import Table

    table = Table()
    table.add_column("option", overflow="fold")
    for name in found:
        table.add_column(name, overflow="fold")
    table.add_column("a change acts")
    for key in keys:
        values = [options.get(key, "") for options in found.values()]
        table.add_row(key, *values, acts.get(key, ""))
    return table


def _changes_table(
    before: Mapping[str, Mapping[str, str]],
    after: Mapping[str, Mapping[str, str]],
    keys: Iterable[str],
    acts: Mapping[str, str],
) -> Table:
    from rich.table import Table

    table = Table()
    for column in ("where", "option", "was", "is", "acts"):
        table.add_column(column, overflow="fold")
    for name, options in after.items():
        for key in keys:
            was, now = before[name].get(key, "-"), options.get(key, "-")
            table.add_row(name, key, was, now, "not changed" if was == now else acts.get(key, ""))
    return table


def _print(table: Table) -> None:
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=PLAIN_WIDTH)
    console.print(table)
