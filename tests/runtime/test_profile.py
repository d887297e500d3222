"""Where RocketMQ 4.9 and 5.x differ."""

from __future__ import annotations

import dataclasses
import re
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.profile import (
    PROFILE_4_9,
    PROFILE_5_3,
    PROFILE_5_5,
    PROFILE_5_X,
    PROFILES,
    Profile,
    profile_named,
)

ROOT = Path(__file__).resolve().parents[2]

NUMBERS: dict[str, tuple[str, Any, Any, Any]] = {
    "nameserver.scan_initial_delay_ms": (
        "NamesrvController: initial delay of scanNotActiveBroker", 5_000, 5, 5_000,
    ),
    "nameserver.scan_period_ms": (
        "NamesrvConfig.scanNotActiveBrokerInterval", 10_000, 5_000, 5_000,
    ),
    "broker.invalid_parameter_code": ("ResponseCode.INVALID_PARAMETER", 1, 29, 29),
    "broker.group_name_max_chars": (
        "SubscriptionGroupManager.findSubscriptionGroupConfig", None, 255, 120,
    ),
    "broker.retry_topic_max_chars": ("TopicValidator.validateTopic", 127, 127, 255),
    "broker.stored_retry_topic_max_bytes": (
        "DefaultMessageStore.checkMessage, HookUtils.MAX_TOPIC_LENGTH", 127, 255, 255,
    ),
    "broker.register_timeout_ms": (
        "BrokerConfig.registerBrokerTimeoutMills", 6_000, 24_000, 24_000,
    ),
    "broker.offset_of_empty_queue": (
        "ConsumerManageProcessor.queryConsumerOffset", "zero", "not_found", "not_found",
    ),
    "broker.transaction_counts_flush_s": (
        "BrokerConfig.transactionMetricFlushInterval", None, 3.0, 10.0,
    ),
    "broker.transaction_check_interval_ms": (
        "BrokerConfig.transactionCheckInterval", 60_000, 30_000, 30_000,
    ),
    "broker.slave_sync_s": ("BrokerController: period of syncAll", 10.0, 60.0, 60.0),
    "client.group_name_max_chars": ("Validators.checkGroup", 255, 255, 120),
    "client.rebalance_min_interval_ms": ("RebalanceService.minInterval", None, 1_000, 1_000),
    "client.first_pull_delay_ms": (
        "RebalanceImpl.updateProcessQueueTableInRebalance", 0, 500, 500,
    ),
    "client.lock_retry_delay_ms": (
        "RebalanceImpl.updateProcessQueueTableInRebalance", None, 500, 500,
    ),
    "client.orderly_removal_wait_ms": ("RebalancePushImpl", 1_000, 500, 500),
    "client.orderly_removal_force_after_ms": (
        "RebalancePushImpl.UNLOCK_DELAY_TIME_MILLS", None, 20_000, 20_000,
    ),
    "client.orderly_unlock_delay_ms": (
        "RebalancePushImpl.UNLOCK_DELAY_TIME_MILLS", 20_000, 0, 0,
    ),
    "client.illegal_offset_delay_ms": ("DefaultMQPushConsumerImpl.pullMessage", 10_000, 0, 0),
    "client.fault_latency_max_ms": (
        "MQFaultStrategy.latencyMax",
        (50, 100, 550, 1_000, 2_000, 3_000, 15_000),
        (50, 100, 550, 1_800, 3_000, 5_000, 15_000),
        (50, 100, 550, 1_800, 3_000, 5_000, 15_000),
    ),
    "client.fault_not_available_ms": (
        "MQFaultStrategy.notAvailableDuration",
        (0, 0, 30_000, 60_000, 120_000, 180_000, 600_000),
        (0, 0, 2_000, 5_000, 6_000, 10_000, 30_000),
        (0, 0, 2_000, 5_000, 6_000, 10_000, 30_000),
    ),
    "client.fault_isolation_latency_ms": (
        "MQFaultStrategy.updateFaultItem", 30_000, 10_000, 10_000,
    ),
    "client_version": ("MQVersion", 409, 479, 515),
}  # fmt: skip
"""Field -> where RocketMQ has it, and its values as read at 4.9.8, 5.3.3 and 5.5.0."""

