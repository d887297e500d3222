"""Which of RocketMQ's classes each of our declared headers and bodies stands for.

`tests/interop/record_declared.py` has Java fill and write them all into `tests/golden/declared`;
`tests/protocol/test_golden_declared.py` holds ours against that.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pocketmq.protocol.header import Header
from support.declared import BODIES, HEADERS

PACKAGE = "org.apache.rocketmq.remoting.protocol"

_PLAIN = f"{PACKAGE}.header"
_NAMESRV = f"{PACKAGE}.header.namesrv"
_BODY = f"{PACKAGE}.body"
_ROUTE = f"{PACKAGE}.route"
_CONTROLLER = f"{PACKAGE}.header.controller"
_HEARTBEAT = f"{PACKAGE}.heartbeat"

OWN = {
    "GetClockRequestHeader", "ClockResponseHeader", "MoveClockRequestHeader",
    "RoleStatusRequestHeader", "SetFaultsRequestHeader", "GetFaultsRequestHeader",
    "RaftMessageRequestHeader", "GetEventsRequestHeader", "GetEventsResponseHeader",
    "GetMetricsRequestHeader", "GetProxiesRequestHeader", "RegisterProxyRequestHeader",
    "GetMemberChallengeRequestHeader", "MemberChallengeResponseHeader",
    "ProveMemberRequestHeader", "ProveMemberResponseHeader",
}  # fmt: skip
"""PocketMQ's control requests."""

WITHOUT_HEADER = {
    "BatchAckMessageRequestHeader", "GetAllMessageRequestModeRequestHeader",
    "QueryAssignmentRequestHeader", "SetMessageRequestModeRequestHeader",
    "GetTimerCheckPointRequestHeader", "GetTimerMetricsRequestHeader",
    "CheckClientConfigRequestHeader", "GetAllConsumerOffsetRequestHeader",
    "GetAllDelayOffsetRequestHeader", "GetAllSubscriptionGroupsRequestHeader",
    "GetAllTopicConfigRequestHeader", "GetAllTopicListRequestHeader",
    "GetBrokerAclInfoRequestHeader",
    "GetBrokerConfigRequestHeader", "GetBrokerRuntimeInfoRequestHeader",
    "DeleteExpiredCommitLogRequestHeader", "UpdateSubscriptionGroupListRequestHeader",
    "GetBrokerHAStatusRequestHeader", "CleanExpiredConsumeQueueRequestHeader",
    "CleanUnusedTopicRequestHeader", "PopRollbackRequestHeader",
    "GetBrokerEpochCacheRequestHeader", "GetControllerConfigRequestHeader",
    "GetControllerMetaDataRequestHeader", "GetSyncStateDataRequestHeader",
    "UpdateControllerConfigRequestHeader",
    "GetClusterInfoRequestHeader", "GetNamesrvConfigRequestHeader",
    "GetSystemTopicListRequestHeader", "GetSystemTopicsFromBrokerRequestHeader",
    "GetUnitSubTopicListRequestHeader", "GetUnitSubUnunitTopicListRequestHeader",
    "GetUnitTopicListRequestHeader", "UpdateBrokerConfigRequestHeader",
    "UpdateNamesrvConfigRequestHeader", "UpdateSubscriptionGroupRequestHeader",
}  # fmt: skip
"""Requests that RocketMQ sends with a null header: ours must declare no field."""

GONE = {
    "CreateAccessConfigRequestHeader", "DeleteAccessConfigRequestHeader",
    "GetBrokerAclConfigResponseHeader", "UpdateGlobalWhiteAddrsConfigRequestHeader",
}  # fmt: skip
"""Of ACL 1.0, which 5.3.3 has no more: `mqadmin` 4.9.8 asks ours (`test_java_accounts.py`)."""

MAPS = {"HeartbeatResponseHeader"}
"""Fields that RocketMQ puts into a reply one by one, without a class."""

