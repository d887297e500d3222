"""Our broker's options beside RocketMQ 5.3.3's of the same names: a `broker.conf` means the same.

`golden/declared/options.json` is what RocketMQ's own classes declare (`record_options.py`). What
RocketMQ's source says elsewhere, and where we differ on purpose, stands here.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.store.config import StoreConfig
from pocketmq.broker.timers.rules import precision_of
from pocketmq.runtime.configuration.option_types import as_text
from pocketmq.runtime.configuration.options import clamped
from support.broker_options import options_of_broker
from support.golden import GOLDEN

THEIRS: dict[str, dict[str, Any]] = json.loads((GOLDEN / "declared/options.json").read_text())
OURS = options_of_broker()

NUMBERS = {"int", "long", "double", "float"}
TYPES = {
    "boolean": {"bool"},
    "String": {"text", "path", "text;..."},
    **{number: {"int"} for number in NUMBERS},
}

UNITS: dict[str, str] = {
    unit_name: unit
    for unit, names in {
        "ms": """
            brokerHeartbeatInterval brokerNotActiveTimeoutMillis cleanResourceInterval
            controllerHeartBeatTimeoutMills flushCommitLogThoroughInterval
            flushConsumeQueueThoroughInterval flushConsumerOffsetInterval flushDelayOffsetInterval
            flushIntervalCommitLog flushIntervalConsumeQueue haHousekeepingInterval
            haMaxTimeSlaveNotCatchup haSendHeartbeatInterval osPageCacheBusyTimeOutMills
            popCkStayBufferTime popCkStayBufferTimeOut registerNameServerPeriod
            shortPollingTimeMills slaveTimeout syncBrokerMemberGroupPeriod syncBrokerMetadataPeriod
            syncFlushTimeout timerPrecisionMs transactionCheckInterval
            transactionMetricFlushInterval transactionOpBatchInterval transactionTimeOut
            waitTimeMillsInAdminBrokerQueue waitTimeMillsInHeartbeatQueue waitTimeMillsInPullQueue
            waitTimeMillsInSendQueue
        """,
        "s": "broadcastOffsetExpireSecond broadcastOffsetExpireMaxSecond timerMaxDelaySec",
        "h": "fileReservedTime",
        "%": """
            accessMessageInMemoryMaxRatio diskMaxUsedSpaceRatio diskSpaceCleanForciblyRatio
            diskSpaceWarningLevelRatio popFromRetryProbability
        """,
        "bytes": """
            consumerFallbehindThreshold haMaxGapNotInSync haTransferBatchSize
            mappedFileSizeCommitLog mappedFileSizeConsumeQueue mappedFileSizeTimerLog
            maxMessageSize maxTransferBytesOnMessageInDisk maxTransferBytesOnMessageInMemory
        """,
    }.items()
    for unit_name in names.split()
}
"""Units in which RocketMQ 5.3.3 uses a number; the others are counts, ids, ports and bit sets."""

SET_AT_START = {"listenPort": "10911", "haListenPort": "0"}
"""`BrokerStartup.buildBrokerController` sets these before it reads the file."""

BOUNDS_IN_USE = {
    "diskSpaceWarningLevelRatio": (35, 90),  # DefaultMessageStore.getDiskSpaceWarningLevelRatio
    "diskSpaceCleanForciblyRatio": (30, 85),  # DefaultMessageStore.getDiskSpaceCleanForciblyRatio
    "registerNameServerPeriod": (10_000, 60_000),  # BrokerController.start
}
"""Where RocketMQ moves a value into a range only where it reads it."""

OTHER_DEFAULTS = {
    "bindAddress": "only this machine can connect, until somebody says otherwise",
    "brokerIP1": "the address to listen on, rather than one that is guessed",
    "brokerName": "the same on each machine",
    "enableBroadcastOffsetStore": "the profile's: 4.9 has none",
    "storePathRootDir": "`~/store` is user.home/store",
    "transactionCheckInterval": "the profile's: 60 s in 4.9, 30 s from 5.0 on",
    "transactionMetricFlushInterval": "the profile's: 3 s in 5.3, 10 s in 5.5",
    "useServerSideResetOffset": "the profile's",
}

STRICTER = {
    "brokerPermission": "bits that mean something",
    "cleanResourceInterval": "less than 100 ms is a busy loop",
    "flushIntervalCommitLog": "less than 10 ms is a busy loop",
    "flushIntervalConsumeQueue": "less than 10 ms is a busy loop",
    "popFromRetryProbability": "a probability",
    "accessMessageInMemoryMaxRatio": "a share",
    "transactionCheckInterval": "less than 100 ms is a busy loop",
    "transactionMetricFlushInterval": "less than 100 ms is a busy loop",
    **dict.fromkeys(
        [
            "consumerFallbehindThreshold",
            "fileReservedTime",
            "flushCommitLogLeastPages",
            "flushCommitLogThoroughInterval",
            "flushConsumeQueueThoroughInterval",
            "osPageCacheBusyTimeOutMills",
            "popInflightMessageThreshold",
            "shortPollingTimeMills",
            "timerMaxDelaySec",
            "transactionCheckMax",
            "transactionOpBatchInterval",
            "transactionTimeOut",
        ],
        "less than 0 makes no sense",
    ),
    **dict.fromkeys(
        [
            "maxMessageSize",
            "maxMsgsNumBatch",
            "maxTransferBytesOnMessageInDisk",
            "maxTransferBytesOnMessageInMemory",
            "maxTransferCountOnMessageInDisk",
            "maxTransferCountOnMessageInMemory",
            "transactionOpMsgMaxSize",
        ],
        "with 0 nothing would be taken or given",
    ),
}
"""Values that we refuse with a reason and RocketMQ takes, whatever becomes of them."""

ROUNDED = {"mappedFileSizeConsumeQueue", "haListenPort"}
"""Not moved into a range, but one side of it."""


def test_the_table_holds_each_common_name() -> None:
    assert len(THEIRS) == 133
    names = (GOLDEN / "declared/option_names.txt").read_text().split()
    assert THEIRS.keys() == OURS.keys() & set(names)
    for table in (UNITS, SET_AT_START, BOUNDS_IN_USE, OTHER_DEFAULTS, STRICTER):
        assert table.keys() <= THEIRS.keys()


@pytest.mark.parametrize("name", THEIRS)
def test_an_option_has_the_type_and_words_of_rocketmq(name: str) -> None:
    theirs, ours = THEIRS[name], OURS[name]
    if "words" in theirs:
        assert set(ours.choices) == set(theirs["words"].strip("[]").split(", "))
    else:
        assert ours.type_name in TYPES[theirs["type"]]


@pytest.mark.parametrize("name", THEIRS)
def test_an_option_has_the_default_of_rocketmq(name: str) -> None:
    default = SET_AT_START.get(name, THEIRS[name]["default"]) or ""
    assert (as_text(OURS[name].default) != default) == (name in OTHER_DEFAULTS)


@pytest.mark.parametrize("name", THEIRS)
def test_an_option_has_the_unit_of_rocketmq(name: str) -> None:
    assert OURS[name].unit == UNITS.get(name, "")


@pytest.mark.parametrize("name", THEIRS)
def test_an_option_has_the_bounds_of_rocketmq(name: str) -> None:
    moved = {int(given): int(read) for given, read in THEIRS[name]["bounds"].items()}
    theirs = BOUNDS_IN_USE.get(name)
    if moved and name not in ROUNDED:
        theirs = moved[min(moved)], moved[max(moved)]
    assert OURS[name].clamped == theirs
    assert (OURS[name].within is not None) == (name in STRICTER)


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [(each.name, *each.clamped) for each in OURS.values() if each.clamped is not None],
)
def test_a_number_outside_counts_as_the_bound(name: str, least: int, most: int) -> None:
    cls = StoreConfig if hasattr(StoreConfig(), name) else BrokerConfig
    for given, counts_as in (
        (-1, least),
        (0, least),
        (least, least),
        (most, most),
        (2**31 - 1, most),
    ):
        config = cls(**{name: given})
        if name == "timer_precision_ms":
            assert precision_of(given) == counts_as
        else:
            assert clamped(config, name) == counts_as
        assert getattr(config, name) == given  # shown as it was written


@pytest.mark.parametrize(
    ("given", "counts_as"), [(-1, 0), (1, 20), (20, 20), (6_000_000, 6_000_000)]
)
def test_a_queue_file_holds_whole_entries(given: int, counts_as: int) -> None:
    assert StoreConfig(mapped_file_size_consume_queue=given).queue_file_bytes == counts_as
