"""Why a broker lets a user do something, or not (Y-45): pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pocketmq.operation.access.infos import policies_of
from pocketmq.operation.access.resources import Pattern, Resource
from pocketmq.operation.access.rules import Acl, Action, Decision, Entry, Need, decide, named
from pocketmq.protocol.bodies.access import AclInfo, UserInfo
from pocketmq.runtime.errors import CallerError, ConfigError

_ACTIONS: Final = tuple(
    each.value for each in Action if each not in (Action.UNKNOWN, Action.ALL, Action.ANY)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What one broker would answer, and why."""

    broker: str
    is_allowed: bool
    reason: str
    rules: tuple[str, ...] = ()
    """Those that match, in the order in which the broker asks them; the first decides."""
    warning: str = ""
    """Where people would expect otherwise."""


def need_of(action: str, resource: str) -> Need:
    """What is asked about.

    Raises:
        ConfigError: The action or resource is none, or it names more than one thing.
    """
    wanted = named(Action, action)
    # `All` stands for any action in rules; a request always needs a particular one.
    if wanted is None or wanted.value not in _ACTIONS:
        raise ConfigError("action", f"{action!r} is none", advice=f"write {', '.join(_ACTIONS)}")
    about = Resource.parse(resource)
    # A rule may be about a prefix or all topics, but a request is about one.
    if about is None or about.pattern is not Pattern.LITERAL or not about.name:
        advice = "write one, such as Topic:orders, Group:billing or Cluster:DefaultCluster"
        raise ConfigError("resource", f"{resource!r} is no single resource", advice=advice)
    return Need(about, (wanted,))


def explained(
    broker: str,
    user: UserInfo | None,
    rules: Sequence[AclInfo],
    need: Need,
    source_ip: str,
    *,
    longest_prefix_first: bool,
) -> Explanation:
    """What that broker would answer.

    Args:
        broker: Its name.
        user: The user there, if there is one.
        rules: The user's.
        need: What it wants.
        source_ip: Where it comes from.
        longest_prefix_first: See `decide`.

    Raises:
        CallerError: `source_ip` is no address, and a rule has a network.
    """
    if user is None:
        return Explanation(broker=broker, is_allowed=False, reason="there is no such user")
    # Before the type: a disabled super user may do nothing either.
    if user.user_status == "disable":
        return Explanation(broker=broker, is_allowed=False, reason="the user is disabled")
    if user.user_type == "Super":
        return Explanation(broker=broker, is_allowed=True, reason="a super user may do all")
    policies = [policy for info in rules for policy in policies_of(info.policies or ())]
    acl = Acl(f"User:{user.username}", tuple(policies))
    try:
        verdict = decide(acl, need, source_ip, longest_prefix_first=longest_prefix_first)
    # Only rules with a network parse the address; without them a wrong one goes unnoticed.
    except ValueError as exc:
        raise CallerError(f"{source_ip!r} is no address: {exc}") from exc
    if verdict.entry is None:
        return Explanation(broker=broker, is_allowed=False, reason="no rule matches")
    matching = tuple(map(_words, verdict.matching))
    return Explanation(
        broker=broker,
        is_allowed=verdict.is_allowed,
        reason=f"{matching[0]} decides",
        rules=matching,
        warning=_warning(verdict.matching, longest_prefix_first),
    )


def _words(entry: Entry) -> str:
    actions = ",".join(each.value for each in entry.actions)
    where = f" from {','.join(entry.source_ips)}" if entry.source_ips else ""
    return f"{entry.decision.value} {actions} on {entry.resource.key}{where}"


def _warning(matching: Sequence[Entry], longest_prefix_first: bool) -> str:
    """A denial that matches and does not decide surprises; so does 5.3's order."""
    # The first rule decides; users may expect that a denial after it wins instead.
    denials = [each for each in matching[1:] if each.decision is Decision.DENY]
    if matching[0].decision is Decision.ALLOW and denials:
        order = "" if longest_prefix_first else "; in 5.3 a shorter prefix and Allow go first"
        return f"{_words(denials[0])} matches too and does not count{order}"
    return ""
