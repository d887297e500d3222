"""Users, and what they may do (Y-46, Y-47)."""

from __future__ import annotations

from pocketmq.protocol.body import BodyStruct


class UserInfo(BodyStruct, kw_only=True):
    """One user; the password travels in clear, as in RocketMQ."""

    username: str | None = None
    password: str | None = None
    user_type: str | None = None
    """`Super` or `Normal`."""
    user_status: str | None = None
    """`enable` or `disable`."""


class PolicyEntryInfo(BodyStruct, kw_only=True):
    """One rule."""

    resource: str | None = None
    """`Topic:name`, `Group:prefix*`, `*`."""
    actions: list[str] | None = None
    source_ips: list[str] | None = None
    """Addresses or networks of clients; all if absent."""
    decision: str | None = None
    """`Allow` or `Deny`."""


class PolicyInfo(BodyStruct, kw_only=True):
    """Rules of one type."""

    policy_type: str | None = None
    """`Custom`, or `Default`, which counts where no Custom rule matches."""
    entries: list[PolicyEntryInfo] | None = None


class AclInfo(BodyStruct, kw_only=True):
    """All rules of one subject."""

    subject: str | None = None
    """`User:name`."""
    policies: list[PolicyInfo] | None = None


class AccessTable(BodyStruct, kw_only=True):
    """A broker's users and their rules: the file `access.json`, which only PocketMQ has."""

    users: list[UserInfo] = []
    acls: list[AclInfo] = []
