"""The messages and RPCs of `apache.rocketmq.v2` as tables (G-3).

A message is a line of fields: `name number:type`, where a type is a scalar, an enum or another
message. `[]` behind it says repeated, `?` that an absent value can be told from a zero, and
`name(...)` that at most one of the fields in the parentheses is set.
"""

from __future__ import annotations

from typing import Final, NamedTuple

PACKAGE: Final = "apache.rocketmq.v2"

MESSAGES: Final = {
    # -- what several requests share
    "Resource": "resource_namespace 1:string name 2:string",
    "Address": "host 1:string port 2:int32",
    "Endpoints": "scheme 1:AddressScheme addresses 2:Address[]",
    "Broker": "name 1:string id 2:int32 endpoints 3:Endpoints",
    "MessageQueue": (
        "topic 1:Resource id 2:int32 permission 3:Permission broker 4:Broker"
        " accept_message_types 5:MessageType[]"
    ),
    "FilterExpression": "type 1:FilterType expression 2:string",
    "SubscriptionEntry": "topic 1:Resource expression 2:FilterExpression",
    "ExponentialBackoff": "initial 1:Duration max 2:Duration multiplier 3:float",
    "CustomizedBackoff": "next 1:Duration[]",
    "RetryPolicy": (
        "max_attempts 1:int32 strategy(exponential_backoff 2:ExponentialBackoff"
        " customized_backoff 3:CustomizedBackoff)"
    ),
    "Digest": "type 1:DigestType checksum 2:string",
    "DeadLetterQueue": "topic 1:string message_id 2:string",
    "SystemProperties": (
        "tag 1:string? keys 2:string[] message_id 3:string body_digest 4:Digest"
        " body_encoding 5:Encoding message_type 6:MessageType born_timestamp 7:Timestamp"
        " born_host 8:string store_timestamp 9:Timestamp? store_host 10:string"
        " delivery_timestamp 11:Timestamp? receipt_handle 12:string? queue_id 13:int32"
        " queue_offset 14:int64? invisible_duration 15:Duration? delivery_attempt 16:int32?"
        " message_group 17:string? trace_context 18:string?"
        " orphaned_transaction_recovery_duration 19:Duration?"
        " dead_letter_queue 20:DeadLetterQueue? lite_topic 21:string? priority 22:int32?"
    ),
    "Message": (
        "topic 1:Resource user_properties 2:map<string,string>"
        " system_properties 3:SystemProperties body 4:bytes"
    ),
    "Assignment": "message_queue 1:MessageQueue",
    "Status": "code 1:Code message 2:string",
    "UA": "language 1:Language version 2:string platform 3:string hostname 4:string",
    # -- settings
    "Publishing": "topics 1:Resource[] max_body_size 2:int32 validate_message_type 3:bool",
    "Subscription": (
        "group 1:Resource? subscriptions 2:SubscriptionEntry[] fifo 3:bool?"
        " receive_batch_size 4:int32? long_polling_timeout 5:Duration?"
        " lite_subscription_quota 6:int32? max_lite_topic_size 7:int32?"
    ),
    "Metric": "on 1:bool endpoints 2:Endpoints?",
    "Settings": (
        "client_type 1:ClientType? access_point 2:Endpoints? backoff_policy 3:RetryPolicy?"
        " request_timeout 4:Duration? pub_sub(publishing 5:Publishing subscription 6:Subscription)"
        " user_agent 7:UA metric 8:Metric client_properties 9:map<string,string>"
    ),
    "OffsetOption": (
        "offset_type(policy 1:OffsetOption.Policy offset 2:int64 tail_n 3:int64 timestamp 4:int64)"
    ),
    # -- requests and their answers
    "QueryRouteRequest": "topic 1:Resource endpoints 2:Endpoints",
    "QueryRouteResponse": "status 1:Status message_queues 2:MessageQueue[]",
    "QueryAssignmentRequest": "topic 1:Resource group 2:Resource endpoints 3:Endpoints",
    "QueryAssignmentResponse": "status 1:Status assignments 2:Assignment[]",
    "HeartbeatRequest": "group 1:Resource? client_type 2:ClientType",
    "HeartbeatResponse": "status 1:Status",
    "SendMessageRequest": "messages 1:Message[]",
    "SendResultEntry": (
        "status 1:Status message_id 2:string transaction_id 3:string offset 4:int64"
        " recall_handle 5:string"
    ),
    "SendMessageResponse": "status 1:Status entries 2:SendResultEntry[]",
    "ReceiveMessageRequest": (
        "group 1:Resource message_queue 2:MessageQueue filter_expression 3:FilterExpression"
        " batch_size 4:int32 invisible_duration 5:Duration? auto_renew 6:bool"
        " long_polling_timeout 7:Duration? attempt_id 8:string?"
    ),
    "ReceiveMessageResponse": (
        "content(status 1:Status message 2:Message delivery_timestamp 3:Timestamp)"
    ),
    "AckMessageEntry": "message_id 1:string receipt_handle 2:string lite_topic 3:string?",
    "AckMessageRequest": "group 1:Resource topic 2:Resource entries 3:AckMessageEntry[]",
    "AckMessageResultEntry": "message_id 1:string receipt_handle 2:string status 3:Status",
    "AckMessageResponse": "status 1:Status entries 2:AckMessageResultEntry[]",
    "ChangeInvisibleDurationRequest": (
        "group 1:Resource topic 2:Resource receipt_handle 3:string invisible_duration 4:Duration"
        " message_id 5:string lite_topic 6:string? suspend 7:bool?"
    ),
    "ChangeInvisibleDurationResponse": "status 1:Status receipt_handle 2:string",
    "ForwardMessageToDeadLetterQueueRequest": (
        "group 1:Resource topic 2:Resource receipt_handle 3:string message_id 4:string"
        " delivery_attempt 5:int32 max_delivery_attempts 6:int32 lite_topic 7:string?"
    ),
    "ForwardMessageToDeadLetterQueueResponse": "status 1:Status",
    "EndTransactionRequest": (
        "topic 1:Resource message_id 2:string transaction_id 3:string"
        " resolution 4:TransactionResolution source 5:TransactionSource trace_context 6:string"
    ),
    "EndTransactionResponse": "status 1:Status",
    "RecallMessageRequest": "topic 1:Resource recall_handle 2:string",
    "RecallMessageResponse": "status 1:Status message_id 2:string",
    "NotifyClientTerminationRequest": "group 1:Resource?",
    "NotifyClientTerminationResponse": "status 1:Status",
    "SyncLiteSubscriptionRequest": (
        "action 1:LiteSubscriptionAction topic 2:Resource group 3:Resource"
        " lite_topic_set 4:string[] version 5:int64? offset_option 6:OffsetOption?"
    ),
    "SyncLiteSubscriptionResponse": "status 1:Status",
    "PullMessageRequest": (
        "group 1:Resource message_queue 2:MessageQueue offset 3:int64 batch_size 4:int32"
        " filter_expression 5:FilterExpression long_polling_timeout 6:Duration"
    ),
    "PullMessageResponse": "content(status 1:Status message 2:Message next_offset 3:int64)",
    "UpdateOffsetRequest": "group 1:Resource message_queue 2:MessageQueue offset 3:int64",
    "UpdateOffsetResponse": "status 1:Status",
    "GetOffsetRequest": "group 1:Resource message_queue 2:MessageQueue",
    "GetOffsetResponse": "status 1:Status offset 2:int64",
    "QueryOffsetRequest": (
        "message_queue 1:MessageQueue query_offset_policy 2:QueryOffsetPolicy"
        " timestamp 3:Timestamp?"
    ),
    "QueryOffsetResponse": "status 1:Status offset 2:int64",
    # -- the stream Telemetry
    "ThreadStackTrace": "nonce 1:string thread_stack_trace 2:string?",
    "VerifyMessageResult": "nonce 1:string",
    "RecoverOrphanedTransactionCommand": "message 1:Message transaction_id 2:string",
    "PrintThreadStackTraceCommand": "nonce 1:string",
    "VerifyMessageCommand": "nonce 1:string message 2:Message",
    "ReconnectEndpointsCommand": "nonce 1:string",
    "NotifyUnsubscribeLiteCommand": "lite_topic 1:string",
    "TelemetryCommand": (
        "status 1:Status? command(settings 2:Settings thread_stack_trace 3:ThreadStackTrace"
        " verify_message_result 4:VerifyMessageResult"
        " recover_orphaned_transaction_command 5:RecoverOrphanedTransactionCommand"
        " print_thread_stack_trace_command 6:PrintThreadStackTraceCommand"
        " verify_message_command 7:VerifyMessageCommand"
        " reconnect_endpoints_command 8:ReconnectEndpointsCommand"
        " notify_unsubscribe_lite_command 9:NotifyUnsubscribeLiteCommand)"
    ),
}  # fmt: skip

