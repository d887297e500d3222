"""What a client is told: its own settings with the server's values over them (G-21 to G-24)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from pocketmq.protocol.bodies.groups import (
    CustomizedRetryPolicy,
    ExponentialRetryPolicy,
    GroupRetryPolicy,
    SubscriptionGroupConfig,
)
from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.settings.limits import Limits

_RETRY_S: Final = (
    1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200,
)  # fmt: skip
DEFAULT_STEPS_MS: Final = tuple(each * 1_000 for each in _RETRY_S)
"""How long the attempts of a group wait that says nothing of it."""


def duration(milliseconds: int) -> Any:
    """A `Duration`."""
    return pb.Duration(seconds=milliseconds // 1_000, nanos=milliseconds % 1_000 * 1_000_000)


def for_producer(said: Any, limits: Limits) -> Any:
    """The settings of a producer (G-22)."""
    told = pb.Settings()
    told.CopyFrom(said)
    backoff = told.backoff_policy
    backoff.max_attempts = limits.producer_max_attempts
    backoff.exponential_backoff.CopyFrom(
        pb.ExponentialBackoff(
            initial=duration(limits.producer_backoff_initial_ms),
            max=duration(limits.producer_backoff_max_ms),
            multiplier=limits.producer_backoff_multiplier,
        )
    )
    told.publishing.validate_message_type = True
    told.publishing.max_body_size = limits.max_message_size
    told.metric.CopyFrom(pb.Metric(on=False))
    return told


def kept_of_consumer(said: Any, limits: Limits) -> Any:
    """What is kept of a consumer's settings: a fresh group's, with its own over them (G-23)."""
    fresh = SubscriptionGroupConfig(group_name="")
    kept = for_consumer(pb.Settings(), fresh, limits)
    kept.ClearField("metric")
    if said.backoff_policy.HasField("exponential_backoff") or said.backoff_policy.HasField(
        "customized_backoff"
    ):
        kept.backoff_policy.ClearField("strategy")  # lists are lengthened by a merge, not replaced
    kept.MergeFrom(said)
    return kept


def for_consumer(kept: Any, group: SubscriptionGroupConfig | None, limits: Limits) -> Any:
    """The settings of a consumer (G-23).

    Args:
        kept: Of it.
        group: The group's configuration; None where no broker tells it, and nothing is changed.
        limits: The proxy's.
    """
    told = pb.Settings()
    told.CopyFrom(kept)
    if group is not None:
        subscription, backoff = told.subscription, told.backoff_policy
        subscription.receive_batch_size = limits.receive_batch_size
        subscription.long_polling_timeout.CopyFrom(duration(limits.max_long_polling_ms))
        subscription.fifo = group.consume_message_orderly
        backoff.max_attempts = group.retry_max_times + 1
        _set_strategy(backoff, group.group_retry_policy)
    told.metric.CopyFrom(pb.Metric(on=False))
    return told


def _set_strategy(backoff: Any, policy: GroupRetryPolicy | msgspec.UnsetType | None) -> None:
    if isinstance(policy, GroupRetryPolicy) and policy.type == "EXPONENTIAL":
        initial_ms, max_ms, multiplier = 5_000, 2 * 3_600_000, 2
        given = policy.exponential_retry_policy
        if isinstance(given, ExponentialRetryPolicy):
            initial_ms = initial_ms if given.initial is None else given.initial
            max_ms = max_ms if given.max is None else given.max
            multiplier = multiplier if given.multiplier is None else given.multiplier
        backoff.exponential_backoff.CopyFrom(
            pb.ExponentialBackoff(
                initial=duration(initial_ms), max=duration(max_ms), multiplier=multiplier
            )
        )
        return
    steps = DEFAULT_STEPS_MS
    if isinstance(policy, GroupRetryPolicy):
        listed = policy.customized_retry_policy
        if isinstance(listed, CustomizedRetryPolicy) and listed.next:
            steps = tuple(listed.next)
    backoff.customized_backoff.CopyFrom(
        pb.CustomizedBackoff(next=[duration(each) for each in steps])
    )
