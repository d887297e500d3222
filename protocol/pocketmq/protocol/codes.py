"""What the numbers in a frame's `code` and `language` fields mean (E-6, E-11, E-12).

Each member carries one line of `meaning` and the RocketMQ line that first knew it (`since`), so
that remarks, logs and `docs/generated/codes.md` can say more than a number.
A code not listed here is legal on the wire: keep it as an int, and answer it with
`ResponseCode.REQUEST_CODE_NOT_SUPPORTED`.
"""

from enum import IntEnum
from typing import Final, Self


class _Code(IntEnum):
    """An int that knows what it means.

    Members are written `NAME = number, "meaning"[, since[, until]]`.
    """

    meaning: str
    since: str
    until: str
    """The last release that knows it; empty: the newest does."""

    def __new__(cls, value: int, meaning: str = "", since: str = "4.9", until: str = "") -> Self:
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        member.since = since
        member.until = until
        return member


class RequestCode(_Code):
    """Every request of RocketMQ 4.9 and 5.x, and PocketMQ's own control requests (30001 up)."""

    # -- messages: client -> broker
    SEND_MESSAGE = 10, "store one message, header under long names"
    PULL_MESSAGE = 11, "read messages of one queue from an offset on, waiting if there are none"
    QUERY_MESSAGE = 12, "find messages by key and store time"
    QUERY_BROKER_OFFSET = 13, "declared by RocketMQ, answered by nobody"
    QUERY_CONSUMER_OFFSET = 14, "where a group stands in a queue"
    UPDATE_CONSUMER_OFFSET = 15, "a group commits its offset in a queue"
    SEARCH_OFFSET_BY_TIMESTAMP = 29, "the offset stored at or after a moment"
    GET_MAX_OFFSET = 30, "the offset that the queue's next message will get"
    GET_MIN_OFFSET = 31, "the queue's oldest offset still stored"
    GET_EARLIEST_MSG_STORETIME = 32, "when the queue's oldest message was stored"
    VIEW_MESSAGE_BY_ID = 33, "one message by its commit log offset"
    HEART_BEAT = 34, "a client tells its groups and subscriptions, and that it is alive"
    UNREGISTER_CLIENT = 35, "a client leaves a group"
    CONSUMER_SEND_MSG_BACK = 36, "a consumer failed: store the message for a later try"
    GET_CONSUMER_LIST_BY_GROUP = 38, "client ids of a group's members, for rebalancing"
    LOCK_BATCH_MQ = 41, "lock queues for one member (orderly consumption)"
    UNLOCK_BATCH_MQ = 42, "unlock queues"
    CHECK_CLIENT_CONFIG = 46, "is this subscription expression acceptable"
    GET_CLIENT_CONFIG = 47, "declared by RocketMQ, answered by nobody"
    SEND_MESSAGE_V2 = 310, "store one message, header under one-letter names"
    SEND_BATCH_MESSAGE = 320, "store several messages of one topic at once"
    SEND_REPLY_MESSAGE = 324, "pass a reply on to the requesting producer, long names"
    SEND_REPLY_MESSAGE_V2 = 325, "pass a reply on to the requesting producer, one-letter names"
    LITE_PULL_MESSAGE = 361, "PULL_MESSAGE of a lite pull consumer", "5.0"
    RECALL_MESSAGE = 370, "take back a timer message before it is due", "5.3.2"

    # -- transactions
    END_TRANSACTION = 37, "commit or roll back a half message (oneway)"
    CHECK_TRANSACTION_STATE = 39, "broker asks a producer whether to commit (oneway)"
    RESUME_CHECK_HALF_MESSAGE = 323, "check a half message again that was given up"

    # -- broker -> client
    NOTIFY_CONSUMER_IDS_CHANGED = 40, "the group's members changed: rebalance now (oneway)"
    RESET_CONSUMER_CLIENT_OFFSET = 220, "consumer must go on from these offsets (oneway)"
    GET_CONSUMER_STATUS_FROM_CLIENT = 221, "which offsets a consumer holds in memory"
    GET_CONSUMER_RUNNING_INFO = 307, "a consumer's queues, rates and settings"
    CONSUME_MESSAGE_DIRECTLY = 309, "have one message consumed by a named client"
    PUSH_REPLY_MESSAGE_TO_CLIENT = 326, "the reply to a producer's request"

    # -- broker administration
    UPDATE_AND_CREATE_TOPIC = 17, "create or change a topic"
    UPDATE_AND_CREATE_TOPIC_LIST = 18, "create or change several topics", "5.3.0"
    GET_ALL_TOPIC_CONFIG = 21, "all topic configs with their data version"
    GET_TOPIC_CONFIG_LIST = 22, "declared by RocketMQ, answered by nobody"
    GET_TOPIC_NAME_LIST = 23, "declared by RocketMQ, answered by nobody"
    UPDATE_BROKER_CONFIG = 25, "change broker settings"
    GET_BROKER_CONFIG = 26, "broker settings as key=value lines"
    TRIGGER_DELETE_FILES = 27, "declared by RocketMQ, answered by nobody"
    GET_BROKER_RUNTIME_INFO = 28, "a broker's counters and rates"
    GET_ALL_CONSUMER_OFFSET = 43, "all committed offsets"
    GET_ALL_DELAY_OFFSET = 45, "how far each delay level was delivered"
    UPDATE_AND_CREATE_ACL_CONFIG = (
        50,
        "create or change an ACL account (until 5.3.2)",
        "4.9",
        "5.3.2",
    )
    DELETE_ACL_CONFIG = 51, "delete an ACL account (until 5.3.2)", "4.9", "5.3.2"
    GET_BROKER_CLUSTER_ACL_INFO = 52, "version of the ACL files (until 5.3.2)", "4.9", "5.3.2"
    UPDATE_GLOBAL_WHITE_ADDRS_CONFIG = (
        53,
        "addresses that need no ACL account (until 5.3.2)",
        "4.9",
        "5.3.2",
    )
    GET_BROKER_CLUSTER_ACL_CONFIG = 54, "the ACL accounts (not in 4.9.8)"
    GET_TIMER_CHECK_POINT = 60, "how far the timer wheel was written", "5.0"
    GET_TIMER_METRICS = 61, "timer messages per topic", "5.0"
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200, "create or change a subscription group"
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201, "all subscription groups with their data version"
    GET_TOPIC_STATS_INFO = 202, "min and max offset of a topic's queues"
    GET_CONSUMER_CONNECTION_LIST = 203, "who is connected for a consumer group"
    GET_PRODUCER_CONNECTION_LIST = 204, "who is connected for a producer group"
    DELETE_SUBSCRIPTIONGROUP = 207, "delete a subscription group"
    GET_CONSUME_STATS = 208, "a group's progress per queue"
    SUSPEND_CONSUMER = 209, "declared by RocketMQ, answered by nobody"
    RESUME_CONSUMER = 210, "declared by RocketMQ, answered by nobody"
    RESET_CONSUMER_OFFSET_IN_CONSUMER = 211, "declared by RocketMQ, answered by nobody"
    RESET_CONSUMER_OFFSET_IN_BROKER = 212, "declared by RocketMQ, answered by nobody"
    ADJUST_CONSUMER_THREAD_POOL = 213, "declared by RocketMQ, answered by nobody"
    WHO_CONSUME_THE_MESSAGE = 214, "declared by RocketMQ, answered by nobody"
    DELETE_TOPIC_IN_BROKER = 215, "delete a topic and its queues on this broker"
    INVOKE_BROKER_TO_RESET_OFFSET = 222, "move a group to the offsets of a moment"
    INVOKE_BROKER_TO_GET_CONSUMER_STATUS = 223, "offsets in memory, asked of all members"
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST = 225, "create or change several groups", "5.3.1"
    QUERY_TOPIC_CONSUME_BY_WHO = 300, "groups that consume a topic"
    REGISTER_FILTER_SERVER = 301, "declared by RocketMQ, answered by nobody"
    REGISTER_MESSAGE_FILTER_CLASS = 302, "declared by RocketMQ, answered by nobody"
    QUERY_CONSUME_TIME_SPAN = 303, "how far in time a group lags in each queue"
    GET_SYSTEM_TOPIC_LIST_FROM_BROKER = 305, "topics that the broker keeps for itself"
    CLEAN_EXPIRED_CONSUMEQUEUE = 306, "delete consume queues whose messages are gone"
    QUERY_CORRECTION_OFFSET = 308, "offsets of one group corrected by others'"
    CLONE_GROUP_OFFSET = 314, "copy a group's offsets to another group"
    VIEW_BROKER_STATS_DATA = 315, "one statistic per minute, hour and day"
    CLEAN_UNUSED_TOPIC = 316, "forget queues of topics that no longer exist"
    GET_BROKER_CONSUME_STATS = 317, "progress of all groups"
    QUERY_CONSUME_QUEUE = 321, "raw entries of a consume queue"
    GET_ALL_PRODUCER_INFO = 328, "all connected producers"
    DELETE_EXPIRED_COMMITLOG = 329, "delete commit log files past their time"
    QUERY_TOPICS_BY_CONSUMER = 343, "topics that a group consumes", "5.0"
    QUERY_SUBSCRIPTION_BY_CONSUMER = 345, "a group's subscription to a topic", "5.0"
    GET_TOPIC_CONFIG = 351, "one topic's config", "5.0"
    GET_SUBSCRIPTIONGROUP_CONFIG = 352, "one group's config", "5.0"
    UPDATE_AND_GET_GROUP_FORBIDDEN = 353, "forbid or allow a group to read a topic", "5.0"
    CHECK_ROCKSDB_CQ_WRITE_PROGRESS = 354, "compare file and RocksDB consume queues", "5.3.2"
    EXPORT_ROCKSDB_CONFIG_TO_JSON = 355, "write RocksDB configs as JSON files", "5.3.2"
    UPDATE_AND_CREATE_STATIC_TOPIC = 513, "create or change a static topic", "5.0"
    UPDATE_COLD_DATA_FLOW_CTR_CONFIG = 2001, "limit reads of cold data by a group", "5.0"
    REMOVE_COLD_DATA_FLOW_CTR_CONFIG = 2002, "lift a limit on reads of cold data", "5.0"
    GET_COLD_DATA_FLOW_CTR_INFO = 2003, "limits on reads of cold data", "5.0"
    SET_COMMITLOG_READ_MODE = 2004, "read-ahead of the commit log's mapping", "5.0"
    AUTH_CREATE_USER = 3001, "create a user", "5.3"
    AUTH_UPDATE_USER = 3002, "change a user", "5.3"
    AUTH_DELETE_USER = 3003, "delete a user", "5.3"
    AUTH_GET_USER = 3004, "one user", "5.3"
    AUTH_LIST_USER = 3005, "all users", "5.3"
    AUTH_CREATE_ACL = 3006, "grant rights to a subject", "5.3"
    AUTH_UPDATE_ACL = 3007, "change a subject's rights", "5.3"
    AUTH_DELETE_ACL = 3008, "take rights from a subject", "5.3"
    AUTH_GET_ACL = 3009, "one subject's rights", "5.3"
    AUTH_LIST_ACL = 3010, "all subjects' rights", "5.3"

    # -- name server
    PUT_KV_CONFIG = 100, "set a key in a namespace"
    GET_KV_CONFIG = 101, "read a key of a namespace"
    DELETE_KV_CONFIG = 102, "delete a key of a namespace"
    REGISTER_BROKER = 103, "a broker tells its address and topics"
    UNREGISTER_BROKER = 104, "a broker leaves"
    GET_ROUTEINFO_BY_TOPIC = 105, "queues of a topic and the brokers that hold them"
    GET_BROKER_CLUSTER_INFO = 106, "all brokers and clusters"
    WIPE_WRITE_PERM_OF_BROKER = 205, "take a broker's queues out of sending"
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206, "names of all topics"
    DELETE_TOPIC_IN_NAMESRV = 216, "forget a topic's route"
    REGISTER_TOPIC_IN_NAMESRV = 217, "add a topic's route by hand", "5.0"
    GET_KVLIST_BY_NAMESPACE = 219, "all keys of a namespace"
    GET_TOPICS_BY_CLUSTER = 224, "topics of one cluster"
    GET_SYSTEM_TOPIC_LIST_FROM_NS = 304, "cluster and broker names, which are topics too"
    GET_UNIT_TOPIC_LIST = 311, "topics of a unit"
    GET_HAS_UNIT_SUB_TOPIC_LIST = 312, "topics with unit subscriptions"
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = 313, "non-unit topics with unit subscriptions"
    UPDATE_NAMESRV_CONFIG = 318, "change name server settings"
    GET_NAMESRV_CONFIG = 319, "name server settings as key=value lines"
    QUERY_DATA_VERSION = 322, "does the name server know this version of my topics"
    ADD_WRITE_PERM_OF_BROKER = 327, "put a broker's queues back into sending"
    GET_BROKER_MEMBER_GROUP = 901, "addresses behind one broker name", "5.0"
    BROKER_HEARTBEAT = 904, "a broker is alive; nothing else changed", "5.0"
    NOTIFY_MIN_BROKER_ID_CHANGE = 905, "another broker acts as master now (oneway)", "5.0"

    # -- pop consumption
    QUERY_ASSIGNMENT = 400, "the broker rebalances for the client", "5.0"
    SET_MESSAGE_REQUEST_MODE = 401, "pull or pop, per topic and group", "5.0"
    GET_ALL_MESSAGE_REQUEST_MODE = 402, "all request modes", "5.0"
    POP_MESSAGE = 200050, "take messages that stay invisible to others for a while", "5.0"
    ACK_MESSAGE = 200051, "a popped message is consumed", "5.0"
    PEEK_MESSAGE = 200052, "look at messages without taking them", "5.0"
    CHANGE_MESSAGE_INVISIBLETIME = 200053, "keep a popped message invisible longer", "5.0"
    NOTIFICATION = 200054, "wait until there is something to pop", "5.0"
    POLLING_INFO = 200055, "how many clients wait for a queue", "5.0"
    POP_ROLLBACK = 200056, "move unacknowledged pops to a retry topic", "5.0"
    BATCH_ACK_MESSAGE = 200151, "several popped messages are consumed", "5.1"

    # -- broker <-> broker, controller
    ADD_BROKER = 902, "start a broker inside a container", "5.0"
    REMOVE_BROKER = 903, "stop a broker inside a container", "5.0"
    EXCHANGE_BROKER_HA_INFO = 906, "master and slave tell each other HA addresses", "5.0"
    GET_BROKER_HA_STATUS = 907, "replication state of a broker", "5.0"
    RESET_MASTER_FLUSH_OFFSET = 908, "where a slave's copy of the master begins", "5.0"
    CONTROLLER_ALTER_SYNC_STATE_SET = 1001, "which replicas are in sync", "5.0"
    CONTROLLER_ELECT_MASTER = 1002, "choose a master", "5.0"
    CONTROLLER_REGISTER_BROKER = 1003, "a broker joins the controller", "5.0"
    CONTROLLER_GET_REPLICA_INFO = 1004, "master and replicas of a broker name", "5.0"
    CONTROLLER_GET_METADATA_INFO = 1005, "who leads the controllers", "5.0"
    CONTROLLER_GET_SYNC_STATE_DATA = 1006, "in-sync sets of several broker names", "5.0"
    GET_BROKER_EPOCH_CACHE = 1007, "a broker's master epochs", "5.0"
    NOTIFY_BROKER_ROLE_CHANGED = 1008, "controller tells a broker its new role", "5.0"
    UPDATE_CONTROLLER_CONFIG = 1009, "change controller settings", "5.0"
    GET_CONTROLLER_CONFIG = 1010, "controller settings", "5.0"
    CLEAN_BROKER_DATA = 1011, "forget a broker in the controller", "5.0"
    CONTROLLER_GET_NEXT_BROKER_ID = 1012, "a free broker id", "5.1"
    CONTROLLER_APPLY_BROKER_ID = 1013, "claim a broker id", "5.1"
    BROKER_CLOSE_CHANNEL_REQUEST = 1014, "controller-internal: a broker's channel closed", "5.1"
    CHECK_NOT_ACTIVE_BROKER_REQUEST = 1015, "controller-internal: scan for dead brokers", "5.1"
    GET_BROKER_LIVE_INFO_REQUEST = 1016, "controller-internal: which brokers are alive", "5.1"
    GET_SYNC_STATE_DATA_REQUEST = 1017, "controller-internal: in-sync sets", "5.1"
    RAFT_BROKER_HEART_BEAT_EVENT_REQUEST = 1018, "controller-internal: a broker's heartbeat", "5.1"

    # -- PocketMQ's own: a supervisor steers a role over the role's own port
    GET_CLOCK = 30001, "the process's clock and its next deadline", "pocketmq"
    MOVE_CLOCK = 30002, "move the process's manual clock, firing what falls due", "pocketmq"
    ROLE_STATUS = 30003, "is the role ready, and what is it doing", "pocketmq"
    SET_FAULTS = 30004, "take these fault rules in place of those before", "pocketmq"
    GET_FAULTS = 30005, "how often fault rules fired, and at what", "pocketmq"
    RAFT_MESSAGE = 30006, "controllers agree with each other; oneway", "pocketmq"
    GET_EVENTS = 30007, "what happened at the role since an earlier question", "pocketmq"
    GET_METRICS = 30008, "the broker's metrics under RocketMQ's names", "pocketmq"
    REGISTER_PROXY = 30009, "a gRPC proxy tells a name server where it is", "pocketmq"
    GET_PROXIES = 30010, "the gRPC proxies in front of a cluster", "pocketmq"
    GET_MEMBER_CHALLENGE = 30011, "begin to prove that one is a member", "pocketmq"
    PROVE_MEMBER = 30012, "proof that one is a member of the cluster", "pocketmq"


