"""Arguments whose values a running cluster completes in the shell: topics and groups."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from pocketmq.client import Admin
from pocketmq.cluster.cli.run import DEFAULT_NAMESERVERS, addresses, run
from pocketmq.cluster.group_view import known_groups
from pocketmq.cluster.own_topics import peoples_topics
from pocketmq.protocol.validation import is_system_group
from pocketmq.runtime.errors import PocketMQError


def _names(
    context: typer.Context, start: str, ask: Callable[[Admin], Awaitable[list[str]]]
) -> list[str]:
    """Names that begin so; none where no cluster answers, as a shell cannot show errors."""
    where = context.params.get("nameservers") or os.environ.get("NAMESRV_ADDR")

    async def command() -> list[str]:
        async with Admin(nameservers=addresses(where or DEFAULT_NAMESERVERS)) as admin:
            return await ask(admin)

    try:
        return [name for name in run(command()) if name.startswith(start)]
    except PocketMQError:
        return []


def complete_topic(context: typer.Context, incomplete: str) -> list[str]:
    """Topics that people created."""
    return _names(context, incomplete, peoples_topics)


def complete_group(context: typer.Context, incomplete: str) -> list[str]:
    """Consumer groups that are not built in."""

    async def groups(admin: Admin) -> list[str]:
        return [name for name in await known_groups(admin) if not is_system_group(name)]

    return _names(context, incomplete, groups)


TopicName = Annotated[str, typer.Argument(help="Name of a topic.", autocompletion=complete_topic)]
GroupName = Annotated[
    str, typer.Argument(help="Name of a consumer group.", autocompletion=complete_group)
]
