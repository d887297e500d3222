"""What the broker adds to every message that it stores: its host, a unique key, properties."""

from __future__ import annotations

from collections.abc import Callable

from pocketmq.broker.address import BrokerAddress
from pocketmq.protocol.messages.properties import (
    CLUSTER,
    MSG_REGION,
    POP_CK,
    TRACE_SWITCH,
    UNIQ_KEY,
    encode_again,
)

REGION = "DefaultRegion"
"""MSG_REGION of every answer and, by profile, message."""
TRACE_ON = "true"
"""TRACE_ON of every answer and, by profile, message."""


def traced(*, region_is_stored: bool) -> dict[str, str]:
    """What the broker adds to a sent message or reply before anything else (B-18, R-11).

    Args:
        region_is_stored: by profile.
    """
    return {MSG_REGION: REGION, TRACE_SWITCH: TRACE_ON} if region_is_stored else {}


class BrokerStamp:
    """The broker's part of a message (B-18).

    Args:
        address: that clients reach this broker at.
        cluster_name: goes into CLUSTER.
        new_key: UNIQ_KEYs for messages that bring none.
        region_is_stored: the region and that it traces belong to it too, by profile.
    """

    def __init__(
        self,
        address: BrokerAddress,
        cluster_name: str,
        new_key: Callable[[], str],
        *,
        region_is_stored: bool,
    ) -> None:
        self.address = address
        self.properties = traced(region_is_stored=region_is_stored) | {CLUSTER: cluster_name}
        self.suffix = encode_again(self.properties)
        """The properties, as the text that the own ones of a batch's message are followed by."""
        self.new_key = new_key

    def add_to(self, properties: dict[str, str]) -> None:
        """Give a message's properties those of the broker (B-18)."""
        self.give_key(properties)
        properties.update(self.properties)  # CLUSTER has the place of UNIQ_KEY in Java's map

    def give_key(self, properties: dict[str, str]) -> None:
        """Give a message a unique key if it has none, and take what must not be stored."""
        # A pop's receipt belongs to one delivery and must not be stored with the message (B-18).
        properties.pop(POP_CK, None)
        # An empty key counts as none: clients find a message by its key.
        properties[UNIQ_KEY] = properties.get(UNIQ_KEY) or self.new_key()
