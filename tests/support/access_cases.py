"""Generated questions to access rules: what RocketMQ's own code answers is a golden file."""

from __future__ import annotations

import random
from typing import Any

SEED = 39
COUNT = 600

ACTIONS = ("Pub", "Sub", "Create", "Update", "Delete", "Get", "List", "All")
NAMES = ("o", "or", "ord", "orders", "orders-eu", "billing")
PATTERNS = ("*", "Topic:*", "Group:*", "Cluster:*", "Topic:o*", "Topic:or*", "Topic:ord*",
            "Topic:orders*", "Group:o*", "Group:orders*", "Topic:orders", "Topic:orders-eu",
            "Group:orders", "Cluster:c", "topic:billing", "Topic:orders*x*")  # fmt: skip
ADDRESSES = (None, None, None, ["10.0.0.1"], ["10.0.0.0/8"], ["10.1.0.0/16", "192.168.0.7"],
             ["fe80::/10"], ["0.0.0.0/0"])  # fmt: skip
CLIENTS = ("10.0.0.1", "10.1.2.3", "192.168.0.7", "172.16.0.1")


def drawn(seed: int, count: int) -> list[dict[str, Any]]:
    """So many cases: rules, and what a request needs."""
    dice = random.Random(seed)
    return [_case(dice) for _ in range(count)]


def _case(dice: random.Random) -> dict[str, Any]:
    policies = [
        {"policyType": kind, "entries": [_entry(dice) for _ in range(dice.randint(2, 24))]}
        for kind in dice.choice((["Custom"], ["Custom"], ["Custom", "Default"], ["Default"]))
    ]
    kind = dice.choice(("Topic", "Topic", "Topic", "Group", "Cluster"))
    name = "c" if kind == "Cluster" else dice.choice(NAMES)
    return {
        "acl": {"subject": "User:shop", "policies": policies},
        "resource": f"{kind}:{name}",
        "actions": dice.sample(ACTIONS[:-1], dice.choice((1, 1, 2))),
        "ip": dice.choice(CLIENTS),
    }


def _entry(dice: random.Random) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": dice.choice(PATTERNS),
        "actions": dice.sample(ACTIONS, dice.choice((1, 3, 6))),
        "decision": dice.choice(("Allow", "Deny")),
    }
    addresses = dice.choice(ADDRESSES)
    return entry if addresses is None else {**entry, "sourceIps": addresses}
