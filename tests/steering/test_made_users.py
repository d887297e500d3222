"""Users of a cluster's file: made where they are new, not where somebody has deleted them."""

from __future__ import annotations

from pathlib import Path

from pocketmq.cluster.steering.access import ClusterAccess
from pocketmq.protocol.headers.access import DeleteUserRequestHeader
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
    async with running_broker(tmp_path / "broker", **access.broker_options) as rig:
        users = rig.broker.subjects.access.accounts.users
        remoting = RemotingClient(rig.network, credentials=access.steering)
        where = [rig.broker.address]
        await access.make(remoting, where)
        assert set(users) == {"pocketmq", "shop", "billing"}

        header = DeleteUserRequestHeader(username="shop")
        expect(await remoting.call(rig.broker.address, header))
        await ClusterAccess.read(file).kept_in(data).make(remoting, where)  # the next start
        assert set(users) == {"pocketmq", "billing"}

        file.write_text(FILE + 'later = "third"\n')
        await ClusterAccess.read(file).kept_in(data).make(remoting, where)
        assert set(users) == {"pocketmq", "billing", "later"}
        await remoting.close()

    access = ClusterAccess.read(file).kept_in(data)
    async with running_broker(tmp_path / "new", **access.broker_options) as rig:
        remoting = RemotingClient(rig.network, credentials=access.steering)
        await access.make(remoting, [rig.broker.address])
        users = rig.broker.subjects.access.accounts.users
        assert set(users) == {"pocketmq", "shop", "billing", "later"}, "a broker that is new"
        await remoting.close()
