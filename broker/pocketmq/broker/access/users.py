"""Users and their rules: the table `config/access.json` of one broker (Y-41, Y-46).

What is refused has RocketMQ's words, `AuthError` of code NO_PERMISSION (16).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.operation.access.resources import Resource
from pocketmq.operation.access.rules import Acl, Policy, PolicyType
from pocketmq.operation.access.users import User, UserStatus, UserType
from pocketmq.protocol.codes import ResponseCode
from pocketmq.runtime.signals import Signal


class AuthError(RequestRefusedError):
    """RocketMQ's AuthenticationException or AuthorizationException."""

    def __init__(self, remark: str) -> None:
        super().__init__(ResponseCode.NO_PERMISSION, remark)


class Accounts:
    """All users and rules of a broker."""

    def __init__(self) -> None:
        self.users: dict[str, User] = {}
        self.acls: dict[str, Acl] = {}
        """By subject."""
        self.changed: Signal[[]] = Signal()
        """After each change."""

    # -- users ----------------------------------------------------------------------------------

    def create(self, user: User) -> None:
        """Add a user.

        Raises:
            AuthError: it has no name or password, or exists.
        """
        if not user.username.strip():
            raise AuthError("username can not be blank")
        if not user.password.strip():
            raise AuthError("password can not be blank")
        if user.username in self.users:
            raise AuthError("The user is existed")
        self.users[user.username] = user
        self.changed.emit()

    def ensure_super(self, username: str, password: str) -> None:
        """Add a super user, unless there is a user of that name already."""
        if username not in self.users:
            self.create(User(username, password, UserType.SUPER))

    def update(
        self,
        username: str,
        *,
        password: str | None,
        kind: UserType | None,
        status: UserStatus | None,
    ) -> None:
        """Change what is given.

        Raises:
            AuthError: there is no such user.
        """
        old = self.users.get(username)
        if old is None:
            raise AuthError("The user is not exist")
        self.users[username] = replace(
            old,
            password=password if password and password.strip() else old.password,
            type=kind or old.type,
            status=status or old.status,
        )
        self.changed.emit()

    def delete(self, username: str) -> None:
        """Delete a user and its rules; nothing happens if there is none."""
        user = self.users.pop(username, None)
        if user is not None:
            self.acls.pop(user.subject, None)
            self.changed.emit()

    def matching(self, text: str | None) -> list[User]:
        """Users with that text in their names, by name."""
        wanted = text if text and text.strip() else ""
        return [user for name, user in sorted(self.users.items()) if wanted in name]

    # -- rules ----------------------------------------------------------------------------------

    def granted(self, subject: str, policies: Iterable[Policy]) -> Acl:
        """The rules of a subject with more; one about the same resource replaces the old one.

        Nothing is changed yet: `keep` does that.

        Raises:
            AuthError: there is no such user.
        """
        if subject.removeprefix("User:") not in self.users:
            raise AuthError(f"The subject of {subject} is not exist.")
        old = self.acls.get(subject)
        return Acl(subject, tuple(policies)) if old is None else old.with_policies(policies)

    def keep(self, acl: Acl) -> None:
        """Let these be all rules of their subject."""
        self.acls[acl.subject] = acl
        self.changed.emit()

    def revoke(self, subject: str, kind: PolicyType, resource: Resource | None) -> None:
        """Take the rule about a resource, or all rules if None.

        Raises:
            AuthError: there is no such user, or it has no rules.
        """
        if subject.removeprefix("User:") not in self.users:
            raise AuthError("The subject is not exist.")
        old = self.acls.get(subject)
        if old is None:
            raise AuthError("The acl is not exist.")
        left = Acl(subject) if resource is None else old.without(kind, resource)
        if left.policies:
            self.acls[subject] = left
        else:
            del self.acls[subject]
        self.changed.emit()

    def rules_of(self, subject: str) -> Acl | None:
        """The rules of a subject.

        Raises:
            AuthError: there is no such user.
        """
        if subject.removeprefix("User:") not in self.users:
            raise AuthError("The subject is not exist.")
        return self.acls.get(subject)

    def rules_matching(self, subject: str | None, resource: str | None) -> list[Acl]:
        """Rules by texts in the names of subjects and resources.

        As RocketMQ's, it does not look at resources where the subject's name holds that text.
        """
        wanted = subject if subject and subject.strip() else ""
        about = resource if resource and resource.strip() else ""
        found = []
        for key, acl in sorted(self.acls.items()):
            if wanted not in key:
                continue
            policies = tuple(
                replace(policy, entries=entries)
                for policy in acl.policies
                if (
                    entries := tuple(
                        entry
                        for entry in policy.entries
                        if about in key or about in entry.resource.key
                    )
                )
            )
            if policies:
                found.append(Acl(key, policies))
        return found
