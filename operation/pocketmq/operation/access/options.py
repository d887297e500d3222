"""Options of access control that several roles have; users and secrets are JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from pocketmq.operation.access.users import User, UserType
from pocketmq.protocol.signing import Credentials
from pocketmq.runtime.configuration.options import option
from pocketmq.runtime.errors import ConfigError

SUPER_USERS_VARIABLE: Final = "POCKETMQ_SUPER_USERS"
"""Of client processes with a port of their own: who may move their clock, as in `super_users`."""

T = TypeVar("T", bound=msgspec.Struct)


class _InnerClient(msgspec.Struct, rename="camel"):
    access_key: str
    secret_key: str


class _InitialUser(msgspec.Struct):
    username: str
    password: str


@dataclass(frozen=True, kw_only=True)
class InitialUserOptions:
    """The super user that a role knows from its start on."""

    init_authentication_user: str = option(
        "",
        help=(
            "Name and password of a super user that exists from the role's start: "
            '{"username":"...","password":"..."}.'
        ),
        rule="Y-40",
        secret=True,
    )

    @property
    def initial_user(self) -> tuple[str, str] | None:
        """Its name and password.

        Raises:
            ConfigError: the option cannot be read.
        """
        found = read_json("initAuthenticationUser", self.init_authentication_user, _InitialUser)
        return None if found is None else (found.username, found.password)


@dataclass(frozen=True, kw_only=True)
class OwnRequestOptions(InitialUserOptions):
    """Of a role without accounts: who may send it PocketMQ's own requests.

    Raises:
        ConfigError: one cannot be read, or nobody could send any.
    """

    authentication_enabled: bool = option(
        False,
        help=(
            "Answer PocketMQ's own requests (clock, faults, status) only if a super user "
            "has signed them. The options init_authentication_user and super_users name "
            "the super users."
        ),
    )
    super_users: str = option("", help='More super users: {"name":"password"}.', secret=True)

    def __post_init__(self) -> None:
        # Controllers could not even talk to each other.
        if self.authentication_enabled and self.initial_user is None:
            raise ConfigError(
                "authentication_enabled",
                "authentication needs the option initAuthenticationUser, which is not set",
                advice="set initAuthenticationUser to the super user of the brokers",
            )
        _ = self.own_users

    @property
    def own_users(self) -> Mapping[str, User]:
        """All that it knows, by name.

        Raises:
            ConfigError: an option cannot be read.
        """
        found = super_users_of("superUsers", self.super_users)
        if self.initial_user is not None:
            name, password = self.initial_user
            found[name] = User(name, password, UserType.SUPER)
        return found

    @property
    def own_credentials(self) -> Credentials | None:
        """What signs the role's requests of PocketMQ's own to others of its kind.

        Raises:
            ConfigError: the option cannot be read.
        """
        return None if self.initial_user is None else Credentials(*self.initial_user)


def inner_credentials(text: str) -> Credentials | None:
    """What signs a role's own requests: `innerClientAuthenticationCredentials`; None if empty.

    Raises:
        ConfigError: it cannot be read.
    """
    found = read_json("innerClientAuthenticationCredentials", text, _InnerClient)
    return None if found is None else Credentials(found.access_key, found.secret_key)


def read_json(name: str, text: str, cls: type[T]) -> T | None:
    """The JSON of an option, of which no part is shown; None if it is empty.

    Raises:
        ConfigError: it is no such JSON, or has an empty text.
    """
    if not text.strip():
        return None
    try:
        found = msgspec.json.decode(text, type=cls)
    # The error's own text is dropped: it may quote the secret.
    except msgspec.MsgspecError:
        found = None
    # No user has an empty key or secret.
    if found is None or not all(msgspec.structs.astuple(found)):
        keys = ", ".join(f'"{key}"' for key in cls.__struct_encode_fields__)
        raise ConfigError(
            name,
            "this must be a JSON object that has a string that is not empty for each of the keys "
            f"{keys}",
        )
    return found


def super_users_of(name: str, text: str) -> dict[str, User]:
    """Super users by name: a JSON object of names and passwords; none if it is empty.

    Args:
        name: Of the option or variable, for errors.
        text: Its value, of which no part is shown.

    Raises:
        ConfigError: it is no such JSON, or has an empty text.
    """
    if not text.strip():
        return {}
    try:
        found = msgspec.json.decode(text, type=dict[str, str])
    except msgspec.MsgspecError:
        found = {"": ""}
    if not all(each for item in found.items() for each in item):
        raise ConfigError(
            name,
            'this must be a JSON object of the form {"name":"password"}, without empty names '
            "or passwords",
        )
    return {each: User(each, password, UserType.SUPER) for each, password in found.items()}