ROLES = ("nameserver", "broker", "client")


@pytest.mark.parametrize("field", NUMBERS)
def test_each_number_is_that_of_its_release(field: str) -> None:
    value = attrgetter(field)
    assert tuple(map(value, PROFILES)) == NUMBERS[field][1:], NUMBERS[field][0]


def test_each_number_of_a_profile_was_read_at_its_release() -> None:
    numbers = {
        field for field, value in fields_of(PROFILE_5_X).items() if not isinstance(value, bool)
    }
    assert numbers == set(NUMBERS)


def fields_of(profile: Profile) -> dict[str, Any]:
    """`client_version` and, with the role before the name, the fields of the three roles."""
    found: dict[str, Any] = {"client_version": profile.client_version}
    for role in ROLES:
        part = getattr(profile, role)
        for field in dataclasses.fields(part):
            found[f"{role}.{field.name}"] = getattr(part, field.name)
    return found


def test_only_what_differs_is_in_a_profile() -> None:
    all_of_them = [fields_of(profile) for profile in PROFILES]
    old = all_of_them[0]
    same = {field for field in old if all(each[field] == old[field] for each in all_of_them)}
    assert same == set()


@pytest.mark.parametrize("role", ROLES)
def test_every_difference_is_read_in_its_role_and_in_no_other(role: str) -> None:
    own = ROOT / "runtime" / "pocketmq" / "runtime" / "profile" / f"{role}.py"

    def read_in(folder: str) -> set[str]:
        code = "\n".join(path.read_text() for path in (ROOT / folder / "pocketmq").glob("**/*.py"))
        return set(re.findall(r"profile\.(?:\w+\.)?(\w+)", code))

    fields = {field.name for field in dataclasses.fields(getattr(PROFILE_5_X, role))}
    inside = set(re.findall(r"self\.(\w+)", own.read_text()))
    assert fields - read_in(role) - inside == set()
    for other in set(ROLES) - {role}:
        theirs = {field.name for field in dataclasses.fields(getattr(PROFILE_5_X, other))}
        assert (fields - theirs) & read_in(other) == set()


@pytest.mark.parametrize(
    ("profile", "latency_ms", "avoided_ms"),
    [  # P-34
        (PROFILE_4_9, 49, 0),
        (PROFILE_4_9, 550, 30_000),
        (PROFILE_4_9, 1_000, 60_000),
        (PROFILE_4_9, 15_000, 600_000),
        (PROFILE_5_X, 0, 0),
        (PROFILE_5_X, 549, 0),
        (PROFILE_5_X, 550, 2_000),
        (PROFILE_5_X, 5_000, 10_000),
        (PROFILE_5_X, 99_999, 30_000),
    ],
)
def test_a_slow_broker_is_avoided_by_its_latency_class(
    profile: Profile, latency_ms: float, avoided_ms: int
) -> None:
    assert profile.client.not_available_ms(latency_ms) == avoided_ms


def test_a_failed_broker_is_avoided_10_minutes_in_4_9_and_10_s_in_5_x() -> None:  # P-35
    assert PROFILE_4_9.client.not_available_ms(3, isolated=True) == 600_000
    assert PROFILE_5_X.client.not_available_ms(3, isolated=True) == 10_000


def test_profiles_are_found_by_name() -> None:
    assert profile_named("4.9") is PROFILE_4_9
    assert profile_named("5.3") is PROFILE_5_3
    assert profile_named("5.x") is profile_named("5.5") is PROFILE_5_5
    with pytest.raises(ConfigError, match=r"'6'.*choose from 4\.9, 5\.3, 5\.5, 5\.x"):
        profile_named("6")
