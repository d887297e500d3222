"""Names and messages that a broker would refuse, checked before sending (P-20..P-24, P-49).

A legal name is at most 255 characters out of `% | A-Z a-z 0-9 _ -`: no dot, no slash, no NUL, no
letter beyond ASCII that looks like one. So it may become a folder of the store as it is.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from types import CoroutineType
from typing import Final

from pocketmq.protocol.compression import DEFAULT_MAX_BODY_BYTES
from pocketmq.protocol.errors import IllegalMessageError, IllegalNameError
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import Message, MessageQueue

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"

AUTO_CREATE_TOPIC: Final = "TBW102"
"""The model that unknown topics are created after (B-12)."""
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
ROCKSDB_HALF_TOPIC: Final = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
ROCKSDB_OP_HALF_TOPIC: Final = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
"""Of half messages in RocksDB, which PocketMQ does not have: nothing comes into these two (X-52).
"""
TRANS_CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
CHECKPOINT_TOPIC: Final = "CHECKPOINT_TOPIC"
"""Of stores in RocksDB; reserved in each."""
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
"""Timer messages wait here (T-101)."""
MEMBERS_TOPIC_PREFIX: Final = "rmq_sys_SYNC_BROKER_MEMBER_"
"""Before a broker's name: a topic whose route tells who is in its group, with their real ids."""
REVIVE_TOPIC_PREFIX: Final = "rmq_sys_REVIVE_LOG_"
"""Before the cluster's name: check points and acks of pops, once they are due (K-10)."""
REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
"""Who reads them (K-11)."""

SYSTEM_TOPICS: Final = frozenset(
    {
        AUTO_CREATE_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        HALF_TOPIC,
        TRACE_TOPIC,
        OP_HALF_TOPIC,
        ROCKSDB_HALF_TOPIC,
        ROCKSDB_OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        CHECKPOINT_TOPIC,
    }
)
"""Topics of the broker itself; it adds its own name, its cluster's, the reply topic's (E-70)."""

NOT_ALLOWED_SEND: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        ROCKSDB_HALF_TOPIC,
        ROCKSDB_OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)
"""Topics that clients may not send to (P-21, E-70)."""

DEFAULT_PRODUCER_GROUP: Final = "DEFAULT_PRODUCER"
DEFAULT_CONSUMER_GROUP: Final = "DEFAULT_CONSUMER"
CLIENT_INNER_PRODUCER_GROUP: Final = "CLIENT_INNER_PRODUCER"
TOOLS_CONSUMER_GROUP: Final = "TOOLS_CONSUMER"

SYSTEM_GROUPS: Final = frozenset(
    {
        TOOLS_CONSUMER_GROUP,
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_RMQ_SYS_TRANS",
    }
)
"""Groups that every broker knows from the start."""

MAX_TOPIC_CHARS: Final = 127
MAX_RETRY_TOPIC_CHARS: Final = 255
"""Since 5.4; before, all topics of a request have at most 127 (E-71)."""
MAX_GROUP_CHARS: Final = 255
"""More than any release takes of a client; since 5.4 it is 120 (B-40, P-23)."""

MAX_FOLDER_BYTES: Final = 255
"""Of one path component, on every file system."""

_TIMES: Final = frozenset({names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS})
_LEGAL: Final = re.compile(r"[%|a-zA-Z0-9_-]+").fullmatch
_ADVICE: Final = "use only letters A-Z a-z, digits, '_', '-', '%' and '|'"


def retry_topic(group: str) -> str:
    """Where the broker stores what the group failed to consume."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Where messages go that the group failed to consume too often."""
    return DLQ_PREFIX + group


def is_retry(topic: str) -> bool:
    """Whether it is some group's retry topic."""
    return topic.startswith(RETRY_PREFIX)


def is_dlq(topic: str) -> bool:
    """Whether it is some group's dead letter topic."""
    return topic.startswith(DLQ_PREFIX)