class ResponseCode(_Code):
    """Every response code of RocketMQ; all fit into int16, as Go clients need."""

    SUCCESS = 0, "done"
    SYSTEM_ERROR = 1, "failed; the remark says why"
    SYSTEM_BUSY = 2, "overloaded; try later or elsewhere"
    REQUEST_CODE_NOT_SUPPORTED = 3, "nobody here answers this request code"
    TRANSACTION_FAILED = 4, "transaction failed"
    FLUSH_DISK_TIMEOUT = 10, "stored, but not flushed to disk in time"
    SLAVE_NOT_AVAILABLE = 11, "stored, but no slave is there to copy it"
    FLUSH_SLAVE_TIMEOUT = 12, "stored, but not copied to a slave in time"
    MESSAGE_ILLEGAL = 13, "the message breaks a limit"
    SERVICE_NOT_AVAILABLE = 14, "not taking messages now: slave, full disk or shutting down"
    VERSION_NOT_SUPPORTED = 15, "version not supported"
    NO_PERMISSION = 16, "not allowed"
    TOPIC_NOT_EXIST = 17, "no such topic"
    TOPIC_EXIST_ALREADY = 18, "the topic exists already"
    PULL_NOT_FOUND = 19, "nothing new at this offset"
    PULL_RETRY_IMMEDIATELY = 20, "nothing matched; go on from nextBeginOffset"
    PULL_OFFSET_MOVED = 21, "the offset is outside the queue; go on from nextBeginOffset"
    QUERY_NOT_FOUND = 22, "nothing found"
    SUBSCRIPTION_PARSE_FAILED = 23, "the subscription expression is not understood"
    SUBSCRIPTION_NOT_EXIST = 24, "the group's subscription is not known here"
    SUBSCRIPTION_NOT_LATEST = 25, "the group's subscription known here is older"
    SUBSCRIPTION_GROUP_NOT_EXIST = 26, "no such subscription group"
    FILTER_DATA_NOT_EXIST = 27, "the filter is not compiled here"
    FILTER_DATA_NOT_LATEST = 28, "the filter compiled here is older"
    INVALID_PARAMETER = 29, "a field of the request is wrong", "5.0"
    TRANSACTION_SHOULD_COMMIT = 200, "commit the transaction"
    TRANSACTION_SHOULD_ROLLBACK = 201, "roll the transaction back"
    TRANSACTION_STATE_UNKNOW = 202, "whether the transaction commits is not known"
    TRANSACTION_STATE_GROUP_WRONG = 203, "the transaction belongs to another group"
    NO_BUYER_ID = 204, "no buyer id"
    NOT_IN_CURRENT_UNIT = 205, "not in this unit"
    CONSUMER_NOT_ONLINE = 206, "no member of the group is connected"
    CONSUME_MSG_TIMEOUT = 207, "the consumer did not finish in time"
    NO_MESSAGE = 208, "no such message"
    POLLING_FULL = 209, "too many waiting pops (4.9: ACL update failed)"
    POLLING_TIMEOUT = 210, "nothing to pop in time (4.9: ACL delete failed)"
    BROKER_NOT_EXIST = 211, "no such broker (4.9: ACL white list failed)"
    BROKER_DISPATCH_NOT_COMPLETE = 212, "consume queues are behind the commit log", "5.0"
    BROADCAST_CONSUMPTION = 213, "not for a broadcasting group", "5.0"
    FLOW_CONTROL = 215, "too fast; try later", "5.0"
    NOT_LEADER_FOR_QUEUE = 501, "a static topic's queue is led elsewhere", "5.0"
    ILLEGAL_OPERATION = 604, "not allowed in this state", "5.0"
    GO_AWAY = 1500, "shutting down; use another connection", "5.3"
    RPC_UNKNOWN = -1000, "RPC failed", "5.0"
    RPC_ADDR_IS_NULL = -1002, "RPC without an address", "5.0"
    RPC_SEND_TO_CHANNEL_FAILED = -1004, "RPC could not be sent", "5.0"
    RPC_TIME_OUT = -1006, "RPC was not answered in time", "5.0"
    CONTROLLER_FENCED_MASTER_EPOCH = 2000, "an older master epoch", "5.0"
    CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH = 2001, "an older in-sync set", "5.0"
    CONTROLLER_INVALID_MASTER = 2002, "not the master", "5.0"
    CONTROLLER_INVALID_REPLICAS = 2003, "unknown replicas", "5.0"
    CONTROLLER_MASTER_NOT_AVAILABLE = 2004, "no master", "5.0"
    CONTROLLER_INVALID_REQUEST = 2005, "the controller refuses the request", "5.0"
    CONTROLLER_BROKER_NOT_ALIVE = 2006, "the broker is not alive", "5.0"
    CONTROLLER_NOT_LEADER = 2007, "another controller leads", "5.0"
    CONTROLLER_BROKER_METADATA_NOT_EXIST = 2008, "the controller does not know the broker", "5.0"
    CONTROLLER_INVALID_CLEAN_BROKER_METADATA = 2009, "the broker cannot be forgotten now", "5.0"
    CONTROLLER_BROKER_NEED_TO_BE_REGISTERED = 2010, "register first", "5.0"
    CONTROLLER_MASTER_STILL_EXIST = 2011, "there is a master already", "5.0"
    CONTROLLER_ELECT_MASTER_FAILED = 2012, "no master could be chosen", "5.0"
    CONTROLLER_ALTER_SYNC_STATE_SET_FAILED = 2013, "the in-sync set was not changed", "5.0"
    CONTROLLER_BROKER_ID_INVALID = 2014, "the broker id is taken or wrong", "5.1"
    CONTROLLER_JRAFT_INTERNAL_ERROR = 2015, "the controllers' log failed", "5.1"
    CONTROLLER_BROKER_LIVE_INFO_NOT_EXISTS = 2016, "liveness of the broker is not known", "5.1"
    USER_NOT_EXIST = 3001, "no such user", "5.3"
    POLICY_NOT_EXIST = 3002, "no such policy", "5.3"


