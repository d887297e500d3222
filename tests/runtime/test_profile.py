"""Where RocketMQ 4.9 and 5.x differ."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.profile import (
    PROFILE_4_9,
    PROFILE_5_X,
    Profile,
    profile_named,
)

ROOT = Path(__file__).resolve().parents[2]

SWITCHBOARD = {
    "nameserver_scan_period_ms": (10_000, 5_000),
    "rebalance_min_interval_ms": (None, 1_000),
    "first_pull_delay_ms": (0, 500),
    "orderly_removal_wait_ms": (1_000, 500),
    "orderly_unlock_delay_ms": (20_000, 0),
    "orderly_removal_force_after_ms": (None, 20_000),
    "illegal_offset_delay_ms": (10_000, 0),
    "freeze_offset_when_illegal": (False, True),
    "transaction_check_interval_ms": (60_000, 30_000),
    "offset_of_empty_queue": ("zero", "not_found"),
    "dlq_when_retries_equal_max": (True, False),
    "dlq_when_group_holds_locks": (False, True),
    "invalid_parameter_code": (1, 29),
    "notify_broadcast_groups": (True, False),
    "register_timeout_ms": (6_000, 24_000),
    "client_version": (409, 479),
}


@pytest.mark.parametrize("field", SWITCHBOARD)
def test_each_row_of_the_switchboard_has_its_two_values(field: str) -> None:
    assert (getattr(PROFILE_4_9, field), getattr(PROFILE_5_X, field)) == SWITCHBOARD[field]


def test_only_what_differs_is_in_a_profile() -> None:
    same = {
        field.name
        for field in dataclasses.fields(Profile)
        if getattr(PROFILE_4_9, field.name) == getattr(PROFILE_5_X, field.name)
    }
    assert same == {"nameserver_scan_initial_delay_ms"}  # N-3 gives the pair; only the period moved


def test_every_difference_is_read_somewhere() -> None:
    own = ROOT / "runtime" / "pocketmq" / "runtime" / "profile.py"
    files = [path for path in ROOT.glob("*/pocketmq/**/*.py") if path != own]
    read = set(re.findall(r"\.(\w+)", "\n".join(path.read_text() for path in files)))
    read |= set(re.findall(r"self\.(\w+)", own.read_text()))
    fields = {field.name for field in dataclasses.fields(Profile)}
    assert fields - read == set()


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
    assert profile.not_available_ms(latency_ms) == avoided_ms


def test_a_failed_broker_is_avoided_10_minutes_in_4_9_and_10_s_in_5_x() -> None:  # P-35
    assert PROFILE_4_9.not_available_ms(3, isolated=True) == 600_000
    assert PROFILE_5_X.not_available_ms(3, isolated=True) == 10_000


def test_profiles_are_found_by_name() -> None:
    assert profile_named("4.9") is PROFILE_4_9
    assert profile_named("5.x") is PROFILE_5_X
    with pytest.raises(ConfigError, match=r"'6'.*choose from 4\.9, 5\.x"):
        profile_named("6")
