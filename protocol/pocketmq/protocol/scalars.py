"""Widths and bit masks of the wire, each said once (E-40, E-41, E-42; E-4).

The flag classes are plain ints on purpose: one `&` on an `enum.IntFlag` costs as much as decoding
a whole header.
"""

from typing import Annotated, Final, Literal

from msgspec import Meta

INT16_MIN: Final = -(2**15)
INT16_MAX: Final = 2**15 - 1
INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1

Int32 = Annotated[int, Meta(ge=INT32_MIN, le=INT32_MAX)]
"""A Java int on the wire. Undeclared, 2^63 passes the text codecs and breaks msgpack."""
Int64 = Annotated[int, Meta(ge=INT64_MIN, le=INT64_MAX)]
"""A Java long on the wire."""

MessageType = Literal["NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", "PRIORITY"]
"""What a topic may be made for: RocketMQ's proxy refuses a message of another type. A topic without
one is taken for NORMAL; MIXED takes all but PRIORITY, which came with 5.4."""
MESSAGE_TYPE: Final = "message.type"
"""The attribute of a topic that says so."""


class Perm:
    """Bits of a topic's `perm`; 0..7 is legal, RW = 6 is the default."""

    INHERIT: Final = 1
    """Topics may be created after this one's model (TBW102)."""
    WRITE: Final = 2
    READ: Final = 4
    PRIORITY: Final = 8

    RW: Final = 6
    RWX: Final = 7

    @staticmethod
    def is_readable(perm: int) -> bool:
        """Whether consumers may pull."""
        return perm & Perm.READ != 0

    @staticmethod
    def is_writable(perm: int) -> bool:
        """Whether producers may choose its queues."""
        return perm & Perm.WRITE != 0

    @staticmethod
    def is_inherited(perm: int) -> bool:
        """Whether it may serve as the model of a new topic."""
        return perm & Perm.INHERIT != 0

    @staticmethod
    def is_valid(perm: int) -> bool:
        """Whether a topic may be given this perm."""
        return 0 <= perm <= Perm.RWX

    @staticmethod
    def text(perm: int) -> str:
        """`RW-` for 6: how RocketMQ's tools write it."""
        return (
            ("R" if perm & Perm.READ else "-")
            + ("W" if perm & Perm.WRITE else "-")
            + ("X" if perm & Perm.INHERIT else "-")
        )


class TopicSysFlag:
    """Bits of a topic's `topicSysFlag`."""

    UNIT: Final = 1
    UNIT_SUB: Final = 2


class PullSysFlag:
    """Bits of a pull request's `sysFlag` (E-41)."""

    COMMIT_OFFSET: Final = 1
    """`commitOffset` is to be stored for the group."""
    SUSPEND: Final = 2
    """The broker may hold the request until a message arrives."""
    SUBSCRIPTION: Final = 4
    """`subscription` in the request counts, and not the heartbeat's."""
    CLASS_FILTER: Final = 8
    LITE_PULL: Final = 16


class RequestSource:
    """For whom a pull is made, in its `requestSource`; clients leave it out (B-36)."""

    SDK: Final = -1
    PROXY_FOR_ORDER: Final = 0
    PROXY_FOR_BROADCAST: Final = 1
    PROXY_FOR_STREAM: Final = 2


class MessageSysFlag:
    """Bits of a message's `sysFlag` (E-42)."""

    COMPRESSED: Final = 1
    MULTI_TAGS: Final = 2

    TRANSACTION_NONE: Final = 0
    TRANSACTION_PREPARED: Final = 4
    TRANSACTION_COMMIT: Final = 8
    TRANSACTION_ROLLBACK: Final = 12
    TRANSACTION_MASK: Final = 12

    BORN_HOST_V6: Final = 16
    STORE_HOST_V6: Final = 32
    HOSTS_V6_MASK: Final = 48

    NEED_UNWRAP: Final = 64
    INNER_BATCH: Final = 128

    COMPRESSION_LZ4: Final = 0x100
    COMPRESSION_ZSTD: Final = 0x200
    COMPRESSION_ZLIB: Final = 0x300
    COMPRESSION_MASK: Final = 0x700
    """No bit of it set, with COMPRESSED set: zlib, as 4.9 clients write."""

    @staticmethod
    def transaction_type(sys_flag: int) -> int:
        """One of the four TRANSACTION_* values."""
        return sys_flag & MessageSysFlag.TRANSACTION_MASK
