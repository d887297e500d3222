"""Which rule decides (Y-45), beside RocketMQ's own code: 600 generated cases of two releases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from pocketmq.operation.access.infos import policies_of
from pocketmq.operation.access.resources import Resource, topic
from pocketmq.operation.access.rules import (
    Acl,
    Action,
    Decision,
    Entry,
    Need,
    Policy,
    PolicyType,
    Verdict,
    decide,
    is_address_or_network,
    named,
)
from pocketmq.protocol.bodies.access import AclInfo
from support.access_cases import COUNT, SEED, drawn
from support.cost import cost_s
from support.golden import GOLDEN


def answers(release: str) -> list[str]:
    path: Path = GOLDEN / "access" / f"answers_{release}.txt"
    return path.read_text().splitlines()


def ours(case: dict[str, Any], *, longest_prefix_first: bool) -> str:
    info = msgspec.convert(case["acl"], AclInfo)
    acl = Acl("User:shop", tuple(policies_of(info.policies or ())))
    resource = Resource.parse(case["resource"])
    assert resource is not None
    actions = [named(Action, each) for each in case["actions"]]
    need = Need(resource, tuple(each for each in actions if each is not None))
    verdict = decide(acl, need, case["ip"], longest_prefix_first=longest_prefix_first)
    entry = verdict.entry
    return "none" if entry is None else f"{entry.decision.value} {entry.resource.key}"


@pytest.mark.parametrize(("release", "longest"), [("5_3_3", False), ("5_5_0", True)])
def test_the_rule_that_decides_is_the_one_that_rocketmq_takes(release: str, longest: bool) -> None:
    cases, theirs = drawn(SEED, COUNT), answers(release)
    assert len(cases) == len(theirs) == COUNT

    differ = [
        (case, answer, mine)
        for case, answer in zip(cases, theirs, strict=True)
        if (mine := ours(case, longest_prefix_first=longest)) != answer
    ]

    assert not differ[:3]
    assert 100 < sum(answer.startswith("Deny") for answer in theirs) < 300


def verdict(*entries: Entry, ip: str = "10.0.0.1") -> Verdict:
    acl = Acl("User:shop", (Policy(PolicyType.CUSTOM, entries),))
    return decide(acl, Need(topic("orders"), (Action.PUB,)), ip, longest_prefix_first=True)


def entry(resource: str, decision: Decision = Decision.ALLOW, *ips: str) -> Entry:
    parsed = Resource.parse(resource)
    assert parsed is not None
    return Entry(parsed, (Action.PUB,), decision, ips)


def test_without_rules_nothing_is_allowed() -> None:
    need = Need(topic("orders"), (Action.PUB,))
    found = decide(None, need, "10.0.0.1", longest_prefix_first=True)

    assert (found.is_allowed, found.reason) == (False, "no matched policies.")


def test_deny_wins_where_two_rules_are_equal_from_5_4_on() -> None:
    found = verdict(entry("Topic:orders"), entry("Topic:orders", Decision.DENY))

    assert not found.is_allowed


def test_a_longer_prefix_decides_from_5_4_on() -> None:
    found = verdict(entry("Topic:o*"), entry("Topic:ord*", Decision.DENY))

    assert (found.is_allowed, found.reason) == (False, "the decision is deny.")


@pytest.mark.parametrize(
    ("network", "ip", "is_in"),
    [
        ("10.0.0.0/8", "10.255.0.1", True),
        ("10.0.0.0/8", "11.0.0.1", False),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.7/31", "10.0.0.6", True),
        ("0.0.0.0/0", "1.2.3.4", True),
        ("fe80::/10", "fe80::1", True),
        ("fe80::/10", "10.0.0.1", False),
        ("10.0.0.0/8", "2001:db8::1", False),
        ("::/0", "10.0.0.1", True),  # RocketMQ compares numbers
        # Java has no address of IPv6 that is one of IPv4.
        ("::ffff:10.0.0.0/24", "10.0.0.9", True),
        ("::ffff:10.0.0.0/24", "11.0.0.9", False),
        ("::ffff:10.0.0.0/104", "10.0.0.0", True),  # 32 bits of 32, in Java
        ("::ffff:10.0.0.0/104", "10.0.0.9", False),
        ("10.0.0.0/8", "::ffff:10.1.2.3", True),
    ],
)
def test_a_rule_counts_for_clients_of_its_networks(network: str, ip: str, is_in: bool) -> None:
    assert verdict(entry("Topic:orders", Decision.ALLOW, network), ip=ip).is_allowed is is_in


def test_a_rule_may_name_as_many_bits_as_its_address_is_written_with() -> None:
    # As commons-validator 1.7, which RocketMQ asks.
    assert is_address_or_network("::ffff:10.0.0.0/24")
    assert is_address_or_network("::ffff:10.0.0.0/104")
    assert not is_address_or_network("::ffff:10.0.0.0/129")
    assert not is_address_or_network("10.0.0.0/33")
    assert is_address_or_network("2001:db8::/104")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("*", "*"),
        ("topic:a", "Topic:a"),
        ("Topic:a*b*", "Topic:a*"),
        ("GROUP:*", "Group:*"),
        ("any:x", "*"),
        ("Topic:", "Topic:"),
        ("Robot:x", None),
        (" ", None),
    ],
)
def test_resources_are_read_as_rocketmq_reads_them(text: str, key: str | None) -> None:
    found = Resource.parse(text)

    assert (found and found.key) == key


@pytest.mark.parametrize("shape", ["Topic:topic-{}", "Topic:other-{}*", "Group:topic-{}"])
def test_a_heartbeat_of_many_topics_does_not_cost_rules_times_topics(shape: str) -> None:
    needs = [Need(topic(f"topic-{number}"), (Action.PUB,)) for number in range(2_000)]

    def cost_with(rules: int) -> float:
        found = [entry(shape.format(number)) for number in range(rules)]
        acl = Acl("User:shop", (Policy(PolicyType.CUSTOM, (*found, entry("Topic:*"))),))

        def check() -> None:
            for need in needs:
                assert decide(acl, need, "10.0.0.1", longest_prefix_first=True).is_allowed

        return cost_s(check)

    # A hundred times as many: to look at each rule for each topic would cost 30 times as much.
    assert cost_with(1_000) < 8 * cost_with(10)
