"""What a broker says when it registers, and what it is answered (N-11 to N-17). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from pocketmq.protocol.bodies.topics import DataVersion, TopicConfig
from pocketmq.protocol.dispatch import Peer


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """All that one REGISTER_BROKER says."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    channel: Peer
    topics: Mapping[str, TopicConfig]
    data_version: DataVersion
    ha_address: str = ""
    filter_servers: Sequence[str] | None = None
    """None keeps the known ones, empty removes them."""

    timeout_s: float | None = None
    enable_acting_master: bool | None = None
    """None means a broker older than 5.0; only the master registers topics of its group (N-15)."""

    zone_name: str | None = None


class Outcome(Enum):
    """What became of a registration."""

    ACCEPTED = "accepted"
    IGNORED = "ignored"
    """The id is held by an address with a newer stateVersion (N-13)."""

    REFUSED = "refused"
    """A single topic from a broker id that is not known (N-14)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """The answer to a registration."""

    outcome: Outcome = Outcome.ACCEPTED
    is_new: bool = False
    """Whether this broker process had no live record before."""

    topics_applied: int = 0
    master_address: str | None = None
    """For slaves whose master is alive (N-17)."""

    master_ha_address: str | None = None
