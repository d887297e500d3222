"""Users and rules as the lines of `mqadmin` that make them at RocketMQ's brokers (Y-48). Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Final

from pocketmq.protocol.bodies.access import AclInfo, PolicyEntryInfo, UserInfo

PLACEHOLDER: Final = "PASSWORD"
"""What stands where a password has to be written."""


def mqadmin_lines(
    users: Iterable[UserInfo], rules: Iterable[AclInfo], *, cluster: str, with_secrets: bool
) -> list[str]:
    """The lines for a shell: all users, what is not as `createUser` makes it, and their rules.

    Args:
        users: With passwords.
        rules: In the order in which brokers have them, which may decide in RocketMQ 5.3 (Y-45).
        cluster: RocketMQ's, which shall get them.
        with_secrets: Write the passwords, else `PASSWORD` in their place.
    """
    where = ["-c", cluster]
    lines = []
    for each in users:
        name = each.username or ""
        password = (each.password or "") if with_secrets else PLACEHOLDER
        kind = each.user_type or "Normal"
        lines.append(_line("createUser", *where, "-u", name, "-p", password, "-t", kind))
        # mqadmin's `createUser` takes no status, so a disabled user needs a second line.
        if each.user_status == "disable":
            lines.append(_line("updateUser", *where, "-u", name, "-s", "disable"))
    for acl in rules:
        for policy in acl.policies or ():
            for entry in policy.entries or ():
                # One line for each entry, in the broker's order: in 5.3 the order may decide.
                line = _line("createAcl", *where, "-s", acl.subject or "", *_rule(entry))
                if policy.policy_type != "Custom":  # mqadmin makes no others
                    line = f"# of type {policy.policy_type}, which mqadmin cannot make: {line}"
                lines.append(line)
    return lines


def _rule(entry: PolicyEntryInfo) -> list[str]:
    found = ["-r", entry.resource or "", "-a", ",".join(entry.actions or ())]
    if entry.source_ips:
        found += ["-i", ",".join(entry.source_ips)]
    return [*found, "-d", entry.decision or ""]


def _line(*words: str) -> str:
    return shlex.join(("mqadmin", *words))
