"""Shared by all commands: the nameserver option, and running a coroutine."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypeVar

import typer

from pocketmq.cluster.cli.reader import go_nowhere
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.addresses import split_address
from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.process import loop_factory

T = TypeVar("T")

DEFAULT_NAMESERVERS = "127.0.0.1:9876"

Nameservers = Annotated[
    str,
    typer.Option(
        "--nameservers",
        "-n",
        metavar="HOST:PORT;...",
        envvar="NAMESRV_ADDR",
        help="Nameservers of the cluster, separated by ';'.",
    ),
]


def addresses(text: str, option: str = "nameservers") -> list[str]:
    """Split `host:port;host:port` into addresses.

    Args:
        text: What an option says.
        option: Its name, for errors.

    Raises:
        ConfigError: There is none, or one is malformed.
    """
    found = [part.strip() for part in text.replace(",", ";").split(";") if part.strip()]
    if not found:
        raise ConfigError(option, "names no address", advice="write host:port;host:port")
    for address in found:
        try:
            split_address(address)
        except ValueError as exc:
            raise ConfigError(option, str(exc)) from exc
    return found


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine on the kind of loop that roles use.

    Ends the command quietly when the reader of its output has enough: `... | head`.
    """
    try:
        factory = loop_factory(os.environ)
    except ConfigError:
        coroutine.close()
        raise
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(coroutine)
    except BrokenPipeError:  # typer would make it exit status 1
        go_nowhere()
        raise typer.Exit(0) from None


@asynccontextmanager
async def remoting() -> AsyncIterator[RemotingClient]:
    """A remoting client for a few requests."""
    client = RemotingClient(TcpNetwork())
    try:
        yield client
    finally:
        await client.close()
