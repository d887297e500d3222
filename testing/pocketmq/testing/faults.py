"""Fault rules in a test: the fixture `pocketmq_faults`.

    pocketmq_faults.add("fail", code="SEND_MESSAGE", with_code="SYSTEM_BUSY", nth=1)
    pocketmq_faults.add("lose", code="NOTIFY_CONSUMER_IDS_CHANGED", probability=0.5, seed=7)
    pocketmq_faults.partition("broker-a", "nameserver-1")
    ...
    pocketmq_faults.clear()
    assert pocketmq_faults.fired("r1") == 1

The calls block for a few milliseconds until every role has the rules, also in a coroutine: the
roles run in other threads or processes.
"""

from __future__ import annotations

from typing import Unpack

import msgspec

from pocketmq.protocol.faults.rule import (
    Deed,
    FaultRule,
    Firing,
    WrongFaultError,
    check_deed,
)
from pocketmq.testing.cluster import Cluster
from pocketmq.testing.fault_options import FaultOptions


class Faults:
    """The fault rules of one cluster.

    Args:
        cluster: A cluster that no other test uses.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @property
    def rules(self) -> list[FaultRule]:
        """The current rules."""
        return self.cluster.control.faults.rules

    def add(self, do: Deed, **options: Unpack[FaultOptions]) -> FaultRule:
        """Add a rule.

        Args:
            do: The fault; `FaultRule.do` lists all.
            options: When and where it happens: the other fields of `FaultRule`.

        Raises:
            WrongFaultError: There is no such rule, or it contradicts itself.
            WrongClusterError: The cluster is shared, or has no such role.
        """
        self.cluster.check_own("inject faults", "pocketmq_faults")
        check_deed(do)
        try:
            rule = msgspec.convert({"do": do, **options}, FaultRule)
        except msgspec.ValidationError as exc:
            raise WrongFaultError(f"no such fault rule: {exc}; see docs/control.md") from exc
        return self.cluster.thread.result(self.cluster.control.add_fault(rule))

    def partition(self, one: str, other: str) -> FaultRule:
        """Partition two roles, or a role and all `others`, or a role and `clients`: frames between
        them are held back."""
        return self.add("partition", role=one, other=other)

    def clear(self, rule: FaultRule | str | None = None) -> None:
        """Remove one rule, or all."""
        rule_id = rule.id if isinstance(rule, FaultRule) else rule
        self.cluster.thread.result(self.cluster.control.clear_faults(rule_id))

    def fired(self, rule: FaultRule | str | None = None) -> int:
        """How often a current rule fired, or all of them, summed over all roles."""
        counts = self.cluster.thread.result(self.cluster.control.faults.counts())
        rule_id = rule.id if isinstance(rule, FaultRule) else rule
        wanted = counts.values() if rule_id is None else [counts.get(rule_id, {})]
        return sum(sum(each.values()) for each in wanted)

    def firings(self) -> list[Firing]:
        """The last 1,000 firings of each role, oldest first."""
        return self.cluster.thread.result(self.cluster.control.faults.firings())
