"""Users and rules of a cluster, and the super user by which it is steered."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self

import msgspec

from pocketmq.cluster.folder import MADE_FILE, USER_FILE
from pocketmq.operation.access.options import SUPER_USERS_VARIABLE
from pocketmq.protocol.bodies.access import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.headers.access import (
    CreateAclRequestHeader,
    CreateUserRequestHeader,
    GetAclRequestHeader,
    ListUsersRequestHeader,
)
from pocketmq.protocol.signing import Credentials
from pocketmq.protocol.transport.remoting import RemotingClient, expect
from pocketmq.runtime.errors import ConfigError, DiskError
from pocketmq.runtime.files.private_file import write_private

STEERING_USER: Final = "pocketmq"
"""The super user of the cluster itself: its requests and those of brokers to each other."""


Rule = tuple[str, str, str]
"""User, resource, and actions separated by commas: `("shop", "Topic:orders", "Pub,Sub")`."""


class UsersFile(msgspec.Struct, forbid_unknown_fields=True):
    """What `pocketmq up --users FILE` reads (TOML or JSON)."""

    users: dict[str, str] = {}
    super_users: dict[str, str] = {}
    acl: list[Rule] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """Who may do what in a cluster.

    Raises:
        ConfigError: A rule names no user of these, or a user has no password.
    """

    users: Mapping[str, str] = field(repr=False)
    """Name -> password, of normal users."""
    super_users: Mapping[str, str] = field(repr=False, default_factory=dict)
    """Name -> password, of those that may do all."""
    rules: Sequence[Rule] | None = None
    """What they may do; None: all that a signed request asks for."""
    steering: Credentials = field(
        default_factory=lambda: Credentials(STEERING_USER, secrets.token_urlsafe(24))
    )

    data: Path | None = None
    """With the brokers' folders, which keep names of users that were made; None: none are kept."""

    @classmethod
    def of(
        cls,
        users: Mapping[str, str] | None,
        rules: Iterable[Rule] | None,
        super_users: Mapping[str, str] | None = None,
    ) -> ClusterAccess | None:
        """Of what a test says; None if it says nothing.

        Raises:
            ConfigError: See the class.
        """
        # Nobody asked for users, which differs from users without any rule.
        if users is None and rules is None and super_users is None:
            return None
        return cls(
            users=dict(users or {}),
            super_users=dict(super_users or {}),
            rules=None if rules is None else tuple(rules),
        )

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file of users and rules.

            acl = [["shop", "Topic:orders", "Pub"]]   # left out: a user may do all

            [users]
            shop = "secret"

            [super_users]
            admin = "other"

        Raises:
            ConfigError: It cannot be read, or see the class.
        """
        decode = msgspec.json.decode if path.suffix == ".json" else msgspec.toml.decode
        try:
            # Unknown fields are refused: a misspelt `acl` would allow everything.
            found = decode(path.read_bytes(), type=UsersFile)
        except OSError as exc:
            raise ConfigError("users", f"{path}: {exc.strerror or exc}") from exc
        except (msgspec.DecodeError, ValueError) as exc:
            advice = "docs/security.md shows a file of users"
            raise ConfigError("users", f"{path}: {exc}", advice=advice) from exc
        return cls(users=found.users, super_users=found.super_users, rules=found.acl)

    def kept_in(self, data: Path) -> Self:
        """The same with the key that the cluster's brokers know, from its data folder.

        The first start makes it, in a file that only its owner can read.

        Raises:
            ConfigError: The file there has no key, or is gone while brokers know one.
            DiskError: It cannot be read or written.
        """
        path = data / USER_FILE
        try:
            if not path.exists():
                if any(data.glob("*/config/access.json")):  # a new key would be refused by them
                    advice = f"put {USER_FILE} back, or begin with another data folder"
                    raise ConfigError(
                        "users",
                        f"{path} is missing, and the brokers of this folder accept only the key "
                        "from that file",
                        advice=advice,
                    )
                # Written before any broker starts: a cluster whose key was lost could not be
                # steered.
                _write_key(path, self.steering)
                return replace(self, data=data)
            return replace(self, steering=read_key(path), data=data)
        except OSError as exc:
            reason = exc.strerror or str(exc)
            raise DiskError(path, reason, advice="choose another folder") from exc

    def __post_init__(self) -> None:
        # Only one of the two passwords could count.
        both = self.users.keys() & self.super_users.keys()
        if both:
            advice = "name each user once"
            raise ConfigError("users", f"{min(both)!r} is normal and super", advice=advice)
        for name, password in (*self.users.items(), *self.super_users.items()):
            if not name or not password or name == STEERING_USER:
                advice = f"give it a name other than {STEERING_USER}, and a password"
                raise ConfigError("users", f"{name!r} cannot be made", advice=advice)
        for rule in self.rules or ():
            parts: tuple[str, ...] = rule  # a program without types may hand over anything
            if len(parts) != 3:
                advice = "write (user, resource, actions)"
                raise ConfigError("acl", f"{rule!r} is no rule", advice=advice)
            # Super users need no rules, so only normal users are looked up.
            if rule[0] not in self.users:
                advice = f"there are {', '.join(self.users) or 'none'}"
                raise ConfigError("acl", f"{rule[0]!r} is no user of `users`", advice=advice)

    @property
    def broker_options(self) -> dict[str, str | bool]:
        """The options of each broker, which then checks requests from its start on."""
        return self.proxy_options | {"init_authentication_user": _initial(self.steering)}

    @property
    def proxy_options(self) -> dict[str, str | bool]:
        """The options of a gRPC proxy, which then checks calls as brokers check requests."""
        user = self.steering
        return {
            "authentication_enabled": True,
            "authorization_enabled": self.rules is not None,
            "inner_client_authentication_credentials": json.dumps(
                {"accessKey": user.access_key, "secretKey": user.secret_key}
            ),
        }

    @property
    def nameserver_options(self) -> dict[str, str | bool]:
        """The options of each nameserver and controller, which then checks PocketMQ's own requests.

        It has no accounts, so it gets all super users that there are at the start.
        """
        return {
            "authentication_enabled": True,
            "init_authentication_user": _initial(self.steering),
            "super_users": json.dumps(dict(self.super_users)),
        }

    @property
    def environment(self) -> dict[str, str]:
        """All of them as variables: a command line can be read by everybody on the machine."""
        of_roles = {
            "NAMESERVER": self.nameserver_options,
            "CONTROLLER": self.nameserver_options,
            "BROKER": self.broker_options,
            "PROXY": self.proxy_options,
        }
        user = self.steering
        # Client processes have no options of a role.
        of_clients = json.dumps({**self.super_users, user.access_key: user.secret_key})
        return {SUPER_USERS_VARIABLE: of_clients} | {
            f"POCKETMQ_{role}_{name.upper()}": str(value).lower() if value is True else str(value)
            for role, options in of_roles.items()
            for name, value in options.items()
            # Without its variable an option has its default, which is false.
            if value is not False
        }

    async def make(self, remoting: RemotingClient, brokers: Mapping[str, str]) -> None:
        """Make users and their rules where they are missing; what is there stays as it is.

        A user that was made at a broker before, and is missing there, was deleted by somebody, and
        is not made again; neither are the rules of a user that was made before. A broker keeps the
        names beside its users: one whose data is gone gets all of them.

        Args:
            remoting: Signs as the steering user.
            brokers: Folder -> address, of brokers that have just started.

        Raises:
            BrokerError: A broker refuses one; its remark says why.
            DiskError: The names of the users that were made cannot be kept.
        """
        for broker, address in brokers.items():
            before = self._made_before(broker)
            reply = expect(await remoting.call(address, ListUsersRequestHeader()))
            body = reply.body_view
            found = decode_body(body, list[UserInfo], reply.encoding) if body else []
            known = {each.username for each in found}
            # A user that was created before and is missing now was deleted by somebody, and stays
            # deleted.
            coming = {*self.users, *self.super_users} - known - before
            for kind, users in (("Super", self.super_users), ("Normal", self.users)):
                for name in sorted(users.keys() & coming):
                    info = UserInfo(username=name, password=users[name], user_type=kind)
                    header = CreateUserRequestHeader(username=name)
                    expect(await remoting.call(address, header, info))
            # A kill may have come between these users and their rules. Where no names are kept,
            # nothing outlives a kill.
            unsure = self.users.keys() - before - coming if self.data is not None else set()
            there = {user: await _ruled(remoting, address, user) for user in sorted(unsure)}
            for user, resource, actions in self.rules or ():
                if user in coming or (user in unsure and resource not in there[user]):
                    expect(await remoting.call(address, *_granting(user, resource, actions)))
            # Last, so that after a kill before this the next start creates them again.
            self._note_made(broker, before)

    def _made_file(self, broker: str) -> Path | None:
        return None if self.data is None else self.data / broker / MADE_FILE

    def _made_before(self, broker: str) -> set[str]:
        """Users of the file that were made at this broker so far."""
        path = self._made_file(broker)
        if path is None:
            return set()
        try:
            found = path.read_bytes() if path.exists() else b"[]"
            return set(msgspec.json.decode(found, type=list[str]))
        except (OSError, msgspec.DecodeError) as exc:
            advice = "remove it: then all users of the file are made again"
            raise DiskError(path, str(exc), advice=advice) from exc

    def _note_made(self, broker: str, before: set[str]) -> None:
        """They are all made: after a kill before this they are made by the next start."""
        path = self._made_file(broker)
        now = before | self.users.keys() | self.super_users.keys()
        if path is None or now == before:
            return
        try:
            write_private(path, msgspec.json.encode(sorted(now)))
        except OSError as exc:
            reason = exc.strerror or str(exc)
            raise DiskError(path, reason, advice="choose another folder") from exc


def _initial(user: Credentials) -> str:
    """The value of `initAuthenticationUser`."""
    return json.dumps({"username": user.access_key, "password": user.secret_key})


async def _ruled(remoting: RemotingClient, address: str, user: str) -> set[str | None]:
    """The resources about which a user has rules at a broker."""
    reply = expect(await remoting.call(address, GetAclRequestHeader(subject=f"User:{user}")))
    body = reply.body_view
    found = decode_body(body, AclInfo, reply.encoding) if body else AclInfo()
    return {entry.resource for policy in found.policies or () for entry in policy.entries or ()}


def _granting(user: str, resource: str, actions: str) -> tuple[CreateAclRequestHeader, AclInfo]:
    words = [each.strip() for each in actions.split(",")]
    entry = PolicyEntryInfo(resource=resource, actions=words, decision="Allow")
    subject = f"User:{user}"
    body = AclInfo(subject=subject, policies=[PolicyInfo(policy_type="Custom", entries=[entry])])
    return CreateAclRequestHeader(subject=subject), body


def read_key(path: Path) -> Credentials:
    """The key of the steering user, as `ClusterAccess.kept_in` has written it.

    Raises:
        ConfigError: The file is none.
        OSError: It cannot be read.
    """
    try:
        found = msgspec.json.decode(path.read_bytes(), type=dict[str, str])
        return Credentials(found["accessKey"], found["secretKey"])
    except (msgspec.DecodeError, KeyError) as exc:
        advice = "put the file back, or begin with another data folder"
        raise ConfigError("users", f"{path} holds no key", advice=advice) from exc


def _write_key(path: Path, key: Credentials) -> None:
    content = msgspec.json.encode({"accessKey": key.access_key, "secretKey": key.secret_key})
    write_private(path, content)
