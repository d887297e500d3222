"""`pocketmq group create`, `update` and `delete`: what a broker keeps of a group."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
import typer

from pocketmq.client import Admin
from pocketmq.cluster.cli.common.asking import ask
from pocketmq.cluster.cli.common.complete import GroupName, OnBrokers
from pocketmq.cluster.cli.common.output import Sentences, tell
from pocketmq.cluster.cli.common.run import (
    DEFAULT_NAMESERVERS,
    Nameservers,
    nameserver_addresses,
    run,
)
from pocketmq.cluster.group_changes import create_or_change, known_to, unknown
from pocketmq.cluster.group_changes import delete as delete_group
from pocketmq.cluster.topic_changes import MAX_QUEUES
from pocketmq.protocol.bodies.groups import GroupRetryPolicy, SubscriptionGroupConfig
from pocketmq.protocol.scalars import INT32_MAX
from pocketmq.runtime.errors import CallerError, ConfigError

CREATE_HELP = """Create a consumer group, or change the settings of a group.

When a group's first consumer connects, the broker creates the group with the default settings. If
the group needs other settings, such as --fifo for RocketMQ 5's SDKs, create the group before its
first consumer connects.

\b
Examples:
  pocketmq group create billing
  pocketmq group create payments --fifo --retry-max-times 3
"""

UPDATE_HELP = """Change the given settings of a group.

\b
Examples:
  pocketmq group update billing --retry-max-times 3
  pocketmq group update billing --no-consume-enable
      its consumers get nothing until --consume-enable
"""

DELETE_HELP = """Delete a consumer group on all brokers.

Without --yes, the command asks before it deletes the group. Without --clean-offset, the group's
offsets stay. The group's retry topic and dead letters always stay. To delete the dead letters of
the group billing, use `pocketmq topic delete '%DLQ%billing'`. If a consumer of the group still
runs, the broker creates the group again.

\b
Examples:
  pocketmq group delete billing
  pocketmq group delete billing --clean-offset --yes
