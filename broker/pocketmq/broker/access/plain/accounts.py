"""Accounts of ACL 1.0 and what they may do (Y-20 to Y-22). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntFlag
from typing import Any, Final

from pocketmq.broker.access.plain.addresses import Matches, address_pattern
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.messages.validation import RETRY_PREFIX

MIN_KEY_CHARS: Final = 7
"""Of access keys and secret keys."""

TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"

ACCOUNT_CODES: Final = frozenset(
    {
        RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
        RequestCode.DELETE_ACL_CONFIG,
        RequestCode.GET_BROKER_CLUSTER_ACL_INFO,
        RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
    }
)
"""Requests about accounts. RocketMQ asks for an admin from 5.3.0 on, for 53 never; in 4.9.8 any
account could make itself one (Y-25)."""

ADMIN_CODES: Final = ACCOUNT_CODES | frozenset(
    {
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
        RequestCode.DELETE_TOPIC_IN_BROKER,
    }
)
"""Requests that only an admin may send."""


class Perm(IntFlag):
    """RocketMQ's bits."""

    DENY = 1
    PUB = 4
    SUB = 8


_PERMS: Final = {
    "PUB": Perm.PUB,
    "SUB": Perm.SUB,
    "PUB|SUB": Perm.PUB | Perm.SUB,
    "SUB|PUB": Perm.PUB | Perm.SUB,
    "DENY": Perm.DENY,
}


class PlainAclError(ValueError):
    """RocketMQ's AclException: a file that cannot be used, or a request that is refused."""


@dataclass(frozen=True, slots=True)
class PlainAccount:
    """One account; its secret is part of no log."""

    access_key: str
    secret_key: str = field(repr=False)
    is_white: Matches = field(repr=False)
    """Whether an address needs no signature."""
    is_admin: bool = False
    topic_perm: Perm = Perm.DENY
    """Of topics that are not named."""
    group_perm: Perm = Perm.DENY
    perms: Mapping[str, Perm] = field(default_factory=dict)
    """By topic, and of groups by their retry topic."""

    def check(self, code: int, needs: Mapping[str, Perm]) -> None:
        """Return if this account may send a request.

        Args:
            code: Of the request.
            needs: What it needs, by topic; of groups by their retry topic.

        Raises:
            PlainAclError: It may not, with RocketMQ's words.
        """
        if code in ADMIN_CODES and not self.is_admin:
            raise PlainAclError(
                f"Need admin permission for request code={code}, but accessKey={self.access_key} "
                "is not"
            )
        # An administrator may do anything, unless it has rules of its own.
        if self.is_admin and not self.perms:
            return
        for name, needed in needs.items():
            is_group = name.startswith(RETRY_PREFIX)
            owned = self.perms.get(name, self.group_perm if is_group else self.topic_perm)
            # DENY is a separate bit, and it overrides the others.
            if owned & Perm.DENY or not owned & needed:
                what = f"group:{name[len(RETRY_PREFIX) :]}" if is_group else f"topic:{name}"
                raise PlainAclError(f"No default permission for {what}")


@dataclass(frozen=True, slots=True)
class PlainAcl:
    """All that the files say."""

    accounts: Mapping[str, PlainAccount] = field(default_factory=dict)
    white: tuple[Matches, ...] = ()
    """Addresses that need no account."""

    @classmethod
    def of(cls, files: Iterable[Mapping[str, Any]]) -> PlainAcl:
        """Of the files' contents; the first that names an access key owns it.

        Raises:
            PlainAclError: One makes no sense; none of them is used then.
        """
        accounts: dict[str, PlainAccount] = {}
        white: list[Matches] = []
        for content in files:
            patterns = _list(content, "globalWhiteRemoteAddresses")
            white += [_pattern(str(each)) for each in patterns]
            for each in _list(content, "accounts"):
                if not isinstance(each, Mapping):
                    raise PlainAclError(f"{each!r} is no account")
                account = account_of(each)
                accounts.setdefault(account.access_key, account)
        return cls(accounts, tuple(white))


def account_of(info: Mapping[str, Any]) -> PlainAccount:
    """An account as a file has it.

    Raises:
        PlainAclError: A key is too short, or a part cannot be read.
    """
    access_key, secret_key = _text(info, "accessKey"), _text(info, "secretKey")
    if (
        access_key is None
        or secret_key is None
        or min(len(access_key), len(secret_key)) < MIN_KEY_CHARS
    ):
        raise PlainAclError(
            f"The accessKey={access_key} and its secretKey cannot be null and length should longer "
            f"than {MIN_KEY_CHARS - 1}"
        )
    perms = dict(_perms("group", RETRY_PREFIX, _list(info, "groupPerms")))
    perms |= _perms("topic", "", _list(info, "topicPerms"))
    return PlainAccount(
        access_key,
        secret_key,
        _pattern(_text(info, "whiteRemoteAddress")),
        str(info.get("admin", False)).lower() in ("true", "1"),
        parsed_perm(_text(info, "defaultTopicPerm")),
        parsed_perm(_text(info, "defaultGroupPerm")),
        perms,
    )


def parsed_perm(text: str | None) -> Perm:
    """`PUB`, `SUB`, `PUB|SUB`, `SUB|PUB`; all else is DENY."""
    return _PERMS.get((text or "").strip(), Perm.DENY)


def is_perm(text: str) -> bool:
    """Whether a text is a permission, DENY included."""
    return text.strip() in _PERMS


def _perms(kind: str, prefix: str, items: Iterable[Any]) -> dict[str, Perm]:
    found = {}
    for each in items:
        parts = [part for part in str(each).split("=") if part]
        if len(parts) != 2:
            raise PlainAclError(f"Parse resource permission failed for {kind}:{each}")
        found[prefix + parts[0].strip()] = parsed_perm(parts[1])
    return found


def _pattern(text: str | None) -> Matches:
    try:
        return address_pattern(text)
    except ValueError as exc:
        raise PlainAclError(f"Netaddress examine Exception netaddress is {text}") from exc


def _list(content: Mapping[str, Any], name: str) -> list[Any]:
    found = content.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise PlainAclError(f"{name} is no list")
    return found


def _text(info: Mapping[str, Any], name: str) -> str | None:
    """A text; a number of YAML is one too."""
    found = info.get(name)
    return None if found is None else str(found)