def is_system_topic(topic: str) -> bool:
    """Whether the broker keeps it for itself, whatever the broker is called."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def is_system_group(group: str) -> bool:
    """Whether it may be created even where groups are not created by themselves."""
    return group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


def check_topic(topic: str, *, max_retry_chars: int = MAX_RETRY_TOPIC_CHARS) -> None:
    """Pass a topic that every broker takes (P-20).

    Args:
        topic: the name.
        max_retry_chars: the profile's limit for `%RETRY%` and `%DLQ%` topics.

    Raises:
        IllegalNameError: it is blank, too long or has other characters.
    """
    # Retry and dead letter topics contain a group's name and may be longer (E-71).
    derived = isinstance(topic, str) and topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    _check_name("topic", topic, max_retry_chars if derived else MAX_TOPIC_CHARS)


def check_send_topic(topic: str) -> None:
    """Pass a topic that clients may send to (P-20, P-21).

    Raises:
        IllegalNameError: the name is illegal, or the broker keeps the topic for itself.
    """
    check_topic(topic)
    # Only the broker writes these topics, and takes their messages for its own (P-21).
    if topic in NOT_ALLOWED_SEND:
        raise IllegalNameError(
            "topic", topic, "is a system topic of the broker; send to another topic"
        )


def check_group(group: str, *, max_chars: int) -> None:
    """Pass a group name that the releases of a profile take (P-23, B-40).

    Args:
        group: the name.
        max_chars: the profile's limit.

    Raises:
        IllegalNameError: it is blank, too long or has other characters.
    """
    _check_name("group", group, max_chars)


def check_client_group(group: str, *, max_chars: int) -> None:
    """Pass a group that an application may produce or consume under (P-23, C-1).

    Raises:
        IllegalNameError: the name is illegal, or one of the two that mean "not named".
    """
    check_group(group, max_chars=max_chars)
    # These are RocketMQ's default names: unrelated applications would share a group.
    if group in (DEFAULT_PRODUCER_GROUP, DEFAULT_CONSUMER_GROUP):
        raise IllegalNameError(
            "group",
            group,
            "is RocketMQ's default group name, which unrelated applications would share; choose "
            "a name of your own",
        )


@lru_cache(maxsize=4096)
def is_folder_name(name: str) -> bool:
    """Whether a file system takes it as the name of one folder, and of no path.

    RocketMQ 4.9 creates groups and topics under any name; their queues are folders.
    """
    # Check both lengths: a character may take several bytes.
    return (
        0 < len(name) <= MAX_FOLDER_BYTES
        and name not in (".", "..")
        and "/" not in name
        and "\0" not in name
        and len(name.encode(errors="surrogatepass")) <= MAX_FOLDER_BYTES
    )


def _check_name(kind: str, name: str, max_chars: int) -> None:
    given: object = name  # programs without types hand over what they have
    if not isinstance(given, str):
        what = f"is a {type(given).__name__} and must be a text"
        # Report a forgotten `await` here: Python would warn later, and elsewhere.
        if isinstance(given, CoroutineType):
            given.close()
            what += f"; await the call of {given.__name__} that made it"
        raise IllegalNameError(kind, str(given), what)
    if len(name) > max_chars:
        raise IllegalNameError(kind, name, f"is longer than {max_chars} characters")
    if _LEGAL(name) is None:
        what = "has an illegal character" if name.strip() else "is blank"
        raise IllegalNameError(kind, name, f"{what}; {_ADVICE}")


# behaviour 50
def check_message(
    message: Message,
    *,
    queue: MessageQueue | None = None,
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES,
) -> None:
    """Pass a message that can be sent, to `queue` if one is named (P-20..P-22, P-24).

    Args:
        message: what is to be sent, not yet compressed.
        queue: the queue that the caller chose.
        max_body_bytes: RocketMQ's `maxMessageSize`.

    Raises:
        IllegalNameError: the topic cannot be sent to.
        IllegalMessageError: the body breaks a limit, or the queue is another topic's.
    """
    check_send_topic(message.topic)
    body: object = message.body or b""  # None, which types forbid, is empty as well
    if not isinstance(body, bytes | bytearray | memoryview):
        raise IllegalMessageError(
            f"the body must be bytes, but is of type {type(body).__name__}; encode it, for "
            "example with text.encode()",
            topic=message.topic,
        )
    size = len(body)
    if size == 0:
        raise IllegalMessageError("the body is empty; send at least one byte", topic=message.topic)
    if size > max_body_bytes:
        raise IllegalMessageError(
            f"the body has {size} bytes, but may have at most {max_body_bytes}; split it, or "
            "raise max_message_size in this client and on the brokers",
            topic=message.topic,
        )
    if queue is not None and queue.topic != message.topic:
        raise IllegalMessageError(
            f"the chosen queue {queue} belongs to another topic; choose a queue of the message's "
            "topic",
            topic=message.topic,
        )


def is_delayed(message: Message) -> bool:
    """Whether it asks for a delay level or a delivery time; brokers overlook both in a batch."""
    return message.delay_level > 0 or names_time(message.properties)


def names_time(properties: Iterable[str]) -> bool:
    """Whether there is a property that names a delivery time (TIMER_DELAY_SEC and its like)."""
    return not _TIMES.isdisjoint(properties)


def check_batch(messages: Sequence[Message]) -> None:
    """Pass messages that can go into one batch (P-49, B-19); `check_message` each of them too.

    Raises:
        IllegalMessageError: there are none, or they differ in topic or WAIT, or one is delayed or
            goes to a retry topic.
    """
    if not messages:
        raise IllegalMessageError("a batch needs at least one message")
    topic, wait = messages[0].topic, messages[0].wait_store_ok
    # Retry topics take single messages only (B-19).
    if is_retry(topic):
        raise IllegalMessageError(
            "a batch cannot be sent to a retry topic; send its messages one by one", topic=topic
        )
    for message in messages:
        if message.topic != topic:
            raise IllegalMessageError(
                "all messages of a batch must have the same topic, but this batch has the topics "
                f"{topic!r} and {message.topic!r}",
                topic=topic,
            )
        # The batch gets one answer, which either waits for the disk or does not (P-49).
        if message.wait_store_ok != wait:
            raise IllegalMessageError(
                "all messages of a batch must have the same value of wait_store_ok", topic=topic
            )
        # A delayed message goes to another topic: it cannot be stored with the others.
        if is_delayed(message):
            raise IllegalMessageError(
                "a message of a batch cannot be delayed; send delayed messages one by one",
                topic=topic,
            )
