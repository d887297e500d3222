"""What the broker adds to every message that it stores: its host, a unique key, properties."""

from __future__ import annotations

from collections.abc import Callable

from pocketmq.broker.address import BrokerAddress
from pocketmq.protocol.properties import (
    CLUSTER,
    MSG_REGION,
    POP_CK,
    TRACE_SWITCH,
    UNIQ_KEY,
    encode_again,
)

REGION = "DefaultRegion"
"""MSG_REGION of every message and answer."""
TRACE_ON = "true"
"""TRACE_ON of every message and answer."""


class BrokerStamp:
    """The broker's part of a message (B-18).

    Args:
        address: that clients reach this broker at.
        cluster_name: goes into CLUSTER.
        new_key: UNIQ_KEYs for messages that bring none.
    """

    def __init__(
        self, address: BrokerAddress, cluster_name: str, new_key: Callable[[], str]
    ) -> None:
        self.address = address
        self.properties = {MSG_REGION: REGION, TRACE_SWITCH: TRACE_ON, CLUSTER: cluster_name}
        self.suffix = encode_again(self.properties)
        """The properties, as the text that the own ones of a batch's message are followed by."""
        self.new_key = new_key

    def add_to(self, properties: dict[str, str]) -> None:
        """Give a message's properties those of the broker (B-18)."""
        properties.pop(POP_CK, None)
        properties[UNIQ_KEY] = properties.get(UNIQ_KEY) or self.new_key()
        properties.update(self.properties)  # CLUSTER has the place of UNIQ_KEY in Java's map

    def complete(self, properties: dict[str, str]) -> bytes:
        """A message's properties as they are stored; changes `properties` (B-18)."""
        self.add_to(properties)
        return encode_again(properties).encode()
