"""Lab 8: who is the master."""

import json
import sys
from typing import Any


def read(log: list[dict[str, Any]], at_s: float) -> dict[str, Any]:
    """What the controller records at a moment."""
    found: dict[str, Any] = {"master": None, "epoch": 0, "in_sync": []}
    for event in log:
        if event["at_s"] > at_s:
            break
        if event["event"] == "elected":
            master = event["master"]
            found = {"master": master, "epoch": event["epoch"], "in_sync": [master]}
        elif event["event"] == "in_sync":
            found["in_sync"] = event["ids"]
    return found


def elect(
    master: int, in_sync: list[int], unclean: bool, replicas: list[dict[str, Any]]
) -> dict[str, Any]:
    """Who is recorded as master afterwards."""
    living = {replica["id"]: replica for replica in replicas if replica["alive"]}
    for among in (in_sync, living) if unclean else (in_sync,):
        able = [living[each] for each in among if each in living]
        if master in living and master in among:
            return {"master": master}
        if able:
            return {"master": min(able, key=rank)["id"]}
    return {"master": None}


def rank(replica: dict[str, Any]) -> tuple[int, ...]:
    return -replica["epoch"], -replica["offset"], replica["priority"], replica["id"]


for line in sys.stdin:
    question = json.loads(line)
    ask = question.pop("ask")
    answer = read(**question) if ask == "read" else elect(**question)
    print(json.dumps(answer), flush=True)
