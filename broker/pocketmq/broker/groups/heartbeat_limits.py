"""Refuses heartbeats that have waited too long or are too large."""

from __future__ import annotations

from pocketmq.broker.overload.overload import Overload, Work
from pocketmq.protocol.bodies.clients import HeartbeatData
from pocketmq.protocol.budget import BudgetSource


class HeartbeatLimits:
    """Limits on a heartbeat's waiting time and size.

    Args:
        overload: how long it may have waited.
        budget: how many groups and subscriptions it may hold.
    """

    def __init__(self, overload: Overload, budget: BudgetSource) -> None:
        self._overload = overload
        self._budget = budget

    def check_waited(self) -> None:
        """Check the waiting time of a heartbeat, before it is decoded.

        Raises:
            RequestRefusedError: SYSTEM_BUSY (2): it has waited too long (B-161).
        """
        self._overload.check(Work.HEARTBEAT)

    def check(self, data: HeartbeatData) -> None:
        """Check the size of a heartbeat: other requests wait while it is handled.

        Raises:
            OverBudgetError: it holds too many groups or subscriptions, or too long ones.
        """
        budget, consumers = self._budget(), data.consumer_data_set
        groups = len(consumers) + len(data.producer_data_set)
        budget.check("groups_per_heartbeat", groups, "groups of the heartbeat")
        wanted = [each.subscription_data_set for each in consumers]
        budget.check(
            "subscriptions_per_heartbeat",
            sum(map(len, wanted)),
            "subscriptions of the heartbeat",
        )
        # Names become keys of tables, so their length is limited.
        self._check_names(data)
        longest = max((len(data.sub_string) for each in wanted for data in each), default=0)
        budget.check(
            "subscription_chars",
            longest,
            "characters of a subscription",
            advice="subscribe to fewer tags",
        )

    def _check_names(self, data: HeartbeatData) -> None:
        names = [data.client_id]
        names += [each.group_name for each in data.consumer_data_set]
        names += [each.group_name for each in data.producer_data_set]
        names += [
            each.topic for group in data.consumer_data_set for each in group.subscription_data_set
        ]
        self._budget().check("name_chars", max(map(len, names)), "characters of a name")
