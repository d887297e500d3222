"""Creates topics for people, and says what it changed; `pocketmq topic create` and POST /topics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pocketmq.client import Admin
from pocketmq.protocol.validation import check_topic
from pocketmq.runtime.errors import ConfigError

MAX_QUEUES: Final = 1024
"""Maximum queues of a topic on each broker: a typing error must not create a million files."""


def check_queues(queues: object) -> None:
    """Pass a number of queues that a topic may have.

    Raises:
        ConfigError: It is none.
    """
    advice = f"write 1 to {MAX_QUEUES}"
    if not isinstance(queues, int) or isinstance(queues, bool):
        raise ConfigError("queues", f"{queues!r} is no whole number", advice=advice)
    if queues < 1:
        raise ConfigError("queues", f"{queues} is too few", advice="write 1 or more")
    if queues > MAX_QUEUES:
        raise ConfigError("queues", f"{queues} are too many", advice=advice)


async def create_or_change(
    admin: Admin, topic: str, queues: int, brokers: Iterable[str] | None = None
) -> dict[str, int]:
    """Create a topic, or change how many queues it has on each broker.

    Args:
        admin: Asks the cluster.
        topic: Its name.
        queues: On each of these brokers.
        brokers: Names; by default all.

    Returns:
        By broker, how many queues to write to it had before, where that was another number.

    Raises:
        ConfigError: A topic cannot have so many queues.
        PocketMQError: As `Admin.create_topic`.
    """
    check_topic(topic)
    check_queues(queues)
    chosen = None if brokers is None else list(brokers)
    route = await admin.route(topic)
    before = {} if route is None else {each.broker_name: each for each in route.queue_datas}
    await admin.create_topic(topic, queues=queues, brokers=chosen)
    return {
        name: each.write_queue_nums
        for name, each in sorted(before.items())
        if (chosen is None or name in chosen) and each.write_queue_nums != queues
    }