class ClientErrorCode(_Code):
    """Codes that a client gives errors which never were on the wire."""

    CONNECT_BROKER = 10001, "the broker could not be reached"
    ACCESS_BROKER_TIMEOUT = 10002, "the broker did not answer in time"
    BROKER_NOT_EXIST = 10003, "no address is known for the broker name"
    NO_NAME_SERVER = 10004, "no name server is configured or reachable"
    NOT_FOUND_TOPIC = 10005, "no route for the topic"
    REQUEST_TIMEOUT = 10006, "no reply message came in time"
    CREATE_REPLY_MESSAGE = 10007, "a reply needs a message that was sent as a request"


class LanguageCode(_Code):
    """Which client speaks (E-6); a name or number not listed is read as OTHER."""

    JAVA = 0, "Java client, server or mqadmin"
    CPP = 1, "C++ client"
    DOTNET = 2, ".NET client"
    PYTHON = 3, "Python client; PocketMQ's own"
    DELPHI = 4, "Delphi client"
    ERLANG = 5, "Erlang client"
    RUBY = 6, "Ruby client"
    OTHER = 7, "anything else"
    HTTP = 8, "HTTP gateway"
    GO = 9, "Go client"
    PHP = 10, "PHP client"
    OMS = 11, "OpenMessaging client"
    RUST = 12, "Rust client"
    NODE_JS = 13, "Node client"


