"""Accounts of ACL 1.0 as users and rules of ACL 2.0 (Y-50). Pure.

A name becomes a rule about just that name, the permission for all others a Default rule. Addresses
that needed no account have nothing that they could become: they are dropped, as in RocketMQ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pocketmq.broker.access.plain.accounts import account_of
from pocketmq.operation.access.resources import Pattern, Resource, ResourceType
from pocketmq.operation.access.rules import Acl, Action, Decision, Entry, Policy, PolicyType
from pocketmq.operation.access.users import User, UserType

_ACTIONS = {
    "PUB": (Action.PUB,),
    "SUB": (Action.SUB,),
    "PUB|SUB": (Action.PUB, Action.SUB),
    "SUB|PUB": (Action.PUB, Action.SUB),
}


def migrated(files: Iterable[Mapping[str, Any]]) -> Iterator[tuple[User, Acl | None]]:
    """Each account once, the first that has its access key.

    Raises:
        PlainAclError: One makes no sense.
    """
    seen = set()
    for content in files:
        for info in content.get("accounts") or ():
            account = account_of(info)
            if account.access_key in seen:
                continue
            seen.add(account.access_key)
            kind = UserType.SUPER if account.is_admin else UserType.NORMAL
            user = User(account.access_key, account.secret_key, kind)
            policies = tuple(_policies(info))
            yield user, Acl(user.subject, policies) if policies else None


def _policies(info: Mapping[str, Any]) -> Iterator[Policy]:
    kinds = (
        (ResourceType.TOPIC, "Topic", "topicPerms"),
        (ResourceType.GROUP, "Group", "groupPerms"),
    )
    custom = []
    default = []
    for kind, word, names in kinds:
        for each in info.get(names) or ():
            name, _, perm = str(each).partition("=")
            custom.append(_entry(Resource(kind, name.strip()), perm.strip("= ")))
        perm = str(info.get(f"default{word}Perm") or "").strip()
        if perm:
            default.append(_entry(Resource(kind, None, Pattern.ANY), perm))
    if custom:
        yield Policy(PolicyType.CUSTOM, tuple(custom))
    if default:
        yield Policy(PolicyType.DEFAULT, tuple(default))


def _entry(resource: Resource, perm: str) -> Entry:
    """DENY forbids all, and what is no permission allows all, as in RocketMQ."""
    decision = Decision.DENY if perm == "DENY" else Decision.ALLOW
    return Entry(resource, _ACTIONS.get(perm, (Action.ALL,)), decision, ())
