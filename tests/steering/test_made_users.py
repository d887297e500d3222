"""Users of a cluster's file: made where they are new, not where somebody has deleted them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pocketmq.cluster.steering.access import ClusterAccess
from pocketmq.protocol.bodies.access import AclInfo, PolicyEntryInfo, PolicyInfo
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.command import Command
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.access import (
    CreateAclRequestHeader,
    DeleteAclRequestHeader,
    DeleteUserRequestHeader,
    ListAclsRequestHeader,
)
from pocketmq.protocol.transport.remoting import RemotingClient, expect
from support.broker_rig import running_broker

FILE = """
acl = [["shop", "Topic:orders", "Pub"]]
[users]
shop = "secret"
billing = "other"
"""


async def test_a_user_that_somebody_deleted_is_not_made_again(tmp_path: Path) -> None:
    file, data = tmp_path / "users.toml", tmp_path / "data"
    file.write_text(FILE)
    access = ClusterAccess.read(file).kept_in(data)
    async with running_broker(data / "broker", **access.broker_options) as rig:
        users = rig.broker.subjects.access.accounts.users
        remoting = RemotingClient(rig.network, credentials=access.steering)
        where = {"broker": rig.broker.address}
        await access.make(remoting, where)
        assert set(users) == {"pocketmq", "shop", "billing"}

        header = DeleteUserRequestHeader(username="shop")
        expect(await remoting.call(rig.broker.address, header))
        await ClusterAccess.read(file).kept_in(data).make(remoting, where)  # the next start
        assert set(users) == {"pocketmq", "billing"}

        file.write_text(FILE + 'later = "third"\n')
        await ClusterAccess.read(file).kept_in(data).make(remoting, where)
        assert set(users) == {"pocketmq", "billing", "later"}

        for name in ("billing", "later"):
            header = DeleteUserRequestHeader(username=name)
            expect(await remoting.call(rig.broker.address, header))
        await ClusterAccess.read(file).kept_in(data).make(remoting, where)
        assert set(users) == {"pocketmq"}, "also where all were deleted"
        await remoting.close()

    access = ClusterAccess.read(file).kept_in(data)
    async with running_broker(data / "new", **access.broker_options) as rig:
        remoting = RemotingClient(rig.network, credentials=access.steering)
        await access.make(remoting, {"new": rig.broker.address})
        users = rig.broker.subjects.access.accounts.users
        assert set(users) == {"pocketmq", "shop", "billing", "later"}, "a broker that is new"
        await remoting.close()


class KilledError(Exception):
    """In place of a SIGKILL."""


class KilledAmongRules(RemotingClient):
    """Makes as many rules, and is killed before the next one."""

    rules_left = 0

    async def call(self, address: str, header: Header, *more: Any, **words: Any) -> Command:
        if isinstance(header, CreateAclRequestHeader):
            if not self.rules_left:
                raise KilledError
            self.rules_left -= 1
        return await super().call(address, header, *more, **words)


async def rules(remoting: RemotingClient, address: str) -> dict[tuple[str, str], list[str]]:
    """(subject, resource) -> actions, as the broker lists them."""
    reply = expect(await remoting.call(address, ListAclsRequestHeader()))
    found = decode_body(reply.body_view, list[AclInfo], reply.encoding)
    return {
        (acl.subject or "", entry.resource or ""): entry.actions or []
        for acl in found
        for policy in acl.policies or []
        for entry in policy.entries or []
    }


@pytest.mark.parametrize("made_before_it", [0, 1, 2])
async def test_rules_that_a_kill_prevented_are_made_by_the_next_start(
    tmp_path: Path, made_before_it: int
) -> None:
    file, data = tmp_path / "users.toml", tmp_path / "data"
    more = '], ["shop", "Topic:bills", "Sub"], ["billing", "Topic:orders", "Sub"]]'
    file.write_text(FILE.replace("]]", more))
    access = ClusterAccess.read(file).kept_in(data)
    async with running_broker(data / "broker", **access.broker_options) as rig:
        address = rig.broker.address
        killed = KilledAmongRules(rig.network, credentials=access.steering)
        killed.rules_left = made_before_it
        with pytest.raises(KilledError):
            await access.make(killed, {"broker": address})
        await killed.close()

        remoting = RemotingClient(rig.network, credentials=access.steering)
        # An admin's own word about a resource stays.
        entry = PolicyEntryInfo(resource="Topic:orders", actions=["Get"], decision="Deny")
        own = AclInfo(policies=[PolicyInfo(policy_type="Custom", entries=[entry])])
        header = CreateAclRequestHeader(subject="User:shop")
        expect(await remoting.call(address, header, own))
        await ClusterAccess.read(file).kept_in(data).make(remoting, {"broker": address})
        assert await rules(remoting, address) == {
            ("User:shop", "Topic:orders"): ["Get"],
            ("User:shop", "Topic:bills"): ["Sub"],
            ("User:billing", "Topic:orders"): ["Sub"],
        }
        await remoting.close()


async def test_rules_of_a_cluster_that_keeps_no_names_are_made_once(tmp_path: Path) -> None:
    access = ClusterAccess.of({"shop": "secret"}, [("shop", "Topic:orders", "Pub")])
    assert access is not None
    async with running_broker(tmp_path / "broker", **access.broker_options) as rig:
        address = rig.broker.address
        remoting = RemotingClient(rig.network, credentials=access.steering)
        await access.make(remoting, {"broker": address})
        header = DeleteAclRequestHeader(subject="User:shop")
        expect(await remoting.call(address, header))
        await access.make(remoting, {"broker": address})  # as after a restart of the broker
        assert not rig.broker.subjects.access.accounts.acls
        await remoting.close()
