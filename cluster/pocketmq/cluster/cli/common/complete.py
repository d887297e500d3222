"""Words that the shell completes from a running cluster: topics, groups, brokers."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from pocketmq.runtime.errors import PocketMQError

if TYPE_CHECKING:
    from pocketmq.client import Admin


def _names(
    context: typer.Context, start: str, ask: Callable[[Admin], Awaitable[list[str]]]
) -> list[str]:
    """Names that begin so; none where no cluster answers, as a shell cannot show errors."""
    from pocketmq.client import Admin
    from pocketmq.cluster.cli.common.run import (
        DEFAULT_NAMESERVERS,
        addresses,
        find_nameservers,
        run,
    )

    # An `-n` on the shell's line names the cluster to ask.
    where = context.params.get("nameservers")
    if where in (None, DEFAULT_NAMESERVERS):  # an unfinished line is not parsed to its end
        where = os.environ.get("NAMESRV_ADDR")

    async def command() -> list[str]:
        async with Admin(nameservers=addresses(where or find_nameservers())) as admin:
            return await ask(admin)

    try:
        return [name for name in run(command()) if name.startswith(start)]
    except PocketMQError:
        return []


def complete_topic(context: typer.Context, incomplete: str) -> list[str]:
    """Topics that people created."""
    from pocketmq.cluster.own_topics import peoples_topics

    return _names(context, incomplete, peoples_topics)


def complete_group(context: typer.Context, incomplete: str) -> list[str]:
    """Consumer groups that are not built in."""
    from pocketmq.cluster.group_view import known_groups
    from pocketmq.protocol.messages.validation import is_system_group

    async def groups(admin: Admin) -> list[str]:
        return [name for name in await known_groups(admin) if not is_system_group(name)]

    return _names(context, incomplete, groups)


def complete_broker(context: typer.Context, incomplete: str) -> list[str]:
    """Names of brokers."""

    async def names(admin: Admin) -> list[str]:
        return list(await admin.brokers(masters_only=False))

    return _names(context, incomplete, names)


def complete_queue(context: typer.Context, incomplete: str) -> list[str]:
    """Queues of the topic that was named before, as `broker-a/0`."""
    # In an unfinished line the parser may not have reached the argument, which is then in `args`.
    topic = context.params.get("topic") or next(iter(context.args), None)

    async def names(admin: Admin) -> list[str]:
        queues = await admin.topic_stats(topic) if isinstance(topic, str) else {}
        return [f"{queue.broker_name}/{queue.queue_id}" for queue in queues]

    return _names(context, incomplete, names)


def complete_words(context: typer.Context, incomplete: str) -> list[str]:
    """Of `TOPIC BROKER/QUEUE OFFSET`: the topic, then its queues."""
    words = context.params.get("words") or ()
    if not words:
        return complete_topic(context, incomplete)
    # `complete_queue` looks for the topic there.
    context.params["topic"] = words[0]
    return complete_queue(context, incomplete) if len(words) == 1 else []


def complete_request_code(incomplete: str) -> list[str]:
    """Names of request codes."""
    from pocketmq.protocol.codes import RequestCode

    return _codes(RequestCode.__members__, incomplete)


def complete_response_code(incomplete: str) -> list[str]:
    """Names of response codes."""
    from pocketmq.protocol.codes import ResponseCode

    return _codes(ResponseCode.__members__, incomplete)


def _codes(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete.upper()))


TopicName = Annotated[str, typer.Argument(help="Name of a topic.", autocompletion=complete_topic)]
GroupName = Annotated[
    str, typer.Argument(help="Name of a consumer group.", autocompletion=complete_group)
]

Brokers = Annotated[
    list[str] | None,
    typer.Option(
        "--broker", help="Only this broker; may be repeated.", autocompletion=complete_broker
    ),
]
OnBrokers = Annotated[
    list[str] | None,
    typer.Option(
        "--broker", help="Only on this broker; may be repeated.", autocompletion=complete_broker
    ),
]
