"""Faults by rule in a test: what `pocketmq_faults` gives.

    pocketmq_faults.add("fail", code="SEND_MESSAGE", with_code="SYSTEM_BUSY", nth=1)
    pocketmq_faults.add("lose", code="NOTIFY_CONSUMER_IDS_CHANGED", probability=0.5, seed=7)
    pocketmq_faults.partition("broker-a", "nameserver-1")
    ...
    pocketmq_faults.clear()
    assert pocketmq_faults.fired("r1") == 1

The calls block until every role has taken the rules, a few milliseconds, whether they are made in a
coroutine or not: the roles live in other threads or processes.
"""

from __future__ import annotations

from typing import Unpack

import msgspec

from pocketmq.protocol.faults.rule import Deed, FaultRule, Firing
from pocketmq.testing.cluster import Cluster
from pocketmq.testing.fault_options import FaultOptions


class Faults:
    """The fault rules of one cluster.

    Args:
        cluster: Of this test's own.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @property
    def rules(self) -> list[FaultRule]:
        """Those that hold."""
        return self.cluster.control.faults.rules

    def add(self, do: Deed, **options: Unpack[FaultOptions]) -> FaultRule:
        """Let a rule hold from now on.

        Args:
            do: What happens; `FaultRule.do` lists it.
            options: When and where: the other fields of `FaultRule`.

        Raises:
            WrongFaultError: The rule contradicts itself.
            WrongClusterError: The cluster is shared, or has no such role.
        """
        self.cluster.check_own("inject faults", "pocketmq_faults")
        rule = msgspec.convert({"do": do, **options}, FaultRule)
        return self.cluster.thread.result(self.cluster.control.add_fault(rule))

    def partition(self, one: str, other: str) -> FaultRule:
        """Hold back all that two roles, or a role and `clients`, say to each other."""
        return self.add("partition", role=one, other=other)

    def clear(self, rule: FaultRule | str | None = None) -> None:
        """Take one rule back, or all."""
        rule_id = rule.id if isinstance(rule, FaultRule) else rule
        self.cluster.thread.result(self.cluster.control.clear_faults(rule_id))

    def fired(self, rule: FaultRule | str | None = None) -> int:
        """How often a rule that holds fired, or all of them, at all roles together."""
        counts = self.cluster.thread.result(self.cluster.control.faults.counts())
        rule_id = rule.id if isinstance(rule, FaultRule) else rule
        wanted = counts.values() if rule_id is None else [counts.get(rule_id, {})]
        return sum(sum(each.values()) for each in wanted)

    def firings(self) -> list[Firing]:
        """What fired, oldest first: the last 1,000 of each role."""
        return self.cluster.thread.result(self.cluster.control.faults.firings())
