"""Members of a consumer group and what they do, as brokers know it (E-29)."""

from __future__ import annotations

from pocketmq.client.admin.masters import Masters
from pocketmq.client.api import ClientApi
from pocketmq.protocol.bodies.clients import (
    ConsumeMessageDirectlyResult,
    ConsumerConnection,
    ConsumerRunningInfo,
)
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import BrokerError, ClientError
from pocketmq.protocol.headers.clients import (
    ConsumeMessageDirectlyRequestHeader,
    GetConsumerConnectionListRequestHeader,
    GetConsumerRunningInfoRequestHeader,
)
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.runtime.addresses import address_text

DIRECT_TIMEOUT_S = 15.0
"""A broker gives a listener 10 s."""


class Members:
    """Asks brokers about a group's consumers; a broker knows those that talk to it.

    Args:
        api: Sends the requests.
        masters: The brokers to ask.
    """

    def __init__(self, api: ClientApi, masters: Masters) -> None:
        self._api = api
        self._masters = masters

    async def client_ids(self, group: str, broker_name: str) -> list[str]:
        """Client ids that one broker knows, sorted; empty when it knows none.

        Asks by GET_CONSUMER_LIST_BY_GROUP (38).
        """
        address = await self._masters.of_broker(broker_name)
        try:
            return sorted(await self._api.consumer_ids(address, group))
        except BrokerError as exc:
            if exc.code == ResponseCode.SYSTEM_ERROR:
                return []  # the broker's answer for a group without members (B-28)
            raise

    async def connections(self, group: str) -> dict[str, ConsumerConnection]:
        """Broker name -> who consumes, and what; brokers that know nobody are left out.

        Asks by GET_CONSUMER_CONNECTION_LIST (203).
        """
        header = GetConsumerConnectionListRequestHeader(consumer_group=group)
        found: dict[str, ConsumerConnection] = {}
        for name, address in (await self._masters.all()).items():
            try:
                found[name] = await self._api.call_for_body(address, header, ConsumerConnection)
            except BrokerError as exc:
                if exc.code != ResponseCode.CONSUMER_NOT_ONLINE:
                    raise
        return found

    async def consume_directly(
        self, group: str, client_id: str, offset_msg_id: str, topic: str | None
    ) -> ConsumeMessageDirectlyResult:
        """Have one member's listener called with one message, through the broker that stores it.

        Asks by CONSUME_MESSAGE_DIRECTLY (309).
        """
        ip, port, _ = parse_offset_msg_id(offset_msg_id)
        header = ConsumeMessageDirectlyRequestHeader(
            consumer_group=group, client_id=client_id, msg_id=offset_msg_id, topic=topic
        )
        return await self._api.call_for_body(
            address_text(ip, port), header, ConsumeMessageDirectlyResult, timeout_s=DIRECT_TIMEOUT_S
        )

    async def running_info(self, group: str, client_id: str) -> ConsumerRunningInfo:
        """What one member is doing, from the first broker that reaches it.

        Asks by GET_CONSUMER_RUNNING_INFO (307).

        Raises:
            BrokerError: no broker reaches the client; this is the last one's error.
        """
        header = GetConsumerRunningInfoRequestHeader(consumer_group=group, client_id=client_id)
        failure: BrokerError | None = None
        for address in (await self._masters.all()).values():
            try:
                return await self._api.call_for_body(address, header, ConsumerRunningInfo)
            except BrokerError as exc:
                failure = exc
        raise failure or ClientError(f"no broker knows client {client_id} of group {group}")
