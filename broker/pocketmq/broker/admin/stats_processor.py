"""VIEW_BROKER_STATS_DATA (315): one statistic per minute, hour and day (O-30 to O-32)."""

from __future__ import annotations

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.stats.broker_stats import BrokerStats
from pocketmq.broker.stats.traffic import Traffic
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.headers.settings import ViewBrokerStatsDataRequestHeader


class StatsProcessor:
    """Shows what `BrokerStats` counts.

    Args:
        stats: the counters.
        cluster_name: the key of what the whole broker does.
    """

    def __init__(self, stats: BrokerStats, cluster_name: str) -> None:
        self._stats = stats
        self._cluster_name = cluster_name

    @handles(RequestCode.VIEW_BROKER_STATS_DATA)
    def stats_data(self, _peer: Peer, request: Command) -> Reply:
        """One item; it exists once something was counted for its key."""
        header = request.header(ViewBrokerStatsDataRequestHeader)
        name, key = header.stats_name, header.stats_key
        traffic = self._traffic(name, key)
        if traffic is None or not traffic.times:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist"
            )
        data = traffic.data(of_bytes=name.endswith("_SIZE"))
        return request.reply(body=encode_body(data, request.encoding))

    def _traffic(self, name: str, key: str) -> Traffic | None:
        stats = self._stats
        if name in ("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE"):
            return stats.topics.get(key)
        if name in ("GROUP_GET_NUMS", "GROUP_GET_SIZE"):
            topic, _, group = key.partition("@")
            return stats.groups.get((topic, group))
        # One counter holds both messages and bytes.
        if name in ("QUEUE_PUT_SIZE", "QUEUE_GET_SIZE"):
            return stats.named.get((name.replace("_SIZE", "_NUMS"), key))
        if (name, key) in stats.named:
            return stats.named[name, key]
        if key != self._cluster_name:
            return None
        if (name, "") in stats.named:
            return stats.named[name, ""]
        return {
            "BROKER_PUT_NUMS": stats.put,
            "BROKER_GET_NUMS": stats.got,
            "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC": stats.put_by_people,
            "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC": stats.got_by_people,
        }.get(name)
