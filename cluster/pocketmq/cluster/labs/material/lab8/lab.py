"""Lab 8: who is the master. Read README.md, then write `read` and `elect`."""

import json
import sys
from typing import Any


def read(log: list[dict[str, Any]], at_s: float) -> dict[str, Any]:
    """What the controller records at a moment."""
    return {"master": 1, "epoch": 1, "in_sync": [1]}


def elect(
    master: int, in_sync: list[int], unclean: bool, replicas: list[dict[str, Any]]
) -> dict[str, Any]:
    """Who is recorded as master afterwards."""
    living = [replica for replica in replicas if replica["alive"]]
    longest = max(living, key=lambda replica: replica["offset"])
    return {"master": longest["id"]}


for line in sys.stdin:
    question = json.loads(line)
    ask = question.pop("ask")
    answer = read(**question) if ask == "read" else elect(**question)
    print(json.dumps(answer), flush=True)
