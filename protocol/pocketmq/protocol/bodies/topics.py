"""Topic configuration, its version, and what a broker registers (E-62, E-63)."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from pocketmq.protocol.body import BodyStruct, always
from pocketmq.protocol.scalars import Int32, Int64


class DataVersion(BodyStruct, kw_only=True, omit_defaults=False):
    """Version of a table; equal only when all three fields are (N-10)."""

    SINCE_5: ClassVar[frozenset[str]] = frozenset({"state_version"})

    state_version: Int64 = 0
    timestamp: Int64 = 0
    counter: Int64 = 0

    def next_version(self, now_ms: int, state_version: int = 0) -> DataVersion:
        """The version after one more change at `now_ms`."""
        return DataVersion(state_version=state_version, timestamp=now_ms, counter=self.counter + 1)


class TopicConfig(BodyStruct, kw_only=True, omit_defaults=False):
    """One topic as a broker keeps it."""

    SINCE_5: ClassVar[frozenset[str]] = frozenset({"attributes"})

    topic_name: str
    read_queue_nums: Int32 = 16
    write_queue_nums: Int32 = 16
    perm: Int32 = 6
    topic_filter_type: Literal["SINGLE_TAG", "MULTI_TAG"] = "SINGLE_TAG"
    topic_sys_flag: Int32 = 0
    order: bool = False
    attributes: dict[str, str] = {}


class TopicConfigSerializeWrapper(BodyStruct, kw_only=True):
    """A broker's whole topic table with its version; also the file `topics.json`."""

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    topic_config_table: dict[str, TopicConfig] = {}


class CreateTopicListBody(BodyStruct, kw_only=True):
    """Several topics: UPDATE_AND_CREATE_TOPIC_LIST (18). Attributes have a sign, as `+key`."""

    topic_config_list: list[TopicConfig] = always(list)


class RegisterBrokerBody(BodyStruct, kw_only=True):
    """Body of REGISTER_BROKER (103)."""

    topic_config_serialize_wrapper: TopicConfigSerializeWrapper = msgspec.field(
        default_factory=TopicConfigSerializeWrapper
    )
    filter_server_list: list[str] | None = []
