"""A nameserver that knows as much as its budget allows, for measuring its longest turn."""

from __future__ import annotations

from pocketmq.nameserver.registration import Registration
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.codes import RequestCode
from support.broker_rig import FakePeer
from support.nameserver_rig import NameServerRig, topic_configs

KNOWN = {
    "topic": "topic-1",
    "broker_name": "broker-1",
    "broker_addr": "10.0.0.1:10911",
    "cluster_name": "cluster",
    "cluster": "cluster",
    "namespace": "ns",
    "key": "1",
}
LAST = (
    RequestCode.WIPE_WRITE_PERM_OF_BROKER,
    RequestCode.DELETE_TOPIC_IN_NAMESRV,
    RequestCode.UNREGISTER_BROKER,
)
"""They take away what the others need."""


def fill(rig: NameServerRig) -> None:
    """As many records as the budget allows; all routes on one broker, and one topic on each."""
    server, budget = rig.server, rig.server.dispatcher.budget()
    for nth in range(budget.brokers):
        first = nth * budget.topics_per_registration if nth else 0
        count = budget.topics_per_registration
        names = [f"topic-{first + n}" for n in range(count if first < budget.routes - 5000 else 0)]
        server.table.register(
            Registration(
                cluster="cluster", broker_name="broker-1" if names else f"broker-{nth}",
                broker_id=0, address=f"10.0.0.1:{10911 if names else 20000 + nth}",
                channel=FakePeer(), data_version=DataVersion(timestamp=1, counter=nth),
                topics=topic_configs(names or ["topic-1", "topic-2"]),
            ),
            0.0,
        )  # fmt: skip
    key = 0
    while server.kv.size_bytes < budget.kv_bytes - 200:
        server.kv.put("ns", str(key), "v" * 50)
        server.kv.put("ORDER_TOPIC_CONFIG", f"topic-{key}", "broker-1:4")
        key += 1


def codes_of(rig: NameServerRig) -> list[int]:
    """All that it answers, in the order to ask in."""
    return sorted(rig.server.dispatcher.codes, key=lambda code: (code in LAST, code))
