"""Users and rules as requests carry them, and as they are in memory."""

from __future__ import annotations

from collections.abc import Iterable

from pocketmq.operation.access.resources import Resource
from pocketmq.operation.access.rules import (
    Acl,
    Action,
    Decision,
    Entry,
    Policy,
    PolicyType,
    is_address_or_network,
    named,
)
from pocketmq.operation.access.users import User, UserStatus, UserType
from pocketmq.protocol.bodies.access import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from pocketmq.runtime.errors import CallerError


class BadRuleError(CallerError):
    """A rule that has a part too few or makes no sense; the message is RocketMQ's."""


def info_of(user: User) -> UserInfo:
    """A user for an answer: with the password, as RocketMQ tells it."""
    return UserInfo(
        username=user.username,
        password=user.password,
        user_type=user.type.value,
        user_status=user.status.value,
    )


def user_of(info: UserInfo) -> User:
    """A user as a request, an answer or a file has it."""
    return User(
        info.username or "",
        info.password or "",
        # An unknown kind counts as the weaker one.
        named(UserType, info.user_type) or UserType.NORMAL,
        # An unknown status must not open a door.
        named(UserStatus, info.user_status or "enable") or UserStatus.DISABLE,
    )


def policies_of(infos: Iterable[PolicyInfo]) -> list[Policy]:
    """The policies of a request; unknown actions are dropped, and policies without entries.

    Raises:
        BadRuleError: a part is missing or makes no sense; with RocketMQ's words.
    """
    # RocketMQ drops a policy without entries.
    policies = [
        Policy(
            named(PolicyType, each.policy_type) or PolicyType.CUSTOM,
            tuple(_entry_of(entry) for entry in each.entries),
        )
        for each in infos
        if each.entries
    ]
    if not policies:
        raise BadRuleError("The policies is empty.")
    return policies


def _entry_of(info: PolicyEntryInfo) -> Entry:
    resource = Resource.parse(info.resource)
    if resource is None:
        raise BadRuleError("The resource is null.")
    found = [named(Action, each) for each in info.actions or ()]
    # An unknown action comes from a newer release; the others of its entry still hold.
    actions = tuple(each for each in found if each is not None)
    if not actions:
        raise BadRuleError("The actions is empty.")
    # A request may need ANY, but no rule may grant it.
    if Action.ANY in actions:
        raise BadRuleError("The actions can not be Any.")
    for each in info.source_ips or ():
        if not each.strip():
            raise BadRuleError("The source ip is empty.")
        if not is_address_or_network(each):
            raise BadRuleError("The source ip is invalid.")
    # No default here: an unknown decision must neither allow nor deny.
    decision = named(Decision, info.decision)
    if decision is None:
        raise BadRuleError("The decision is null or illegal.")
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
