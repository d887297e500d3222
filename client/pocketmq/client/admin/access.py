"""Admin requests about users and their rules (Y-46, Y-48)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from pocketmq.client.admin.base import AdminBase
from pocketmq.protocol.bodies.access import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from pocketmq.protocol.body import BodyT, decode_body
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.access import (
    CreateAclRequestHeader,
    CreateUserRequestHeader,
    DeleteAclRequestHeader,
    DeleteUserRequestHeader,
    ListAclsRequestHeader,
    ListUsersRequestHeader,
    UpdateUserRequestHeader,
)


class AccessAdmin(AdminBase):
    """Makes users and rules. Each broker keeps its own, so every master is asked."""

    async def create_user(
        self,
        username: str,
        password: str,
        *,
        is_super: bool = False,
        brokers: Iterable[str] | None = None,
    ) -> None:
        """Make a user: AUTH_CREATE_USER (3001).

        Args:
            username: Also the access key.
            password: Also the secret key; brokers keep and tell it in clear, as RocketMQ does.
            is_super: May do all; only a super user makes one.
            brokers: Names of brokers; None for all masters.

        Raises:
            BrokerError: a broker refused; those before it have the user.
        """
        body = UserInfo(
            username=username, password=password, user_type="Super" if is_super else "Normal"
        )
        await self._tell_of_access(CreateUserRequestHeader(username=username), body, brokers)

    async def update_user(
        self,
        username: str,
        *,
        password: str | None = None,
        is_super: bool | None = None,
        is_enabled: bool | None = None,
        brokers: Iterable[str] | None = None,
    ) -> None:
        """Change what is given of a user: AUTH_UPDATE_USER (3002).

        Raises:
            BrokerError: a broker refused, or has no such user.
        """
        body = UserInfo(
            password=password,
            user_type=None if is_super is None else "Super" if is_super else "Normal",
            user_status=None if is_enabled is None else "enable" if is_enabled else "disable",
        )
        await self._tell_of_access(UpdateUserRequestHeader(username=username), body, brokers)

    async def delete_user(self, username: str, *, brokers: Iterable[str] | None = None) -> None:
        """Delete a user with its rules, if there is one: AUTH_DELETE_USER (3003)."""
        await self._tell_of_access(DeleteUserRequestHeader(username=username), b"", brokers)

    async def users(
        self, text: str | None = None, *, brokers: Iterable[str] | None = None
    ) -> dict[str, list[UserInfo]]:
        """Users by broker, those with a text in their names: AUTH_LIST_USER (3005)."""
        return await self._list(ListUsersRequestHeader(filter=text), UserInfo, brokers)

    async def grant(
        self,
        username: str,
        resources: Sequence[str],
        actions: Sequence[str],
        *,
        is_allowed: bool = True,
        source_ips: Sequence[str] = (),
        brokers: Iterable[str] | None = None,
    ) -> None:
        """Add a rule for each resource; one about the same resource is replaced.

        Asks by AUTH_CREATE_ACL (3006).

        Args:
            username: Of a user that exists.
            resources: `Topic:orders`, `Group:bill*`, `Topic:*`, `Cluster:DefaultCluster`, `*`.
            actions: Of `All`, `Pub`, `Sub`, `Create`, `Update`, `Delete`, `Get`, `List`.
            is_allowed: False forbids.
            source_ips: Addresses or networks of clients for which the rule counts; empty: all.
            brokers: Names of brokers; None for all masters.

        Raises:
            BrokerError: a broker refused; the remark says what makes no sense.
        """
        entries = [
            PolicyEntryInfo(
                resource=resource,
                actions=list(actions),
                source_ips=list(source_ips) or None,
                decision="Allow" if is_allowed else "Deny",
            )
            for resource in resources
        ]
        subject = f"User:{username}"
        body = AclInfo(
            subject=subject, policies=[PolicyInfo(policy_type="Custom", entries=entries)]
        )
        await self._tell_of_access(CreateAclRequestHeader(subject=subject), body, brokers)

    async def revoke(
        self,
        username: str,
        resource: str | None = None,
        *,
        brokers: Iterable[str] | None = None,
    ) -> None:
        """Take the rule about a resource from a user, or all of its rules: AUTH_DELETE_ACL (3008).

        Raises:
            BrokerError: a broker knows no such user, or no rule of it.
        """
        header = DeleteAclRequestHeader(subject=f"User:{username}", resource=resource)
        await self._tell_of_access(header, b"", brokers)

    async def rules(
        self,
        username: str | None = None,
        *,
        resource: str | None = None,
        brokers: Iterable[str] | None = None,
    ) -> dict[str, list[AclInfo]]:
        """Rules by broker: AUTH_LIST_ACL (3010).

        Args:
            username: A part of users' names.
            resource: A part of resources.
            brokers: Names of brokers; None for all masters.
        """
        header = ListAclsRequestHeader(subject_filter=username, resource_filter=resource)
        return await self._list(header, AclInfo, brokers)

    async def _tell_of_access(
        self, header: Header, body: bytes | msgspec.Struct, brokers: Iterable[str] | None
    ) -> None:
        masters = self._masters
        await masters.tell(await masters.chosen(brokers, None), header, body)

    async def _list(
        self, header: Header, item: type[BodyT], brokers: Iterable[str] | None
    ) -> dict[str, list[BodyT]]:
        found: dict[str, list[BodyT]] = {}
        for name, address in (await self._masters.chosen(brokers, None)).items():
            reply = await self._api.call(address, header)
            body = reply.body_view  # none at all where nothing was found
            found[name] = decode_body(body, list[item], reply.encoding) if body else []  # type: ignore[valid-type]
        return found
