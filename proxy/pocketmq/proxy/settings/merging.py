"""What a client is told: its own settings with the server's values over them (G-21 to G-24)."""

from __future__ import annotations

from typing import Any

from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.scalars import INT32_MAX
from pocketmq.proxy.handles.backoff import ExponentialBackoff, client_backoff
from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.settings.limits import Limits


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
    # With this, SDKs check message types themselves, which saves a request.
    told.publishing.validate_message_type = True
    told.publishing.max_body_size = limits.max_message_size
    told.metric.CopyFrom(pb.Metric(on=False))
    return told


def kept_of_consumer(said: Any, limits: Limits) -> Any:
    """What is kept of a consumer's settings: a fresh group's, with its own over them (G-23)."""
    fresh = SubscriptionGroupConfig(group_name="")
    # First the fresh group's values, so that what the client says goes over them.
    kept = for_consumer(pb.Settings(), fresh, limits)
    kept.ClearField("metric")
    # Only if the client has its own: otherwise the fresh group's list must stay.
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
    # Without an answer about the group the values stay: a fault must not change the order.
    if group is not None:
        subscription, backoff = told.subscription, told.backoff_policy
        subscription.receive_batch_size = limits.receive_batch_size
        subscription.long_polling_timeout.CopyFrom(duration(limits.max_long_polling_ms))
        subscription.fifo = group.consume_message_orderly
        # Attempts count the first try, unlike retries; a group without a limit would overflow the
        # field.
        backoff.max_attempts = min(group.retry_max_times + 1, INT32_MAX)
        _set_strategy(backoff, group)
    told.metric.CopyFrom(pb.Metric(on=False))
    return told


def _set_strategy(backoff: Any, group: SubscriptionGroupConfig) -> None:
    policy = client_backoff(group)
    if isinstance(policy, ExponentialBackoff):
        backoff.exponential_backoff.CopyFrom(
            pb.ExponentialBackoff(
                initial=duration(policy.initial_ms),
                max=duration(policy.max_ms),
                multiplier=policy.multiplier,
            )
        )
    else:
        backoff.customized_backoff.CopyFrom(
            pb.CustomizedBackoff(next=[duration(each) for each in policy.next_ms])
        )
