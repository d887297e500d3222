"""The store's options: RocketMQ's names in Python case, RocketMQ's defaults."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, unique
from math import inf
from typing import ClassVar

from pocketmq.protocol.messages.properties import DELAY_LEVELS
from pocketmq.runtime.configuration.options import OptionDescription, clamped, describe, option
from pocketmq.runtime.errors import ConfigError

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

ENTRY_SIZE = 20
"""Bytes of a consume-queue entry (S-30)."""

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"


@unique
class FlushDiskType(Enum):
    """When a send is acknowledged.

    ASYNC_FLUSH: when its bytes are in the page cache. A killed process loses nothing; a power cut
    loses what came after the last flush: 500 ms, or 10 s while fewer than 4 pages are dirty.

    SYNC_FLUSH: when its bytes are on the disk. Neither a killed process nor a power cut loses any.
    """

    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """How and where messages are kept."""

    section: ClassVar[str] = "store"

    store_path_root_dir: str = option(
        "~/store", help="Folder of the whole store. The folder is a RocketMQ store root."
    )

    # -- files ---------------------------------------------------------------------------------
    mapped_file_size_commit_log: int = option(
        GIB, help="Bytes of a commit-log file.", unit="bytes", rule="S-1"
    )
    mapped_file_size_consume_queue: int = option(
        300_000 * ENTRY_SIZE,
        help=(
            "Size of a consume-queue file in bytes. The broker rounds this size up to a "
            "multiple of 20, the size of an entry."
        ),
        unit="bytes",
        rule="S-1",
    )
    max_hash_slot_num: int = option(5_000_000, help="Hash slots of an index file.", rule="S-45")
    max_index_num: int = option(20_000_000, help="Entries of an index file.", rule="S-45")
    message_index_enable: bool = option(
        True, help="Keep an index of messages by key.", rocketmq_name="messageIndexEnable"
    )
    max_open_queue_files: int = option(
        16_384,
        help=(
            "Maximum number of consume-queue files that are mapped into memory at the same "
            "time. A mapped file needs page tables, but no file descriptor."
        ),
    )

    # -- limits --------------------------------------------------------------------------------
    max_message_size: int = option(
        4 * MIB,
        help="Maximum bytes in a message body. A larger message is refused.",
        unit="bytes",
        rule="S-11",
        live=True,
        within=(1, inf),
    )
    max_transfer_bytes_on_message_in_memory: int = option(
        256 * KIB,
        help="Maximum bytes in the answer to a pull, if the messages are in memory.",
        unit="bytes",
        rule="B-61",
        live=True,
        within=(1, inf),
    )
    max_transfer_count_on_message_in_memory: int = option(
        32,
        help="Maximum number of messages in the answer to a pull, if the messages are in memory.",
        rule="B-61",
        live=True,
        within=(1, inf),
    )
    max_transfer_bytes_on_message_in_disk: int = option(
        64 * KIB,
        help="Maximum bytes in the answer to a pull, if the messages are no longer in memory.",
        unit="bytes",
        rule="B-61",
        live=True,
        within=(1, inf),
    )
    max_transfer_count_on_message_in_disk: int = option(
        8,
        help=(
            "Maximum number of messages in the answer to a pull, if the messages are no "
            "longer in memory."
        ),
        rule="B-61",
        live=True,
        within=(1, inf),
    )
    access_message_in_memory_max_ratio: int = option(
        40,
        help=(
            "The broker assumes that the newest part of the log is in memory. This option "
            "is the size of that part, as a percentage of the machine's memory."
        ),
        unit="%",
        rule="B-61, B-62",
        live=True,
        within=(0, 100),
    )
    max_msgs_num_batch: int = option(
        64,
        help="Maximum number of messages that a query by key returns.",
        rule="S-48",
        live=True,
        within=(1, inf),
    )
    os_page_cache_busy_timeout_ms: int = option(
        1000,
        help=(
            "If an append to the log took longer than this time, refuse the sends that are waiting."
        ),
        unit="ms",
        rule="B-160",
        rocketmq_name="osPageCacheBusyTimeOutMills",
        live=True,
        within=(0, inf),
    )
    message_delay_level: str = option(
        DELAY_LEVELS,
        help=(
            "Delays of the delay levels, starting with level 1. Each delay is a number "
            "with the unit s, m, h or d."
        ),
        rule="B-90",
    )

    # -- flush ---------------------------------------------------------------------------------
    flush_disk_type: FlushDiskType = option(
        FlushDiskType.ASYNC_FLUSH,
        help=(
            "ASYNC_FLUSH: a send is acknowledged when its message is in the page cache. "
            "SYNC_FLUSH: a send is acknowledged when its message is on the disk."
        ),
    )
    flush_interval_commit_log_ms: int = option(
        500,
        help="Interval of the log's periodic flush.",
        unit="ms",
        rule="S-50",
        rocketmq_name="flushIntervalCommitLog",
        live=True,
        within=(10, inf),
    )
    flush_commit_log_least_pages: int = option(
        4,
        help=(
            "A periodic flush writes the log to the disk only if at least this many pages "
            "of the log are dirty."
        ),
        rule="S-50",
        live=True,
        within=(0, inf),
    )
    flush_commit_log_thorough_interval_ms: int = option(
        10_000,
        help=(
            "Time after which the log is flushed even if fewer pages than "
            "flushCommitLogLeastPages are dirty."
        ),
        unit="ms",
        rule="S-50",
        rocketmq_name="flushCommitLogThoroughInterval",
        live=True,
        within=(0, inf),
    )
    flush_interval_consume_queue_ms: int = option(
        1000,
        help="Interval of the consume queues' periodic flush.",
        unit="ms",
        rule="S-52",
        rocketmq_name="flushIntervalConsumeQueue",
        live=True,
        within=(10, inf),
    )
    flush_consume_queue_least_pages: int = option(
        2,
        help=(
            "A periodic flush writes a consume queue to the disk only if at least this "
            "many pages of the queue are dirty."
        ),
        rule="S-52",
    )
    flush_consume_queue_thorough_interval_ms: int = option(
        60_000,
        help=(
            "Time after which every dirty consume queue is flushed, even if fewer pages "
            "than flushConsumeQueueLeastPages are dirty."
        ),
        unit="ms",
        rule="S-52",
        rocketmq_name="flushConsumeQueueThoroughInterval",
        live=True,
        within=(0, inf),
    )
    confirm_distance_bytes: int = option(
        64 * MIB,
        help=(
            "Each time the log has grown by this many bytes, flush all consume queues. A "
            "restart then has less of the log to read."
        ),
        unit="bytes",
        live=True,
        within=(1, inf),
    )
    sync_flush_timeout_ms: int = option(
        5000,
        help=(
            "With SYNC_FLUSH: maximum time that a send waits until its message is on the "
            "disk. After that, the answer is FLUSH_DISK_TIMEOUT (10)."
        ),
        unit="ms",
        rocketmq_name="syncFlushTimeout",
    )

    # -- timers --------------------------------------------------------------------------------
    timer_wheel_enable: bool = option(
        True,
        help="Accept messages with a delivery time (timer messages). Pop also needs this option.",
        rule="T-101",
    )
    timer_precision_ms: int = option(
        1000,
        help=(
            "Time span of one slot of the timer wheel. Possible values are 100, 200, 500 and 1000."
        ),
        unit="ms",
        rule="T-101",
        clamped=(100, 1000),
    )
    timer_roll_window_slot: int = option(
        172_800,
        help=(
            "Number of slots that the timer wheel uses. If a message is due after the last "
            "slot, the broker puts the message into one of these slots. When this slot is "
            "due, the broker stores the message again."
        ),
        rule="T-122",
    )
    timer_max_delay_sec: int = option(
        259_200,
        help=(
            "Maximum time from now to the delivery time of a timer message. A message with "
            "a later delivery time is refused."
        ),
        unit="s",
        rule="T-105",
        live=True,
        within=(0, inf),
    )
    mapped_file_size_timer_log: int = option(
        100 * MIB, help="Size of a timer log file.", unit="bytes", rule="T-113"
    )

    # -- recovery and cleaning -----------------------------------------------------------------
    check_crc_on_recover: bool = option(
        True,
        help="Check each body's CRC during recovery.",
        rule="S-62",
        rocketmq_name="checkCRCOnRecover",
    )
    delete_when: str = option(
        "04",
        help=(
            "Hours of the day, from 00 to 23, at which expired files are deleted. Several "
            "hours are separated by ';'."
        ),
        rule="S-70",
        live=True,
    )
    file_reserved_time_h: int = option(
        72,
        help="Age in hours at which a commit-log file expires and may be deleted.",
        unit="h",
        rule="S-71",
        rocketmq_name="fileReservedTime",
        live=True,
        within=(0, inf),
    )
    clean_file_forcibly_enable: bool = option(
        True,
        help=(
            "If disk usage is above the forcible level (diskSpaceCleanForciblyRatio), also "
            "delete files that have not expired."
        ),
        rule="S-71",
        live=True,
    )
    disk_max_used_space_ratio: int = option(
        75,
        help=(
            "Disk usage, in percent, above which expired files are deleted at any hour. A "
            "value below 10 counts as 10, and a value above 95 counts as 95."
        ),
        unit="%",
        rule="B-165",
        live=True,
        clamped=(10, 95),
    )
    disk_space_clean_forcibly_ratio: int = option(
        85,
        help=(
            "Forcible level: disk usage, in percent, above which any file except the last "
            "may be deleted. A value below 30 counts as 30, and a value above 85 counts as "
            "85."
        ),
        unit="%",
        rule="B-164",
        live=True,
        clamped=(30, 85),
    )
    disk_space_warning_level_ratio: int = option(
        90,
        help=(
            "Warning level: disk usage, in percent, above which the store refuses writes. "
            "A value below 35 counts as 35, and a value above 90 counts as 90."
        ),
        unit="%",
        rule="B-163",
        live=True,
        clamped=(35, 90),
    )
    clean_resource_interval_ms: int = option(
        10_000,
        help="Time between two checks of file ages and disk usage.",
        unit="ms",
        rule="S-70",
        rocketmq_name="cleanResourceInterval",
        live=True,
        within=(100, inf),
    )

    def __post_init__(self) -> None:
        self.delete_hours()
        self.delay_levels_ms()
        for each in describe(StoreConfig):
            if each.unit == "%":
                self._refuse_fraction_of(each)

    def _refuse_fraction_of(self, percent: OptionDescription) -> None:
        """Fractions of 1, which these options once were, would count as 0 or 1 %."""
        value = getattr(self, percent.name)
        try:
            percent.value_of(value)
        except ValueError as exc:
            raise ConfigError(percent.name, f"{value} is not {exc}") from exc

    @property
    def queue_file_bytes(self) -> int:
        """Size of a consume-queue file: whole entries."""
        return -(-self.mapped_file_size_consume_queue // ENTRY_SIZE) * ENTRY_SIZE

    @property
    def max_used_ratio(self) -> float:
        """Disk usage, 0.0 to 1.0, above which expired files are deleted at any hour (B-165)."""
        return clamped(self, "disk_max_used_space_ratio") / 100

    @property
    def forcible_ratio(self) -> float:
        """Disk usage above which any file but the last is deleted (B-164)."""
        return clamped(self, "disk_space_clean_forcibly_ratio") / 100

    @property
    def warning_ratio(self) -> float:
        """Disk usage above which the store refuses writes (B-163)."""
        return clamped(self, "disk_space_warning_level_ratio") / 100

    def delete_hours(self) -> frozenset[int]:
        """Hours of the day at which expired files are deleted.

        Raises:
            ConfigError: `delete_when` is something else.
        """
        hours = [text.strip() for text in self.delete_when.split(";") if text.strip()]
        if not all(text.isdecimal() and int(text) < 24 for text in hours):
            raise ConfigError(
                "delete_when",
                f"{self.delete_when!r} must be a list of hours from 0 to 23, separated by "
                "semicolons",
            )
        return frozenset(map(int, hours))

    def delay_levels_ms(self) -> tuple[int, ...]:
        """Delay of each level in milliseconds; index 0 is no level and 0 (B-90)."""
        return (0, *(_duration_ms(text) for text in self.message_delay_level.split()))


_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def _duration_ms(text: str) -> int:
    match = re.fullmatch(r"(\d+)([smhd])", text)
    if match is None:
        raise ConfigError(
            "message_delay_level", f"{text!r} must be a duration such as 30s, 5m or 1d"
        )
    return int(match[1]) * _UNITS_MS[match[2]]
