"""Creates, changes and deletes consumer groups: `pocketmq group create`, `update` and `delete`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from pocketmq.client import Admin
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.messages.validation import MAX_GROUP_CHARS, check_group, is_system_group
from pocketmq.runtime.errors import CallerError


async def create_or_change(
    admin: Admin,
    group: str,
    changes: dict[str, Any],
    brokers: Iterable[str] | None = None,
    *,
    must_exist: bool = False,
) -> dict[str, SubscriptionGroupConfig]:
    """Create a group, or change it; what is not said stays, or is as where a broker creates it.

    Args:
        admin: Asks the cluster.
        group: Its name.
        changes: Fields of `SubscriptionGroupConfig`; attributes are written `+key` or `-key`.
        brokers: Names; by default all, with `must_exist` all that know the group.
        must_exist: Refuse a group that one of these brokers does not know.

    Returns:
        By broker, the configuration as it is now.

    Raises:
        CallerError: The group is built in, or unknown with `must_exist`; nothing was changed.
        PocketMQError: As `Admin.create_group`.
    """
    check_group(group, max_chars=MAX_GROUP_CHARS)
    _check_not_built_in(group)
    # Everything that may be refused is checked before the first broker changes anything.
    before = await known_to(admin, group)
    if must_exist and not before:
        raise unknown(group)
    if brokers is None:
        names = list(before) if must_exist else sorted(await admin.brokers())
    else:
        names = list(brokers)
    if must_exist and (missing := sorted(set(names) - before.keys())):
        raise CallerError(
            f"group {group!r} does not exist on {', '.join(missing)}; create it with `pocketmq "
            "group create`"
        )
    for name in names:
        # The config's defaults are a broker's own, so a new group equals one that a broker creates.
        old = before.get(name, SubscriptionGroupConfig(group_name=group))
        # The broker has the attributes: it takes changes of them only.
        wanted = msgspec.structs.replace(old, **({"attributes": {}} | changes))
        await admin.create_group(wanted, brokers=[name])
    # Read back: a broker may change the values, and only it knows all attributes.
    return {name: (await admin.groups(name))[group] for name in names}


async def delete(admin: Admin, group: str, *, clean_offset: bool) -> list[str]:
    """Delete a group on every broker; its retry topic and dead letters stay.

    Returns:
        The brokers that knew it.

    Raises:
        CallerError: The group is built in, or no broker knows it.
    """
    _check_not_built_in(group)
    # Before the deletion, since afterwards no broker knows the group.
    names = list(await known_to(admin, group))
    if not names:
        raise unknown(group)
    await admin.delete_group(group, clean_offset=clean_offset)
    return names


async def known_to(admin: Admin, group: str) -> dict[str, SubscriptionGroupConfig]:
    """By broker that knows the group, its configuration there."""
    tables = {name: await admin.groups(name) for name in sorted(await admin.brokers())}
    return {name: table[group] for name, table in tables.items() if group in table}


def unknown(group: str) -> CallerError:
    """What to say of a group that no broker knows."""
    return CallerError(f"no broker knows group {group!r}; see `pocketmq group list`")


def _check_not_built_in(group: str) -> None:
    if is_system_group(group):
        raise CallerError(f"group {group!r} is a system group of the cluster and cannot be changed")