HEADER_CLASSES = {
    "ConsumeMessageDirectlyRequestHeader": f"{_PLAIN}.ConsumeMessageDirectlyResultRequestHeader",
    "ResetMasterFlushOffsetRequestHeader": f"{_PLAIN}.ResetMasterFlushOffsetHeader",
    "ExchangeHaInfoRequestHeader": f"{_PLAIN}.ExchangeHAInfoRequestHeader",
    "ExchangeHaInfoResponseHeader": f"{_PLAIN}.ExchangeHAInfoResponseHeader",
    "AlterSyncStateSetRequestHeader": f"{_CONTROLLER}.AlterSyncStateSetRequestHeader",
    "AlterSyncStateSetResponseHeader": f"{_CONTROLLER}.AlterSyncStateSetResponseHeader",
    "ApplyBrokerIdRequestHeader": f"{_CONTROLLER}.register.ApplyBrokerIdRequestHeader",
    "ApplyBrokerIdResponseHeader": f"{_CONTROLLER}.register.ApplyBrokerIdResponseHeader",
    "CleanControllerBrokerDataRequestHeader": (
        f"{_CONTROLLER}.admin.CleanControllerBrokerDataRequestHeader"
    ),
    "ElectMasterRequestHeader": f"{_CONTROLLER}.ElectMasterRequestHeader",
    "ElectMasterResponseHeader": f"{_CONTROLLER}.ElectMasterResponseHeader",
    "GetMetaDataResponseHeader": f"{_CONTROLLER}.GetMetaDataResponseHeader",
    "GetNextBrokerIdRequestHeader": f"{_CONTROLLER}.register.GetNextBrokerIdRequestHeader",
    "GetNextBrokerIdResponseHeader": f"{_CONTROLLER}.register.GetNextBrokerIdResponseHeader",
    "GetReplicaInfoRequestHeader": f"{_CONTROLLER}.GetReplicaInfoRequestHeader",
    "GetReplicaInfoResponseHeader": f"{_CONTROLLER}.GetReplicaInfoResponseHeader",
    "RegisterBrokerToControllerRequestHeader": (
        f"{_CONTROLLER}.register.RegisterBrokerToControllerRequestHeader"
    ),
    "RegisterBrokerToControllerResponseHeader": (
        f"{_CONTROLLER}.register.RegisterBrokerToControllerResponseHeader"
    ),
    "AddWritePermRequestHeader": f"{_NAMESRV}.AddWritePermOfBrokerRequestHeader",
    "AddWritePermResponseHeader": f"{_NAMESRV}.AddWritePermOfBrokerResponseHeader",
    "BrokerHeartbeatRequestHeader": f"{_NAMESRV}.BrokerHeartbeatRequestHeader",
    "DeleteKvConfigRequestHeader": f"{_NAMESRV}.DeleteKVConfigRequestHeader",
    "DeleteTopicInNamesrvRequestHeader": f"{_NAMESRV}.DeleteTopicFromNamesrvRequestHeader",
    "EarliestStoreTimeResponseHeader": f"{_PLAIN}.GetEarliestMsgStoretimeResponseHeader",
    "GetConsumerListRequestHeader": f"{_PLAIN}.GetConsumerListByGroupRequestHeader",
    "GetEarliestStoreTimeRequestHeader": f"{_PLAIN}.GetEarliestMsgStoretimeRequestHeader",
    "GetKvConfigRequestHeader": f"{_NAMESRV}.GetKVConfigRequestHeader",
    "GetKvConfigResponseHeader": f"{_NAMESRV}.GetKVConfigResponseHeader",
    "GetKvListRequestHeader": f"{_NAMESRV}.GetKVListByNamespaceRequestHeader",
    "GetRouteInfoRequestHeader": f"{_NAMESRV}.GetRouteInfoRequestHeader",
    "GetSubscriptionGroupRequestHeader": f"{_PLAIN}.GetSubscriptionGroupConfigRequestHeader",
    "GetTopicStatsRequestHeader": f"{_PLAIN}.GetTopicStatsInfoRequestHeader",
    "LitePullMessageRequestHeader": f"{_PLAIN}.PullMessageRequestHeader",
    "OffsetResponseHeader": f"{_PLAIN}.GetMaxOffsetResponseHeader",
    "PutKvConfigRequestHeader": f"{_NAMESRV}.PutKVConfigRequestHeader",
    "QueryDataVersionRequestHeader": f"{_NAMESRV}.QueryDataVersionRequestHeader",
    "QueryDataVersionResponseHeader": f"{_NAMESRV}.QueryDataVersionResponseHeader",
    "RegisterBrokerRequestHeader": f"{_NAMESRV}.RegisterBrokerRequestHeader",
    "RegisterBrokerResponseHeader": f"{_NAMESRV}.RegisterBrokerResponseHeader",
    "RegisterTopicRequestHeader": f"{_NAMESRV}.RegisterTopicRequestHeader",
    "ResetConsumerClientOffsetRequestHeader": f"{_PLAIN}.ResetOffsetRequestHeader",
    "SendBatchMessageRequestHeader": f"{_PLAIN}.SendMessageRequestHeaderV2",
    "SendReplyMessageRequestHeader": f"{_PLAIN}.SendMessageRequestHeader",
    "SendReplyMessageRequestHeaderV2": f"{_PLAIN}.SendMessageRequestHeaderV2",
    "UnregisterBrokerRequestHeader": f"{_NAMESRV}.UnRegisterBrokerRequestHeader",
    "UpdateAndCreateTopicRequestHeader": f"{_PLAIN}.CreateTopicRequestHeader",
    "WipeWritePermRequestHeader": f"{_NAMESRV}.WipeWritePermOfBrokerRequestHeader",
    "WipeWritePermResponseHeader": f"{_NAMESRV}.WipeWritePermOfBrokerResponseHeader",
}
"""Where the name differs, or the package is not that of most headers."""