"""

UPDATE: Final = "update"

Fifo = Annotated[
    bool | None,
    typer.Option(
        "--fifo/--no-fifo",
        "--consume-message-orderly/--no-consume-message-orderly",
        help=(
            "Proxies deliver the messages of each message group in order. The option has "
            "no effect on consumers without a proxy: each consumer's own code decides the "
            "order."
        ),
    ),
]
RetryMaxTimes = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=INT32_MAX,
        help=(
            "Maximum number of retries of a message. After the last retry, the message "
            "becomes a dead letter."
        ),
    ),
]
RetryQueueNums = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=MAX_QUEUES,
        help="Number of queues of the group's retry topic. 0: messages are not retried.",
    ),
]
RetryPolicy = Annotated[
    str | None,
    typer.Option(
        "--group-retry-policy",
        metavar="JSON",
        help=(
            "Waiting times, in milliseconds, before a message's first, second and further "
            "retries. Only proxies use these times. Example: "
            '{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000,5000]}}.'
        ),
    ),
]
ConsumeEnable = Annotated[
    bool | None,
    typer.Option("--consume-enable/--no-consume-enable", help="Whether the group may consume."),
]
FromMin = Annotated[
    bool | None,
    typer.Option(
        "--consume-from-min-enable/--no-consume-from-min-enable",
        help="This setting has no effect. Brokers keep it only for RocketMQ's tools.",
    ),
]
Broadcast = Annotated[
    bool | None,
    typer.Option(
        "--consume-broadcast-enable/--no-consume-broadcast-enable",
        help="Whether the group may consume by broadcast, so that each member gets all messages.",
    ),
]
Notify = Annotated[
    bool | None,
    typer.Option(
        "--notify-consumer-ids-changed/--no-notify-consumer-ids-changed",
        help="Whether members are notified at once when another member joins or leaves.",
    ),
]
BrokerId = Annotated[
    int | None,
    typer.Option(
        min=0, help="Id of the replica from which the group pulls. The master has the id 0."
    ),
]
WhichBroker = Annotated[
    int | None,
    typer.Option(
        "--which-broker-when-consume-slowly",
        min=0,
        help="Id of the replica from which the group pulls while the group lags far behind.",
    ),
]
Attributes = Annotated[
    str | None,
    typer.Option(metavar="+KEY=VALUE,-KEY", help="Attributes, such as +priority.factor=30."),
]


def register(group: typer.Typer) -> None:
    """Add the commands to those of `pocketmq group`."""
    group.command("create", help=CREATE_HELP)(change)
    group.command(UPDATE, help=UPDATE_HELP)(change)
    group.command("delete", help=DELETE_HELP)(delete)


def change(
    context: typer.Context,
    group: GroupName,
    fifo: Fifo = None,
    retry_max_times: RetryMaxTimes = None,
    retry_queue_nums: RetryQueueNums = None,
    group_retry_policy: RetryPolicy = None,
    consume_enable: ConsumeEnable = None,
    consume_from_min_enable: FromMin = None,
    consume_broadcast_enable: Broadcast = None,
    notify_consumer_ids_changed: Notify = None,
    broker_id: BrokerId = None,
    which_broker_when_consume_slowly: WhichBroker = None,
    attributes: Attributes = None,
    broker: OnBrokers = None,
    output: Sentences = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    changes = _said(
        consume_message_orderly=fifo,
        retry_max_times=retry_max_times,
        retry_queue_nums=retry_queue_nums,
        group_retry_policy=_policy(group_retry_policy),
        consume_enable=consume_enable,
        consume_from_min_enable=consume_from_min_enable,
        consume_broadcast_enable=consume_broadcast_enable,
        notify_consumer_ids_changed_enable=notify_consumer_ids_changed,
        broker_id=broker_id,
        which_broker_when_consume_slowly=which_broker_when_consume_slowly,
        attributes=_attributes(attributes),
    )
    must_exist = context.command.name == UPDATE  # `create` also takes a group that is not there
    if must_exist and not changes:
        raise CallerError("nothing to change: give an option, such as --retry-max-times")

    async def command() -> dict[str, SubscriptionGroupConfig]:
        async with Admin(nameservers=nameserver_addresses(nameservers)) as admin:
            return await create_or_change(admin, group, changes, broker, must_exist=must_exist)

    now = run(command())
    tell(
        output,
        {"group": group, "brokers": msgspec.to_builtins(now)},
        *(f"group {group} on {name}: {_sentence(each)}" for name, each in now.items()),
    )


def delete(
    group: GroupName,
    clean_offset: Annotated[
        bool, typer.Option("--clean-offset", help="Delete its offsets too.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: Sentences = None,
    nameservers: Nameservers = DEFAULT_NAMESERVERS,
) -> None:
    where = nameserver_addresses(nameservers)

    # Before the question: nobody should have to confirm deleting a group that does not exist.
    async def check() -> None:
        async with Admin(nameservers=where) as admin:
            if not await known_to(admin, group):
                raise unknown(group)

    async def command() -> list[str]:
        async with Admin(nameservers=where) as admin:
            return await delete_group(admin, group, clean_offset=clean_offset)

    # With --yes the deletion itself reports a missing group.
    if not yes:
        run(check())
        also = " with its offsets" if clean_offset else ""
        ask(f"Delete group {group}{also}?", "nothing was deleted")
    names = run(command())
    tell(
        output,
        {"group": group, "brokers": names, "clean_offset": clean_offset},
        # By default RocketMQ keeps the offsets: a new group of this name would continue from them.
        f"group {group} is deleted on {', '.join(names)}"
        + (" with its offsets" if clean_offset else "; its offsets stay"),
    )


def _sentence(config: SubscriptionGroupConfig) -> str:
    """What is most asked for, in words."""
    parts = [
        "in order" if config.consume_message_orderly else "concurrently",
        f"at most {config.retry_max_times} {'retry' if config.retry_max_times == 1 else 'retries'}",
    ]
    if not config.consume_enable:
        parts.append("may not consume")
    if not config.consume_broadcast_enable:
        parts.append("may not broadcast")
    parts += [f"{key}={value}" for key, value in sorted(config.attributes.items())]
    return ", ".join(parts)


def _said(**fields: Any) -> dict[str, Any]:
    # An option that was not given must not reset its field to the default.
    return {name: value for name, value in fields.items() if value is not None}


def _policy(text: str | None) -> GroupRetryPolicy | None:
    """The retry policy as RocketMQ's tools write it; raises `ConfigError`."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=GroupRetryPolicy)
    except msgspec.DecodeError as exc:
        raise ConfigError("--group-retry-policy", f"{text!r}: {exc}") from exc


def _attributes(text: str | None) -> dict[str, str] | None:
    """Changes of attributes by signed name; the broker judges them."""
    if text is None:
        return None
    changes = (each.strip().partition("=") for each in text.split(",") if each.strip())
    return {key: value for key, _, value in changes}
