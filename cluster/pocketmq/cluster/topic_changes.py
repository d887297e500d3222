"""Creates topics for people, changes them, and says what it changed.

Used by `pocketmq topic create` and `update`, by POST /topics and by the fixtures.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, get_args

from pocketmq.client import Admin
from pocketmq.protocol.messages.validation import check_topic
from pocketmq.protocol.scalars import MESSAGE_TYPE, MessageType
from pocketmq.runtime.errors import CallerError, ConfigError
from pocketmq.runtime.words import counted

MAX_QUEUES: Final = 1024
"""Maximum queues of a topic on each broker: a typing error must not create a million files."""


def check_queues(queues: object) -> None:
    """Pass a number of queues that a topic may have.

    Raises:
        ConfigError: It is none.
    """
    advice = f"write 1 to {MAX_QUEUES}"
    # In Python True is an int, but nobody means one queue by it.
    if not isinstance(queues, int) or isinstance(queues, bool):
        raise ConfigError("queues", f"{queues!r} is no whole number", advice=advice)
    if queues < 1:
        raise ConfigError("queues", f"{queues} is too few", advice="write 1 or more")
    if queues > MAX_QUEUES:
        raise ConfigError("queues", f"{queues} are too many", advice=advice)


def check_message_type(message_type: object) -> None:
    """Pass None, or a type that a topic may be made for.

    Raises:
        ConfigError: It is none.
    """
    if message_type is not None and message_type not in get_args(MessageType):
        advice = f"write one of {', '.join(get_args(MessageType))}"
        raise ConfigError("message_type", f"there is no {message_type!r}", advice=advice)


async def differences(
    admin: Admin,
    topic: str,
    queues: int | None,
    brokers: Iterable[str] | None = None,
    message_type: MessageType | None = None,
) -> dict[str, str] | None:
    """What creating a topic would change where it is: by broker, as `4 -> 8 queues`.

    Args:
        admin: Asks the cluster.
        topic: Its name.
        queues: As for `create_or_change`; None: as they are.
        brokers: Names; by default all.
        message_type: As for `create_or_change`.

    Returns:
        None if no nameserver knows the topic.

    Raises:
        IllegalNameError: No topic can have this name.
    """
    check_topic(topic)
    route = await admin.route(topic)
    if route is None:
        return None
    chosen = None if brokers is None else set(brokers)
    found: dict[str, str] = {}
    for name in sorted(each.broker_name for each in route.queue_datas):
        old = (await admin.topic_configs(name)).get(topic)
        # The broker no longer has the topic, or was not asked about.
        if old is None or (chosen is not None and name not in chosen):
            continue
        changed = []
        # Compared with the write queues, as `--queues` sets both numbers.
        if queues not in (None, old.write_queue_nums):
            changed.append(f"{old.write_queue_nums} -> {counted(queues or 0, 'queue')}")
        kind = old.attributes.get(MESSAGE_TYPE)
        if message_type not in (None, kind):
            changed.append(f"{kind or 'no message type'} -> {message_type}")
        if changed:
            found[name] = ", ".join(changed)
    return found


async def create_or_change(
    admin: Admin,
    topic: str,
    queues: int,
    brokers: Iterable[str] | None = None,
    message_type: MessageType | None = None,
) -> dict[str, int]:
    """Create a topic, or change how many queues it has on each broker.

    Args:
        admin: Asks the cluster.
        topic: Its name.
        queues: On each of these brokers.
        brokers: Names; by default all.
        message_type: As for `Admin.create_topic`.

    Returns:
        By broker, how many queues to write to it had before, where that was another number.

    Raises:
        ConfigError: A topic cannot have so many queues, or be for such messages.
        CallerError: A broker does not know message types.
        PocketMQError: As `Admin.create_topic`.
    """
    check_topic(topic)
    check_queues(queues)
    check_message_type(message_type)
    chosen = None if brokers is None else list(brokers)
    # Before the change, since the result shows what it has changed.
    route = await admin.route(topic)
    before = {} if route is None else {each.broker_name: each for each in route.queue_datas}
    await admin.create_topic(topic, queues=queues, brokers=chosen, message_type=message_type)
    # After the change, as only the stored topic shows whether it was kept.
    await _check_kept(admin, topic, chosen or await admin.brokers(), message_type)
    return {
        name: each.write_queue_nums
        for name, each in sorted(before.items())
        if (chosen is None or name in chosen) and each.write_queue_nums != queues
    }


async def change(
    admin: Admin,
    topic: str,
    *,
    queues: int | None = None,
    message_type: MessageType | None = None,
    brokers: Iterable[str] | None = None,
) -> dict[str, int]:
    """Change a topic that is there; what is not said stays.

    Returns:
        By broker, how many queues to write to it had before.

    Raises:
        ConfigError: A topic cannot have so many queues, or be for such messages.
        CallerError: A broker does not know message types.
        PocketMQError: As `Admin.update_topic`.
    """
    check_topic(topic)
    if queues is not None:
        check_queues(queues)
    check_message_type(message_type)
    before = await admin.update_topic(
        topic, queues=queues, message_type=message_type, brokers=brokers
    )
    await _check_kept(admin, topic, before, message_type)
    return {name: each.write_queue_nums for name, each in before.items()}


async def _check_kept(
    admin: Admin, topic: str, brokers: Iterable[str], message_type: MessageType | None
) -> None:
    """Pass if the brokers have stored the type: one of 4.9 ignores it without a word."""
    if message_type is None:
        return
    for name in brokers:
        found = (await admin.topic_configs(name)).get(topic)
        if found is None or found.attributes.get(MESSAGE_TYPE) != message_type:
            raise CallerError(
                f"{name} has stored topic {topic!r} without its message type: only brokers of "
                "RocketMQ 5.0 or later store message types"
            )
