"""What requests may make controllers read and keep, by the budget of the moment."""

from __future__ import annotations

from collections.abc import Collection

from pocketmq.controller.errors import ControllerRefusedError
from pocketmq.controller.limits import Limits, limits_of
from pocketmq.protocol.budget import BudgetSource
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command


class Bounds:
    """Refuses what is too much, before it is read or proposed."""

    def __init__(self, budget: BudgetSource) -> None:
        self._budget = budget

    @property
    def limits(self) -> Limits:
        """For the commands that are proposed."""
        return limits_of(self._budget())

    def check_names(self, *texts: str) -> None:
        """Names and addresses: none is empty, none too long."""
        # An empty name would become a name of its own in the state.
        if not all(texts):
            raise ControllerRefusedError(
                ResponseCode.CONTROLLER_INVALID_REQUEST,
                "a name or an address in the request is empty",
            )
        self.check_lengths(*texts)

    def check_lengths(self, *texts: str) -> None:
        """Names and addresses that may be empty."""
        longest = max(len(text) for text in texts)
        self._budget().check(
            "name_chars",
            longest,
            "characters of a name or address",
            code=ResponseCode.CONTROLLER_INVALID_REQUEST,
        )

    def check_ids(self, ids: Collection[int]) -> None:
        """Replicas of one name that a request lists."""
        self._budget().check("replicas_per_name", len(ids), "replicas of the request")

    def check_body(self, request: Command) -> None:
        """A body that is no declared one, and is read all the same."""
        self._budget().check("body_bytes", len(request.body), "bytes of the request's body")

    def check_heartbeats(self, count: int) -> None:
        """How many brokers' heartbeats are kept."""
        self._budget().check(
            "replicas",
            count,
            "brokers whose heartbeats are kept",
            advice="see who sends them, or raise it",
            code=ResponseCode.SYSTEM_BUSY,
        )
