"""`pocketmq cluster show`: brokers with role, end of log, epoch, and how far slaves are behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated

import typer

from pocketmq.client import Admin
from pocketmq.cluster.cli.run import DEFAULT_NAMESERVERS, Nameservers, addresses, run
from pocketmq.protocol.bodies.replication import HARuntimeInfo
from pocketmq.protocol.errors import BrokerError
from pocketmq.runtime.errors import PeerError

SHOW_HELP = """Show the brokers: role, end of the log, and what slaves lack.

With controllers also the epoch of the last master that wrote to the log, and where it began.

A master that waits for slaves counts those as in sync that lack less than haMaxGapNotInSync.

\b
Example:
  pocketmq up --slaves 1
  pocketmq cluster show
"""

_LINE = "{:<14} {:<9} {:<22} {:>14} {:>8} {:>12}"
_EPOCH = " {:>16}"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("show", help=SHOW_HELP)(show)
    app.add_typer(group, name="cluster", help="The brokers of a cluster: show.")


def show(
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
    name: Annotated[str | None, typer.Argument(help="One broker; all if left out.")] = None,
) -> None:
    async def command() -> None:
        async with Admin(nameservers=addresses(nameservers)) as admin:
            found = await admin.brokers(masters_only=False)
            states: dict[str, dict[int, HARuntimeInfo | str]] = {}
            epochs: dict[str, str] = {}
            for broker, replicas in found.items():
                if name in (None, broker):
                    states[broker] = {
                        number: await _state(admin, address) for number, address in replicas.items()
                    }
                    for address in replicas.values():
                        if (epoch := await _epoch(admin, address)) is not None:
                            epochs[address] = epoch
        for line in lines(found, states, epochs):
            typer.echo(line)

    run(command())


async def _state(admin: Admin, address: str) -> HARuntimeInfo | str:
    try:
        return await admin.ha_status(address)
    except (PeerError, BrokerError) as exc:
        return str(exc)


async def _epoch(admin: Admin, address: str) -> str | None:
    """`epoch from offset`; None outside of controller mode, or when it does not answer."""
    try:
        epochs = (await admin.broker_epochs(address)).epoch_list
    except (PeerError, BrokerError):
        return None
    return f"{epochs[-1].epoch} from {epochs[-1].start_offset}" if epochs else "none"


def lines(
    brokers: dict[str, dict[int, str]],
    states: dict[str, dict[int, HARuntimeInfo | str]],
    epochs: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[str]:
    """The table, line by line; `epochs` has those of the addresses that have any."""
    head = _LINE.format("broker", "role", "address", "log end", "in sync", "lag bytes")
    yield head + _EPOCH.format("epoch") if epochs else head
    for broker, replicas in states.items():
        master = replicas.get(0)
        end = master.master_commit_log_max_offset if isinstance(master, HARuntimeInfo) else None
        for number, state in replicas.items():
            address = brokers[broker][number]
            role = "master" if number == 0 else f"slave {number}"
            if isinstance(state, str):
                yield f"{broker:<14} {role:<9} {address:<22} {state}"
            elif state.master:
                line = _LINE.format(
                    broker, role, address, state.master_commit_log_max_offset,
                    state.in_sync_slave_nums, "",
                )  # fmt: skip
                yield line + _EPOCH.format(epochs[address]) if address in epochs else line
            else:
                own = state.ha_client_runtime_info.max_offset
                lag = "no master" if end is None else max(0, end - own)
                line = _LINE.format(broker, role, address, own, "", lag)
                yield line + _EPOCH.format(epochs[address]) if address in epochs else line
        if master is None:
            yield f"{broker:<14} has no master: nothing can be sent to it"
