"""`pocketmq cluster show`: brokers with role, end of log, epoch, and how far slaves are behind."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Annotated

import typer

from pocketmq.client import Admin
from pocketmq.cluster.cli.common.complete import complete_broker
from pocketmq.cluster.cli.common.output import Output, show
from pocketmq.cluster.cli.common.run import (
    DEFAULT_NAMESERVERS,
    Nameservers,
    nameserver_addresses,
    run,
)
from pocketmq.cluster.cli.common.tables import Cell, Table
from pocketmq.protocol.bodies.replication import HARuntimeInfo
from pocketmq.protocol.errors import BrokerError, BrokerNotFoundError
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import PeerError

SHOW_HELP = """Show each broker's role and end of the log, and how far slaves lag.

With controllers, the command also shows the epoch of the last master that wrote to the log, and the
first offset of this epoch. A slave in the sync-state set counts as in sync. Without controllers, a
slave counts as in sync if it lacks fewer bytes than haMaxGapNotInSync. "lag ms" is the age of the
oldest message that a slave lacks.

\b
Example:
  pocketmq up --slaves 1
  pocketmq cluster show
"""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("show", help=SHOW_HELP)(show_cluster)
    app.add_typer(group, name="cluster", help="The brokers of a cluster: show.")


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """One broker of a broker name."""

    broker: str
    role: str
    """`master`, `slave 1`; `acting master 1` of a slave that acts while there is no master;
    `no master` where nothing can be sent to."""
    address: str | None = None
    log_end: int | None = None
    in_sync: int | None = None
    """Slaves in sync with a master."""
    lag_bytes: int | None = None
    """What a slave lacks; None for a master, and while there is none."""
    lag_ms: int | None = None
    """Age of the oldest message that it lacks; 0 when it lacks none, None when that cannot be told,
    because its log ends inside a record or its master does not answer."""
    epoch: str | None = None
    """Of the last master that wrote to the log, and where it began; with controllers only."""
    problem: str | None = None


def show_cluster(
    name: Annotated[
        str | None,
        typer.Argument(help="One broker; all if left out.", autocompletion=complete_broker),
    ] = None,
    output: Output = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    async def command() -> list[ReplicaView]:
        async with Admin(nameservers=nameserver_addresses(nameservers)) as admin:
            found = await admin.brokers(masters_only=False)
            if name is not None and name not in found:
                raise BrokerNotFoundError(name)
            states: dict[str, dict[int, HARuntimeInfo | str]] = {}
            epochs: dict[str, str] = {}
            for broker, replicas in found.items():
                if name in (None, broker):
                    # Asked by address: a broker name has several replicas, and each knows only its
                    # own state.
                    states[broker] = {
                        number: await _state(admin, address) for number, address in replicas.items()
                    }
                    for address in replicas.values():
                        if (epoch := await _epoch(admin, address)) is not None:
                            epochs[address] = epoch
            acting = {
                address
                for broker in states
                # A slave acts as master only while its broker name has no master (Z-5).
                if 0 not in found[broker]
                for address in found[broker].values()
                if await _acts(admin, broker, address)
            }
            shown = views(found, states, epochs, acting)
            return [await _with_age(admin, each, found) for each in shown]

    found = run(command())
    show(output, [asdict(each) for each in found], *replica_tables(found))


async def _state(admin: Admin, address: str) -> HARuntimeInfo | str:
    try:
        return await admin.ha_status(address)
    # A replica that does not answer becomes a row, and does not end the command.
    except (PeerError, BrokerError) as exc:
        return str(exc)


async def _acts(admin: Admin, broker: str, address: str) -> bool:
    """Whether a slave acts as master (Z-5)."""
    try:
        figures = await admin.broker_runtime_info(broker, address=address)
    except (PeerError, BrokerError):
        return False
    return figures.get("brokerActive") == "true"


async def _with_age(
    admin: Admin, view: ReplicaView, brokers: Mapping[str, Mapping[int, str]]
) -> ReplicaView:
    """The same, with the age of what a slave lacks."""
    master = brokers[view.broker].get(0)
    # A lag of 0 bytes is 0 ms; without a master the age of the first missing message is unknown.
    if not view.lag_bytes or view.log_end is None or master is None:
        return replace(view, lag_ms=view.lag_bytes)
    try:
        oldest = await admin.message_at(master, view.log_end)
    # No record begins where the slave's log ends, or the master has just stopped.
    except (PeerError, BrokerError):
        return view
    return replace(view, lag_ms=max(0, SystemClock().time_ms() - oldest.store_timestamp_ms))


async def _epoch(admin: Admin, address: str) -> str | None:
    """`epoch from offset`; None outside of controller mode, or when it does not answer."""
    try:
        epochs = (await admin.broker_epochs(address)).epoch_list
    except (PeerError, BrokerError):
        return None
    return f"{epochs[-1].epoch} from {epochs[-1].start_offset}" if epochs else "none"


def views(
    brokers: Mapping[str, Mapping[int, str]],
    states: Mapping[str, Mapping[int, HARuntimeInfo | str]],
    epochs: Mapping[str, str] = MappingProxyType({}),
    acting: Collection[str] = (),
) -> Iterator[ReplicaView]:
    """Each replica, and a line for a broker name that has no master.

    Args:
        brokers: Broker name -> broker id -> address.
        states: The same, with what each answers, or why it does not.
        epochs: By address; those that have any.
        acting: Addresses of slaves that act as master.
    """
    for broker, replicas in states.items():
        master = replicas.get(0)
        # Without a master there is no end to compare with, so no lag is shown.
        end = master.master_commit_log_max_offset if isinstance(master, HARuntimeInfo) else None
        for number, state in replicas.items():
            address = brokers[broker][number]
            role = "master" if number == 0 else f"slave {number}"
            if address in acting:
                role = f"acting master {number}"
            if isinstance(state, str):
                yield ReplicaView(broker, role, address, problem=state)
            elif state.master:
                at, in_sync = state.master_commit_log_max_offset, state.in_sync_slave_nums
                epoch = epochs.get(address)
                yield ReplicaView(broker, role, address, at, in_sync, epoch=epoch)
            else:
                own = state.ha_client_runtime_info.max_offset
                # The slave's answer may be newer than the master's; a lag is never negative.
                lag = None if end is None else max(0, end - own)
                epoch = epochs.get(address)
                yield ReplicaView(broker, role, address, own, lag_bytes=lag, epoch=epoch)
        if master is None:
            yield ReplicaView(broker, "no master", problem="nothing can be sent to it")


def replica_tables(found: list[ReplicaView]) -> list[Table]:
    """A row for each, and one for each problem."""
    columns: tuple[str, ...] = (
        *("broker", "role", "address", "log end", "in sync", "lag bytes", "lag ms"),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            *(each.broker, each.role, each.address, each.log_end, each.in_sync),
            *(each.lag_bytes, each.lag_ms),
        )
        for each in found
    ]
    tables = [Table("broker", columns, rows)]
    # Epochs get a table of their own, since without controllers no broker has one.
    epochs = [(each.broker, each.role, each.epoch) for each in found if each.epoch]
    if epochs:
        tables.append(Table("epoch", ("broker", "role", "epoch"), epochs))
    problems = [(each.broker, each.role, each.problem) for each in found if each.problem]
    if problems:
        tables.append(Table("problem", ("broker", "role", "problem"), problems))
    return tables
