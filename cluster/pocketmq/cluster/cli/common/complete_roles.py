"""Words that the shell completes from a control address: roles, snapshots, fault rules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import typer

from pocketmq.cluster.control_address.client import ControlClient
from pocketmq.cluster.control_address.declarations import ClusterDescription, FaultState
from pocketmq.cluster.steering.snapshots import SnapshotInfo
from pocketmq.runtime.errors import PocketMQError


def _names(
    context: typer.Context, start: str, ask: Callable[[ControlClient], list[str]]
) -> list[str]:
    """Names that begin so; none where no cluster answers, as a shell cannot show errors."""
    control, data = context.params.get("control"), context.params.get("data")
    try:
        client = ControlClient.found(control, None if data is None else Path(data))
        return [name for name in ask(client) if name.startswith(start)]
    except PocketMQError:
        return []


def _roles(client: ControlClient) -> list[str]:
    return [role.name for role in client.get("/cluster", ClusterDescription).roles]


def complete_role(context: typer.Context, incomplete: str) -> list[str]:
    """Roles of the cluster."""
    return _names(context, incomplete, _roles)


def complete_other(context: typer.Context, incomplete: str) -> list[str]:
    """Whom a role can be parted from."""
    return _names(context, incomplete, lambda client: [*_roles(client), "others", "clients"])


def complete_snapshot(context: typer.Context, incomplete: str) -> list[str]:
    """Saved snapshots."""

    def names(client: ControlClient) -> list[str]:
        return [each.name for each in client.get("/snapshots", list[SnapshotInfo])]

    return _names(context, incomplete, names)


def complete_rule(context: typer.Context, incomplete: str) -> list[str]:
    """Fault rules that hold."""

    def names(client: ControlClient) -> list[str]:
        return [each.rule.id for each in client.get("/faults", list[FaultState])]

    return _names(context, incomplete, names)