BUSY_CODES: Final = frozenset({ResponseCode.SYSTEM_BUSY, ResponseCode.GO_AWAY})
"""Answers of a broker that can not now; a producer of 4.9 takes them for final (P-41)."""

RETRIABLE_SEND_CODES: Final = BUSY_CODES | {
    ResponseCode.TOPIC_NOT_EXIST,
    ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.NO_PERMISSION,
    ResponseCode.NO_BUYER_ID,
    ResponseCode.NOT_IN_CURRENT_UNIT,
}
"""Answers after which a synchronous send tries another broker (P-41). The only list of them."""

_REQUEST_NAMES: Final = {int(code): code.name for code in RequestCode}
_RESPONSE_NAMES: Final = {int(code): code.name for code in ResponseCode} | {
    int(code): code.name for code in ClientErrorCode
}


def request_name(code: int) -> str:
    """`SEND_MESSAGE (10)`, or the bare number when nobody knows it. For logs and remarks."""
    name = _REQUEST_NAMES.get(code)
    return f"{name} ({code})" if name else str(code)


def response_name(code: int) -> str:
    """`TOPIC_NOT_EXIST (17)`, or the bare number when nobody knows it. For logs and remarks."""
    name = _RESPONSE_NAMES.get(code)
    return f"{name} ({code})" if name else str(code)
