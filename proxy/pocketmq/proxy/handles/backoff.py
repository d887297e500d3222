"""How long a failed message waits, as its group's configuration says (G-23, G-97). Pure."""

from __future__ import annotations

from itertools import accumulate, repeat
from typing import Final

import msgspec

from pocketmq.protocol.bodies.groups import GroupRetryPolicy, SubscriptionGroupConfig

_S: Final = 1_000
_MIN: Final = 60 * _S
_H: Final = 60 * _MIN

DEFAULT_STEPS_MS: Final = (
    1 * _S, 5 * _S, 10 * _S, 30 * _S, *(minutes * _MIN for minutes in (*range(1, 11), 20, 30)),
    1 * _H, 2 * _H,
)  # fmt: skip
"""RocketMQ's, which are its delay levels: 1s 5s 10s 30s 1m ... 10m 20m 30m 1h 2h."""

_FIRST_STEP: Final = 2
"""A first failure waits 10 s: brokers always began at their third delay level (B-82)."""

_MAX_DOUBLINGS: Final = 32


class CustomizedBackoff(msgspec.Struct, frozen=True):
    """Steps, one for each try; the last one for all that follow."""

    next_ms: tuple[int, ...] = DEFAULT_STEPS_MS

    def delay_ms(self, reconsume_times: int) -> int:
        """How long a message waits that was tried so often before."""
        return self.next_ms[min(max(reconsume_times, 0) + _FIRST_STEP, len(self.next_ms) - 1)]


class ExponentialBackoff(msgspec.Struct, frozen=True):
    """A delay that grows with each try, up to a longest one."""

    initial_ms: int = 5 * _S
    max_ms: int = 2 * _H
    multiplier: int = 2

    def delay_ms(self, reconsume_times: int) -> int:
        """How long a message waits that was tried so often before."""
        tries = min(max(reconsume_times, 0), _MAX_DOUBLINGS)
        # Step by step, for the power of an absurd multiplier would be a number of 600 digits.
        for delay in accumulate(repeat(self.multiplier, tries), _times, initial=self.initial_ms):
            if delay >= self.max_ms:
                return self.max_ms
        return delay


Backoff = CustomizedBackoff | ExponentialBackoff


def _times(delay: int, multiplier: int) -> int:
    return delay * multiplier


def client_backoff(config: SubscriptionGroupConfig) -> Backoff:
    """What a consumer of the group is told, which then sends its failed messages back by it."""
    policy = config.group_retry_policy
    # Groups of older brokers have no retry policy.
    if not isinstance(policy, GroupRetryPolicy):
        return CustomizedBackoff()
    # A policy without values gets the defaults of its kind.
    if policy.type == "EXPONENTIAL":
        return _exponential(policy) or ExponentialBackoff()
    return _customized(policy) or CustomizedBackoff()


def server_delay_ms(config: SubscriptionGroupConfig, reconsume_times: int) -> int:
    """When a message comes again that its consumer held for longer than is renewed (G-97)."""
    policy = config.group_retry_policy
    backoff: Backoff | None = None
    if isinstance(policy, GroupRetryPolicy):
        backoff = _exponential(policy) if policy.type == "EXPONENTIAL" else _customized(policy)
    # A policy without values gets the default list, also for EXPONENTIAL (G-97).
    return (backoff or CustomizedBackoff()).delay_ms(reconsume_times)


def _exponential(policy: GroupRetryPolicy) -> ExponentialBackoff | None:
    given = policy.exponential_retry_policy
    if not given:
        return None
    default = ExponentialBackoff()
    return ExponentialBackoff(
        default.initial_ms if given.initial is None else given.initial,
        default.max_ms if given.max is None else given.max,
        default.multiplier if given.multiplier is None else given.multiplier,
    )


def _customized(policy: GroupRetryPolicy) -> CustomizedBackoff | None:
    given = policy.customized_retry_policy
    return CustomizedBackoff(tuple(given.next)) if given and given.next else None