SERVICE: Final = "MessagingService"

UNARY: Final = (
    "QueryRoute",
    "Heartbeat",
    "SendMessage",
    "QueryAssignment",
    "AckMessage",
    "ForwardMessageToDeadLetterQueue",
    "UpdateOffset",
    "GetOffset",
    "QueryOffset",
    "EndTransaction",
    "NotifyClientTermination",
    "ChangeInvisibleDuration",
    "RecallMessage",
    "SyncLiteSubscription",
)
"""RPCs with one request and one answer, which are called `<Rpc>Request` and `<Rpc>Response`."""

ANSWERED_BY_STREAM: Final = ("ReceiveMessage", "PullMessage")
"""RPCs with one request and a stream of answers, called likewise."""

STREAM: Final = "Telemetry"
"""Streams of `TelemetryCommand` both ways."""


class ToolRpc(NamedTuple):
    """An RPC of a service for tools."""

    name: str
    request: str
    answer: str
    streams_in: bool
    streams_out: bool


HEALTH: Final = "grpc.health.v1"
REFLECTION: Final = ("grpc.reflection.v1", "grpc.reflection.v1alpha")
"""Both are the same but for their names; older tools know the second only."""

_REFLECTION: Final = (
    {
        "ExtensionRequest": "containing_type 1:string extension_number 2:int32",
        "ServerReflectionRequest": (
            "host 1:string message_request(file_by_filename 3:string"
            " file_containing_symbol 4:string file_containing_extension 5:ExtensionRequest"
            " all_extension_numbers_of_type 6:string list_services 7:string)"
        ),
        "FileDescriptorResponse": "file_descriptor_proto 1:bytes[]",
        "ExtensionNumberResponse": "base_type_name 1:string extension_number 2:int32[]",
        "ServiceResponse": "name 1:string",
        "ListServiceResponse": "service 1:ServiceResponse[]",
        "ErrorResponse": "error_code 1:int32 error_message 2:string",
        "ServerReflectionResponse": (
            "valid_host 1:string original_request 2:ServerReflectionRequest"
            " message_response(file_descriptor_response 4:FileDescriptorResponse"
            " all_extension_numbers_response 5:ExtensionNumberResponse"
            " list_services_response 6:ListServiceResponse error_response 7:ErrorResponse)"
        ),
    },
    "ServerReflection",
    (
        ToolRpc(
            "ServerReflectionInfo",
            "ServerReflectionRequest",
            "ServerReflectionResponse",
            True,
            True,
        ),
    ),
)

TOOL_PACKAGES: Final[dict[str, tuple[dict[str, str], str, tuple[ToolRpc, ...]]]] = {
    HEALTH: (
        {
            "HealthCheckRequest": "service 1:string",
            "HealthCheckResponse": "status 1:HealthCheckResponse.ServingStatus",
        },
        "Health",
        (
            ToolRpc("Check", "HealthCheckRequest", "HealthCheckResponse", False, False),
            ToolRpc("Watch", "HealthCheckRequest", "HealthCheckResponse", False, True),
        ),
    ),
    **dict.fromkeys(REFLECTION, _REFLECTION),
}
"""Package -> its messages, its service and the service's RPCs: what gRPC's tools ask (G-2)."""
