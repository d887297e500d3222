"""`pocketmq config get` and `set`: options of brokers and nameservers while they run (O-2, O-3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

import typer

from pocketmq.client import Admin
from pocketmq.cluster.cli.common.complete import Brokers
from pocketmq.cluster.cli.common.output import Output, show
from pocketmq.cluster.cli.common.run import (
    DEFAULT_NAMESERVERS,
    Nameservers,
    nameserver_addresses,
    run,
)
from pocketmq.cluster.cli.common.tables import Table
from pocketmq.protocol.budget import Budget
from pocketmq.runtime.configuration.options import describe
from pocketmq.runtime.errors import ConfigError

GET_HELP = """Show the options of running brokers or nameservers.

Options have RocketMQ's names.

\b
Examples:
  pocketmq config get                               all options of all brokers
  pocketmq config get brokerPermission flushDiskType
  pocketmq config get --broker broker-a
  pocketmq config get --nameserver
"""

SET_HELP = """Change options of running brokers, or of nameservers.

The command shows the old and the new values, and which options need a restart. If a role was
started with -c FILE, the role writes the change to that file. Otherwise, the role writes the change
to a file of its own.

\b
Examples:
  pocketmq config set brokerPermission=4            all brokers: no more sends
  pocketmq config set --broker broker-a transactionCheckMax=5 \\
      autoCreateTopicEnable=false
  pocketmq config set --nameserver orderMessageEnable=true
"""

OfNameservers = Annotated[
    bool, typer.Option("--nameserver", help="Every nameserver, not the brokers.")
]


def get(
    keys: Annotated[list[str] | None, typer.Argument(help="Only these options.")] = None,
    broker: Brokers = None,
    nameserver: OfNameservers = False,
    output: Output = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    async def command() -> dict[str, dict[str, str]]:
        async with Admin(nameservers=nameserver_addresses(nameservers)) as admin:
            return await _options(admin, broker, nameserver=nameserver)

    found = run(command())
    known = set().union(*found.values())
    for key in keys or ():
        if key not in known:
            raise ConfigError(key, "is unknown there", advice="`pocketmq config get` lists all")
    # The keys of all brokers together: brokers of different releases have different options.
    listed = sorted(keys or known)
    facts = {
        name: {key: all_of[key] for key in listed if key in all_of}
        for name, all_of in found.items()
    }
    show(output, facts, values_table(found, listed, _acts(nameserver=nameserver)))


def set_options(
    changes: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...", help="What to change.")],
    broker: Brokers = None,
    nameserver: OfNameservers = False,
    output: Output = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    wanted = _wanted(changes)

    async def command() -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]], list[str]]:
        async with Admin(nameservers=nameserver_addresses(nameservers)) as admin:
            # Read before and after the change, as a role may accept some changes and refuse others.
            before = await _options(admin, broker, nameserver=nameserver)
            if nameserver:
                remarks = await admin.update_nameserver_config(wanted)
            else:
                remarks = {name: await admin.update_broker_config(name, wanted) for name in before}
            after = await _options(admin, broker, nameserver=nameserver)
        return before, after, [f"{name}: {text}" for name, text in remarks.items() if text]

    before, after, remarks = run(command())
    changes_made = _changes(before, after, sorted(wanted), _acts(nameserver=nameserver))
    rows = [tuple(change.values()) for change in changes_made]
    show(output, changes_made, Table("option", ("where", "option", "was", "is", "acts"), rows))
    for remark in remarks:
        # With JSON on standard error, so that the program that reads the rows does not get it.
        typer.echo(remark, err=output == "json")
    # A role ignores an option that it does not know, and names one that it refuses in its remark.
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
        # A properties file may have blanks around the equals sign.
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


def values_table(
    found: Mapping[str, Mapping[str, str]], keys: Iterable[str], acts: Mapping[str, str]
) -> Table:
    """A row for each option, with its value at each role and when a change acts."""
    return Table(
        "option",
        ("option", *found, "acts"),
        [
            (key, *(options.get(key, "") for options in found.values()), acts.get(key, ""))
            for key in keys
        ],
        kept_whole="option",
    )


def _changes(
    before: Mapping[str, Mapping[str, str]],
    after: Mapping[str, Mapping[str, str]],
    keys: Iterable[str],
    acts: Mapping[str, str],
) -> list[dict[str, str]]:
    found = []
    for name, options in after.items():
        for key in keys:
            was, now = before[name].get(key, "-"), options.get(key, "-")
            when = "not changed" if was == now else acts.get(key, "")
            found.append({"where": name, "option": key, "was": was, "is": now, "acts": when})
    return found
