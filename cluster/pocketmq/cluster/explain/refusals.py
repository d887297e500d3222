"""Which brokers make no group of a name: its members get success, and no message (B-40).

Brokers say their release and their options, not why they left a member out, so this holds for
RocketMQ's own brokers too.
"""

from __future__ import annotations

from collections.abc import Mapping

from pocketmq.client import Admin
from pocketmq.protocol.errors import IllegalNameError
from pocketmq.protocol.messages.validation import check_group, is_system_group
from pocketmq.protocol.releases import version_named, version_number
from pocketmq.runtime.profile.broker import BROKER_4_9, BROKER_5_3, BROKER_5_5

_SINCE = (
    (version_number(5, 4, 0), BROKER_5_5),
    (version_number(5, 2, 0), BROKER_5_3),
    (0, BROKER_4_9),
)
"""From this version on, a broker looks at the names of groups as this profile does."""


def fault_of_name(group: str, version: int) -> str:
    """What a broker of this version finds wrong with a name, as the end of a sentence; or nothing.

    Args:
        group: the group's name.
        version: the broker's, as RocketMQ's number.
    """
    # Newest release first, so the first that fits applies.
    max_chars = next(profile for since, profile in _SINCE if version >= since).group_name_max_chars
    if max_chars is None:
        return ""
    try:
        check_group(group, max_chars=max_chars)
    except IllegalNameError as exc:
        return exc.reason
    return ""


def version_told(info: Mapping[str, str]) -> int:
    """The version of a broker by its runtime info; 0 if it says none.

    RocketMQ's brokers have no `brokerVersion` from 5.4.0 on, only the name of it.
    """
    for key in ("brokerVersion", "brokerVersionDesc"):
        version = version_named(info.get(key, ""))
        if version is not None:
            return version
    return 0


async def refusals(admin: Admin, group: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Broker -> what it finds wrong with the name; and those that make no group at all.

    Brokers that have the group are not among them.
    """
    wrong, not_made = {}, []
    for broker in await admin.brokers():
        # A group that exists is served, even if its name breaks a rule today.
        if group in await admin.groups(broker):
            continue
        options = await admin.broker_config(broker)
        # System groups are always created.
        if options.get("autoCreateSubscriptionGroup") == "false" and not is_system_group(group):
            not_made.append(broker)
            continue
        version = version_told(await admin.broker_runtime_info(broker))
        if fault := fault_of_name(group, version):
            wrong[broker] = fault
    return wrong, tuple(not_made)
