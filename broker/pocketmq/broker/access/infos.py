"""Users and rules as requests and the table's file have them, and as they are in memory."""

from __future__ import annotations

from collections.abc import Iterable

from pocketmq.broker.access.resources import Resource
from pocketmq.broker.access.rules import (
    Acl,
    Action,
    Decision,
    Entry,
    Policy,
    PolicyType,
    is_address_or_network,
    named,
)
from pocketmq.broker.access.users import Accounts, AuthError, User, UserStatus, UserType
from pocketmq.protocol.bodies.access import (
    AccessTable,
    AclInfo,
    PolicyEntryInfo,
    PolicyInfo,
    UserInfo,
)


def info_of(user: User) -> UserInfo:
    """A user for an answer: with the password, as RocketMQ tells it."""
    return UserInfo(
        username=user.username,
        password=user.password,
        user_type=user.type.value,
        user_status=user.status.value,
    )


def policies_of(infos: Iterable[PolicyInfo]) -> list[Policy]:
    """The policies of a request; unknown actions are dropped, and policies without entries.

    Raises:
        AuthError: a part is missing or makes no sense; with RocketMQ's words.
    """
    policies = [
        Policy(
            named(PolicyType, each.policy_type) or PolicyType.CUSTOM,
            tuple(_entry_of(entry) for entry in each.entries),
        )
        for each in infos
        if each.entries
    ]
    if not policies:
        raise AuthError("The policies is empty.")
    return policies


def _entry_of(info: PolicyEntryInfo) -> Entry:
    resource = Resource.parse(info.resource)
    if resource is None:
        raise AuthError("The resource is null.")
    found = [named(Action, each) for each in info.actions or ()]
    actions = tuple(each for each in found if each is not None)
    if not actions:
        raise AuthError("The actions is empty.")
    if Action.ANY in actions:
        raise AuthError("The actions can not be Any.")
    for each in info.source_ips or ():
        if not each.strip():
            raise AuthError("The source ip is empty.")
        if not is_address_or_network(each):
            raise AuthError("The source ip is invalid.")
    decision = named(Decision, info.decision)
    if decision is None:
        raise AuthError("The decision is null or illegal.")
    return Entry(resource, actions, decision, tuple(info.source_ips or ()))


def info_of_rules(acl: Acl) -> AclInfo:
    """All rules of a subject for an answer."""
    return AclInfo(
        subject=acl.subject,
        policies=[
            PolicyInfo(
                policy_type=policy.type.value,
                entries=[
                    PolicyEntryInfo(
                        resource=entry.resource.key,
                        actions=[each.value for each in entry.actions],
                        source_ips=list(entry.source_ips) or None,
                        decision=entry.decision.value,
                    )
                    for entry in policy.entries
                ],
            )
            for policy in acl.policies
        ],
    )


def table_of(accounts: Accounts) -> AccessTable:
    """What the file shall hold."""
    return AccessTable(
        users=[info_of(each) for _, each in sorted(accounts.users.items())],
        acls=[info_of_rules(each) for _, each in sorted(accounts.acls.items())],
    )


def load_into(accounts: Accounts, table: AccessTable) -> None:
    """Take over what the file holds.

    Raises:
        AuthError: somebody changed it, and a rule makes no sense now.
    """
    for each in table.users:
        user = User(
            each.username or "",
            each.password or "",
            named(UserType, each.user_type) or UserType.NORMAL,
            # a status that nobody can read must not open a door
            named(UserStatus, each.user_status or "enable") or UserStatus.DISABLE,
        )
        accounts.users[user.username] = user
    for info in table.acls:
        if info.subject and info.policies:
            accounts.acls[info.subject] = Acl(info.subject, tuple(policies_of(info.policies)))
