"""Subscription groups (E-65)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.body import BodyStruct, always
from pocketmq.protocol.scalars import Int32, Int64


class ExponentialRetryPolicy(BodyStruct, kw_only=True):
    """Delays of retries that grow, in ms."""

    initial: Int64 | None = None
    max: Int64 | None = None
    multiplier: Int64 | None = None


class CustomizedRetryPolicy(BodyStruct, kw_only=True):
    """Delays of the first, second, ... retry, in ms."""

    next: list[Int64] | None = None


class GroupRetryPolicy(BodyStruct, kw_only=True, omit_defaults=False):
    """How long the retries of a group wait; RocketMQ's proxy reads it, brokers only keep it."""

    type: str = "CUSTOMIZED"
    exponential_retry_policy: ExponentialRetryPolicy | msgspec.UnsetType | None = msgspec.UNSET
    customized_retry_policy: CustomizedRetryPolicy | msgspec.UnsetType | None = msgspec.UNSET


class SimpleSubscriptionData(BodyStruct, kw_only=True):
    """What a group subscribes to, as tools wrote it; kept, not used."""

    topic: str | None = None
    expression_type: str | None = None
    expression: str | None = None
    version: Int64 = 0


class SubscriptionGroupConfig(BodyStruct, kw_only=True, omit_defaults=False):
    """One consumer group as a broker keeps it (B-40)."""

    SINCE_5: ClassVar[frozenset[str]] = frozenset({
        "attributes", "consume_message_orderly", "consume_timeout_minute", "group_retry_policy",
        "group_sys_flag", "subscription_data_set",
    })  # fmt: skip

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: Int32 = 1
    retry_max_times: Int32 = 16
    broker_id: Int64 = 0
    which_broker_when_consume_slowly: Int64 = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: Int32 = 0
    consume_timeout_minute: Int32 = 15
    attributes: dict[str, str] = {}
    group_retry_policy: GroupRetryPolicy | msgspec.UnsetType | None = msgspec.UNSET
    subscription_data_set: list[SimpleSubscriptionData] | msgspec.UnsetType | None = msgspec.UNSET
    """Both came with 5.x and are kept as they came: a group without them is written without."""


class SubscriptionGroupList(BodyStruct, kw_only=True):
    """Several groups: UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST (225)."""

    group_config_list: list[SubscriptionGroupConfig] = always(list)


class SubscriptionGroupWrapper(BodyStruct, kw_only=True, omit_defaults=False):
    """All groups of a broker with their version; also the file `subscriptionGroup.json`."""

    SINCE_5: ClassVar[frozenset[str]] = frozenset({"forbidden_table"})

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    subscription_group_table: dict[str, SubscriptionGroupConfig] = {}
    forbidden_table: dict[str, dict[str, int]] = {}