BODY_CLASSES = {
    "EpochEntry": f"{PACKAGE}.EpochEntry",
    "ReplicaIdentity": f"{_BODY}.BrokerReplicasInfo$ReplicaIdentity",
    "ReplicasInfo": f"{_BODY}.BrokerReplicasInfo$ReplicasInfo",
    "BatchAckBody": f"{_BODY}.BatchAckMessageRequestBody",
    "MessageRequestModes": f"{_BODY}.MessageRequestModeSerializeWrapper",
    "QueryAssignmentBody": f"{_BODY}.QueryAssignmentRequestBody",
    "QueueAssignment": "org.apache.rocketmq.common.message.MessageQueueAssignment",
    "QueueAssignments": f"{_BODY}.QueryAssignmentResponseBody",
    "RequestModeBody": f"{_BODY}.SetMessageRequestModeRequestBody",
    "BrokerData": f"{_ROUTE}.BrokerData",
    "BrokerMemberGroupBody": f"{_BODY}.GetBrokerMemberGroupResponseBody",
    "ConsumeStats": f"{PACKAGE}.admin.ConsumeStats",
    "ConsumerData": f"{_HEARTBEAT}.ConsumerData",
    "ConsumerList": f"{_PLAIN}.GetConsumerListByGroupResponseBody",
    "ConsumerOffsetTable": f"{_BODY}.ConsumerOffsetSerializeWrapper",
    "DataVersion": f"{PACKAGE}.DataVersion",
    "HeartbeatData": f"{_HEARTBEAT}.HeartbeatData",
    "CreateTopicListBody": f"{_BODY}.CreateTopicListRequestBody",
    "LockBatchBody": f"{_BODY}.LockBatchRequestBody",
    "QueryConsumeQueueBody": f"{_BODY}.QueryConsumeQueueResponseBody",
    "QuerySubscriptionBody": f"{_BODY}.QuerySubscriptionResponseBody",
    "LockedQueues": f"{_BODY}.LockBatchResponseBody",
    "MessageQueue": "org.apache.rocketmq.common.message.MessageQueue",
    "OffsetWrapper": f"{PACKAGE}.admin.OffsetWrapper",
    "ProducerData": f"{_HEARTBEAT}.ProducerData",
    "QueueData": f"{_ROUTE}.QueueData",
    "SubscriptionData": f"{_HEARTBEAT}.SubscriptionData",
    "SubscriptionGroupConfig": f"{PACKAGE}.subscription.SubscriptionGroupConfig",
    "TopicConfig": "org.apache.rocketmq.common.TopicConfig",
    "TopicOffset": f"{PACKAGE}.admin.TopicOffset",
    "TopicRouteData": f"{_ROUTE}.TopicRouteData",
    "TopicStatsTable": f"{PACKAGE}.admin.TopicStatsTable",
}
"""Where the name differs, or the package is not `body`."""

OWN_BODIES = {
    "AccessTable", "FaultOrders", "FaultReport", "MetricDistribution", "MetricNumber",
    "MetricsReport", "ProxyAddress", "ProxyList",
}  # fmt: skip
"""Bodies of PocketMQ's own requests, and parts of them."""

OTHER_BODIES = {
    "DelayOffsetTable",  # only the broker's store knows its class; a golden store holds the file
    "CustomizedRetryPolicy", "ExponentialRetryPolicy", "GroupRetryPolicy",
    "SimpleSubscriptionData",  # parts of `SubscriptionGroupConfig`
    "HAClientRuntimeInfo", "HAConnectionRuntimeInfo",  # parts of `HARuntimeInfo`
    "PolicyInfo", "PolicyEntryInfo",  # parts of `AclInfo`
}  # fmt: skip
"""Compared otherwise."""


def unknown(ours: str, java: str) -> str:
    """What to do when `tests/golden/declared` has no record of a class."""
    return (
        f"RocketMQ wrote no {java} for {ours}. In tests/support/java_classes.py: add a header or "
        "body of PocketMQ's own to OWN or OWN_BODIES; a request that RocketMQ sends without a "
        "header to WITHOUT_HEADER; one whose class is called otherwise to HEADER_CLASSES or "
        "BODY_CLASSES, and then run tests/interop/record_declared.py, which needs Java"
    )


def headers() -> Iterator[tuple[type[Header], str]]:
    """Our header classes with the full names of RocketMQ's."""
    for cls in HEADERS:
        name = cls.__name__
        if name not in OWN | WITHOUT_HEADER | GONE | MAPS:
            yield cls, HEADER_CLASSES.get(name, f"{_PLAIN}.{name}")


def bodies() -> Iterator[tuple[type[msgspec.Struct], str]]:
    """Our body classes with the full names of RocketMQ's."""
    for cls in BODIES:
        if cls.__name__ not in OWN_BODIES | OTHER_BODIES:
            yield cls, BODY_CLASSES.get(cls.__name__, f"{_BODY}.{cls.__name__}")
