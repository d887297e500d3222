"""Admin requests about brokers and name servers: who they are, figures, options, permissions."""

from __future__ import annotations

from collections.abc import Mapping

from pocketmq.client.admin.base import AdminBase
from pocketmq.client.admin.settings import change_options, options_of
from pocketmq.operation.control.requests import GetMetricsRequestHeader
from pocketmq.protocol.bodies.controller import EpochEntryCache
from pocketmq.protocol.bodies.replication import HARuntimeInfo
from pocketmq.protocol.bodies.route import ClusterInfo, KVTable
from pocketmq.protocol.bodies.stats import BrokerStatsData, MetricsReport
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import BrokerError
from pocketmq.protocol.headers.controller import GetBrokerEpochCacheRequestHeader
from pocketmq.protocol.headers.replication import GetBrokerHAStatusRequestHeader
from pocketmq.protocol.headers.route import GetNamesrvConfigRequestHeader
from pocketmq.protocol.headers.settings import (
    GetBrokerConfigRequestHeader,
    UpdateBrokerConfigRequestHeader,
    UpdateNamesrvConfigRequestHeader,
    ViewBrokerStatsDataRequestHeader,
)
from pocketmq.protocol.headers.topics import (
    GetBrokerRuntimeInfoRequestHeader,
)


class BrokerAdmin(AdminBase):
    """What is asked of a broker or a name server itself."""

    async def cluster_info(self) -> ClusterInfo:
        """Every broker name with its addresses, and the clusters: GET_BROKER_CLUSTER_INFO (106)."""
        return await self._name_servers.cluster_info()

    async def brokers(self, *, masters_only: bool = True) -> dict[str, dict[int, str]]:
        """Broker name -> broker id -> address, sorted by name."""
        info = await self.cluster_info()
        return {
            name: {
                broker_id: address
                for broker_id, address in sorted(data.broker_addrs.items())
                if broker_id == 0 or not masters_only
            }
            for name, data in sorted(info.broker_addr_table.items())
        }

    async def broker_runtime_info(
        self, broker_name: str, *, address: str | None = None
    ) -> dict[str, str]:
        """A broker's figures, text by text: GET_BROKER_RUNTIME_INFO (28).

        Args:
            broker_name: whose; of its master, without an address.
            address: of the broker.
        """
        address = address or await self._masters.of_broker(broker_name)
        header = GetBrokerRuntimeInfoRequestHeader()
        return (await self._api.call_for_body(address, header, KVTable)).table

    async def broker_stats(self, broker_name: str, name: str, key: str) -> BrokerStatsData | None:
        """One statistic of a broker; None if it has counted nothing: VIEW_BROKER_STATS_DATA (315).

        Args:
            broker_name: whose.
            name: such as `TOPIC_PUT_NUMS` or `GROUP_GET_NUMS`.
            key: such as a topic, or `topic@group`.
        """
        header = ViewBrokerStatsDataRequestHeader(stats_name=name, stats_key=key)
        try:
            return await self._api.call_for_body(
                await self._masters.of_broker(broker_name), header, BrokerStatsData
            )
        except BrokerError as exc:
            if exc.code == ResponseCode.SYSTEM_ERROR:
                return None  # the broker's answer when it has no such counter (O-30)
            raise

    async def broker_metrics(
        self, broker_name: str, *, address: str | None = None
    ) -> MetricsReport:
        """A broker's metrics under RocketMQ's names: GET_METRICS (30008).

        Only PocketMQ's broker answers it; RocketMQ's shows them over HTTP when it is told to.

        Args:
            broker_name: whose; of its master, without an address.
            address: of the broker.
        """
        address = address or await self._masters.of_broker(broker_name)
        return await self._api.call_for_body(address, GetMetricsRequestHeader(), MetricsReport)

    async def ha_status(self, address: str) -> HARuntimeInfo:
        """Slaves of the broker at an address, or its master: GET_BROKER_HA_STATUS (907)."""
        return await self._api.call_for_body(
            address, GetBrokerHAStatusRequestHeader(), HARuntimeInfo
        )

    async def broker_epochs(self, address: str) -> EpochEntryCache:
        """Which master's epoch wrote which part of a replica's log: GET_BROKER_EPOCH_CACHE (1007).

        Raises:
            BrokerError: it is not in controller mode: REQUEST_CODE_NOT_SUPPORTED (3).
        """
        header = GetBrokerEpochCacheRequestHeader()
        return await self._api.call_for_body(address, header, EpochEntryCache)

    async def broker_config(self, broker_name: str) -> dict[str, str]:
        """A broker's options under RocketMQ's names: GET_BROKER_CONFIG (26)."""
        return await options_of(
            self._api, await self._masters.of_broker(broker_name), GetBrokerConfigRequestHeader()
        )

    async def update_broker_config(self, broker_name: str, changes: Mapping[str, str]) -> str:
        """Change a broker's options while it runs: UPDATE_BROKER_CONFIG (25).

        Args:
            broker_name: whose.
            changes: RocketMQ's name of an option -> value.

        Returns:
            What the broker remarks: what it did not take, and what needs a restart; empty when all
            acts now. RocketMQ says nothing: ask `broker_config` what it took.

        Raises:
            BrokerError: nothing was changed: NO_PERMISSION (16) for an option that nobody may
                change from outside.
        """
        return await change_options(
            self._api,
            await self._masters.of_broker(broker_name),
            UpdateBrokerConfigRequestHeader(),
            changes,
        )

    async def nameserver_config(self) -> dict[str, dict[str, str]]:
        """Address of each name server -> its options: GET_NAMESRV_CONFIG (319)."""
        header = GetNamesrvConfigRequestHeader()
        return {
            address: await options_of(self._api, address, header)
            for address in self.config.nameservers
        }

    async def update_nameserver_config(self, changes: Mapping[str, str]) -> dict[str, str]:
        """Change options of every name server: UPDATE_NAMESRV_CONFIG (318).

        Returns:
            Address -> remark, as `update_broker_config`.

        Raises:
            BrokerError: at the first that refuses; those before it are changed.
        """
        header = UpdateNamesrvConfigRequestHeader()
        return {
            address: await change_options(self._api, address, header, changes)
            for address in self.config.nameservers
        }

    async def wipe_write_perm(self, broker_name: str) -> int:
        """Remove a broker's write permission on every name server; how many topics (N-31)."""
        return await self._name_servers.wipe_write_perm(broker_name)

    async def add_write_perm(self, broker_name: str) -> int:
        """Restore a broker's write permission on every name server (N-31)."""
        return await self._name_servers.add_write_perm(broker_name)
