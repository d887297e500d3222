"""Users and rules of a cluster for tests, and the super user by which it is steered."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pocketmq.client import Admin
from pocketmq.protocol.signing import Credentials
from pocketmq.runtime.errors import ConfigError

STEERING_USER: Final = "pocketmq"
"""The super user of the cluster itself: its requests and those of brokers to each other."""

Rule = tuple[str, str, str]
"""User, resource, and actions separated by commas: `("shop", "Topic:orders", "Pub,Sub")`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """Who may do what in a cluster.

    Raises:
        ConfigError: A rule names no user of these, or a user has no password.
    """

    users: Mapping[str, str] = field(repr=False)
    """Name -> password, of normal users."""
    rules: Sequence[Rule] | None = None
    """What they may do; None: all that a signed request asks for."""
    steering: Credentials = field(
        default_factory=lambda: Credentials(STEERING_USER, secrets.token_urlsafe(24))
    )

    @classmethod
    def of(
        cls, users: Mapping[str, str] | None, rules: Iterable[Rule] | None
    ) -> ClusterAccess | None:
        """Of what a test says; None if it says nothing.

        Raises:
            ConfigError: See the class.
        """
        if users is None and rules is None:
            return None
        return cls(users=dict(users or {}), rules=None if rules is None else tuple(rules))

    def __post_init__(self) -> None:
        for name, password in self.users.items():
            if not name or not password or name == STEERING_USER:
                advice = f"give it a name other than {STEERING_USER}, and a password"
                raise ConfigError("users", f"{name!r} cannot be made", advice=advice)
        for rule in self.rules or ():
            parts: tuple[str, ...] = rule  # a program without types may hand over anything
            if len(parts) != 3:
                advice = "write (user, resource, actions)"
                raise ConfigError("acl", f"{rule!r} is no rule", advice=advice)
            if rule[0] not in self.users:
                advice = f"there are {', '.join(self.users) or 'none'}"
                raise ConfigError("acl", f"{rule[0]!r} is no user of `users`", advice=advice)

    @property
    def broker_options(self) -> dict[str, str | bool]:
        """The options of each broker, which then checks requests from its start on."""
        user = self.steering
        return {
            "authentication_enabled": True,
            "authorization_enabled": self.rules is not None,
            "init_authentication_user": json.dumps(
                {"username": user.access_key, "password": user.secret_key}
            ),
            "inner_client_authentication_credentials": json.dumps(
                {"accessKey": user.access_key, "secretKey": user.secret_key}
            ),
        }

    @property
    def broker_environment(self) -> dict[str, str]:
        """The same as variables: a command line can be read by everybody on the machine."""
        return {
            f"POCKETMQ_BROKER_{name.upper()}": str(value).lower() if value is True else str(value)
            for name, value in self.broker_options.items()
            if value is not False
        }

    async def make(self, admin: Admin, brokers: Iterable[str]) -> None:
        """Make users and their rules where they are missing; what is there stays as it is.

        Args:
            admin: Signs as the steering user.
            brokers: Names of those that have just started; one without its old data has none.

        Raises:
            BrokerError: A broker refuses one; its remark says why.
        """
        for broker, found in (await admin.users(brokers=brokers)).items():
            missing = self.users.keys() - {each.username for each in found}
            for name in sorted(missing):
                await admin.create_user(name, self.users[name], brokers=[broker])
            for user, resource, actions in self.rules or ():
                if user in missing:
                    words = [each.strip() for each in actions.split(",")]
                    await admin.grant(user, [resource], words, brokers=[broker])
