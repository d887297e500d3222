"""How long a receive waits at its broker, and until when its client is answered (G-81). Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

SHORTEST_MS: Final = 5_000
LONGEST_MS: Final = 20_000

MARGIN_MS: Final = 500
"""Before a client's deadline it is answered. RocketMQ's proxy waits until the deadline itself, when
an SDK gives up a receive that says the same for both, as Rust's does."""

FIRST_VERSION_THAT_KNOWS: Final = "5.0.3"
"""SDKs before it do not know the code ILLEGAL_POLLING_TIME (40018), and get BAD_REQUEST (40000).
Versions are compared as texts, as RocketMQ does."""

NOT_ENOUGH: Final = (
    "The deadline time remaining is not enough for polling, please check network condition"
)


class Polling(NamedTuple):
    """How one receive waits."""

    poll_ms: int
    """On the clock of the cluster; the broker waits so long."""
    limit_ms: int | None
    """On real time: then the client is answered, whatever the cluster's clock says."""


def polling(asked_ms: int | None, remaining_ms: int | None, request_timeout_ms: int) -> Polling:
    """How a receive waits.

    Args:
        asked_ms: `long_polling_timeout`, if there is one.
        remaining_ms: Until the client's deadline, real time; None: it has none.
        request_timeout_ms: Of the client's settings.

    Raises:
        ValueError: too little is left for any poll.
    """
    if asked_ms is None:
        if remaining_ms is None:
            raise ValueError(
                "the request has neither a deadline nor a long_polling_timeout; set one of them "
                "to say how long to wait"
            )
        asked_ms = remaining_ms - request_timeout_ms // 2
    poll_ms = max(SHORTEST_MS, min(asked_ms, LONGEST_MS))
    if remaining_ms is None:
        return Polling(poll_ms, None)
    if poll_ms > remaining_ms and remaining_ms < SHORTEST_MS:
        raise ValueError(NOT_ENOUGH)
    limit_ms = remaining_ms - MARGIN_MS
    # The poll ends before the client is answered: what it brings then still reaches the client.
    return Polling(min(poll_ms, limit_ms), limit_ms)


def knows_polling_time(client_version: str | None) -> bool:
    """Whether an SDK of this version knows the code for a poll that is too short."""
    return client_version is not None and client_version >= FIRST_VERSION_THAT_KNOWS
