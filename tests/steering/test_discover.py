"""Who belongs to a cluster: brokers are asked for controllers, but for those that are known."""

from __future__ import annotations

import pytest

from pocketmq.cluster import control
from pocketmq.protocol.bodies.route import BrokerData, ClusterInfo
from pocketmq.protocol.transport.memory import MemoryNetwork
from pocketmq.protocol.transport.remoting import RemotingClient


@pytest.mark.parametrize(
    ("known", "asked"), [((), ["a", "b"]), (("127.0.0.1:1", "127.0.0.1:2"), [])]
)
async def test_a_broker_that_is_known_is_not_asked_for_controllers(
    known: tuple[str, ...], asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A supervisor's frozen broker was waited for, 3 s in each move of the clocks.
    seen: list[str] = []

    async def info(_nameserver: str, _remoting: RemotingClient) -> ClusterInfo:
        return ClusterInfo(
            broker_addr_table={
                name: BrokerData(
                    cluster="c", broker_name=name, broker_addrs={0: f"127.0.0.1:{port}"}
                )
                for port, name in ((1, "a"), (2, "b"))
            }
        )

    async def no_clients(_nameserver: str, _remoting: RemotingClient) -> dict[str, str]:
        return {}

    async def status(process: control.ControlledProcess) -> dict[str, str]:
        seen.append(process.name)
        return {}

    monkeypatch.setattr(control, "cluster_info", info)
    monkeypatch.setattr(control, "_clients", no_clients)
    monkeypatch.setattr(control.ControlledProcess, "status", status)
    remoting = RemotingClient(MemoryNetwork())
    found = await control.discover(["127.0.0.1:9876"], remoting, known=known)
    assert seen == asked
    assert [each.name for each in found] == ["nameserver-1", "a", "b"]
    await remoting.close()
