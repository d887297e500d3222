"""Shared by all commands: the nameserver option, and running a coroutine.

A command that is told no nameservers finds the cluster as `pocketmq ps` does: at its control
address. Where none answers, it looks at 127.0.0.1:9876.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from pocketmq.client.config import credentials_of, network_of
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.runtime.addresses import as_written
from pocketmq.runtime.errors import ConfigError, PocketMQError
from pocketmq.runtime.logs import go_nowhere
from pocketmq.runtime.process import loop_factory

if TYPE_CHECKING:
    from pocketmq.cluster.control_address.declarations import ClusterDescription

T = TypeVar("T")

DEFAULT_NAMESERVERS = "127.0.0.1:9876"

NOT_TOLD: Final = ""
"""In place of nameservers that no option or variable says: they are found when they are needed."""

FIND_LIMIT_S = 2.0
"""Real seconds in which a control address has to tell its cluster's nameservers."""


def find_cluster() -> ClusterDescription | None:
    """The cluster that runs here, as `pocketmq ps` finds it; None if no control address answers.

    Raises:
        PocketMQError: The control address that POCKETMQ_CONTROL names does not answer.
    """
    # here: a command that is told where it works does not load what it never uses
    from pocketmq.cluster.control_address.client import VARIABLE, ControlClient
    from pocketmq.cluster.control_address.declarations import ClusterDescription

    client = ControlClient.found(None, limit_s=FIND_LIMIT_S)
    try:
        return client.get("/cluster", ClusterDescription)
    except PocketMQError:
        # An address from the variable must answer; a guessed one need not.
        if VARIABLE in os.environ:
            raise
        return None


def find_nameservers() -> str:
    """The nameservers of the cluster that runs here, where a command was told none.

    Raises:
        PocketMQError: The control address that POCKETMQ_CONTROL names does not answer.
    """
    found = find_cluster()
    return DEFAULT_NAMESERVERS if found is None else found.nameservers


def _chosen(context: typer.Context, given: str) -> str:
    """What an option or variable says; `NOT_TOLD` where neither does."""
    source = context.get_parameter_source("nameservers")
    # Completion in the shell needs no cluster, and looking for one takes time.
    if context.resilient_parsing or source is None:
        return given
    # Judged by its source: an explicit `-n` with the default's address means that cluster, even if
    # another one runs here.
    if source.name == "DEFAULT":
        return NOT_TOLD
    addresses(given)  # `-n ""` is a mistake, and not the same as no -n
    return given


def told_or_found(nameservers: str) -> str:
    """What the option says, else what is found, which is told if it is not the usual.

    Call it only where the cluster is needed: a command that reads a store looks for none.

    Raises:
        PocketMQError: The control address that POCKETMQ_CONTROL names does not answer.
    """
    if nameservers != NOT_TOLD:
        return nameservers
    found = find_nameservers()
    # On standard error, as programs may read the command's output.
    if found != DEFAULT_NAMESERVERS:
        typer.echo(f"pocketmq: NAMESRV_ADDR={found}, of the cluster that runs here", err=True)
    return found


Nameservers = Annotated[
    str,
    typer.Option(
        "--nameservers",
        "-n",
        metavar="HOST:PORT;...",
        envvar="NAMESRV_ADDR",
        callback=_chosen,
        help="Nameservers of the cluster, separated by ';'.",
        show_default="those of the cluster that runs here, else 127.0.0.1:9876",
    ),
]


def told_or_found_for(sources: Sequence[str], nameservers: str) -> str:
    """The same for a job that reads sources: a store or a table needs no nameservers."""
    # here: the pipeline needs libraries that commands of a cluster do without
    from pocketmq.pipeline.jobs.sources import is_topic

    return told_or_found(nameservers) if any(map(is_topic, sources)) else nameservers


def nameserver_addresses(nameservers: str) -> list[str]:
    """The addresses that the option says, else those that are found.

    Raises:
        ConfigError: One is malformed.
        PocketMQError: The control address that POCKETMQ_CONTROL names does not answer.
    """
    return addresses(told_or_found(nameservers))


def addresses(text: str, option: str = "nameservers") -> list[str]:
    """Split `host:port;host:port` into addresses.

    Args:
        text: What an option says.
        option: Its name, for errors.

    Raises:
        ConfigError: There is none, or one is malformed.
    """
    # RocketMQ separates addresses by semicolons; people often type commas.
    found = [part.strip() for part in text.replace(",", ";").split(";") if part.strip()]
    if not found:
        raise ConfigError(option, "names no address", advice="write host:port;host:port")
    try:
        return [as_written(address) for address in found]
    except ValueError as exc:
        raise ConfigError(option, str(exc)) from exc


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine on the kind of loop that roles use.

    Ends the command quietly when the reader of its output has enough: `... | head`.
    """
    try:
        factory = loop_factory(os.environ)
    except ConfigError:
        # Otherwise Python would warn of a coroutine that was never awaited.
        coroutine.close()
        raise
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(coroutine)
    except BrokenPipeError:  # typer would make it exit status 1
        go_nowhere(sys.stdout)
        raise typer.Exit(0) from None


@asynccontextmanager
async def remoting() -> AsyncIterator[RemotingClient]:
    """A remoting client for a few requests."""
    # Signed: brokers with users answer requests of PocketMQ's own for super users only.
    client = RemotingClient(network_of(os.environ), credentials=credentials_of(None, os.environ))
    try:
        yield client
    finally:
        await client.close()
