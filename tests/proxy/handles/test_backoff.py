"""Delays of retries, as `GroupRetryPolicy` and its two policies of 5.3.3 compute them (G-23)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.bodies.groups import (
    CustomizedRetryPolicy,
    ExponentialRetryPolicy,
    GroupRetryPolicy,
    SubscriptionGroupConfig,
)
from pocketmq.proxy.handles.backoff import (
    DEFAULT_STEPS_MS,
    CustomizedBackoff,
    ExponentialBackoff,
    client_backoff,
    server_delay_ms,
)


def group(policy: GroupRetryPolicy | None = None) -> SubscriptionGroupConfig:
    config = SubscriptionGroupConfig(group_name="G")
    if policy is not None:
        config.group_retry_policy = policy
    return config


def test_a_group_that_says_nothing_has_the_delay_levels() -> None:
    minutes = [*range(1, 11), 20, 30, 60, 120]
    assert [*DEFAULT_STEPS_MS] == [1000, 5000, 10000, 30000, *(60_000 * each for each in minutes)]
    assert client_backoff(group()) == CustomizedBackoff(DEFAULT_STEPS_MS)


@pytest.mark.parametrize(
    ("tries", "delay_ms"),
    [(-1, 10_000), (0, 10_000), (1, 30_000), (15, 7_200_000), (99, 7_200_000)],
)
def test_a_step_is_found_two_further_on(tries: int, delay_ms: int) -> None:
    assert server_delay_ms(group(), tries) == delay_ms


def test_a_groups_own_steps_count() -> None:
    policy = GroupRetryPolicy(customized_retry_policy=CustomizedRetryPolicy(next=[1, 2, 3, 4]))
    assert client_backoff(group(policy)) == CustomizedBackoff((1, 2, 3, 4))
    assert [server_delay_ms(group(policy), tries) for tries in range(4)] == [3, 4, 4, 4]


def test_one_step_is_enough() -> None:
    policy = GroupRetryPolicy(customized_retry_policy=CustomizedRetryPolicy(next=[7]))
    assert server_delay_ms(group(policy), 0) == 7


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(1, 10), st.integers(-3, 60))
def test_an_exponential_delay_is_javas(initial: int, most: int, factor: int, tries: int) -> None:
    given_policy = ExponentialRetryPolicy(initial=initial, max=most, multiplier=factor)
    policy = GroupRetryPolicy(type="EXPONENTIAL", exponential_retry_policy=given_policy)
    assert client_backoff(group(policy)) == ExponentialBackoff(initial, most, factor)
    assert server_delay_ms(group(policy), tries) == min(
        most, initial * factor ** min(max(tries, 0), 32)
    )


def test_an_exponential_group_without_numbers_tells_clients_the_defaults_only() -> None:
    policy = GroupRetryPolicy(type="EXPONENTIAL")
    assert client_backoff(group(policy)) == ExponentialBackoff(5_000, 7_200_000, 2)
    assert server_delay_ms(group(policy), 0) == 10_000  # GroupRetryPolicy.getRetryPolicy
