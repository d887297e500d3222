"""Lab 3: an allocation strategy. Read README.md, then write a better `allocate`."""

import json
import sys


def allocate(members: list[str], queues: list[str]) -> dict[str, list[str]]:
    """The queues of each member: blocks, as RocketMQ's AVG."""
    members = sorted(members)
    each, rest = divmod(len(queues), len(members))
    shares = {}
    at = 0
    for number, member in enumerate(members):
        size = each + (1 if number < rest else 0)
        shares[member] = queues[at : at + size]
        at += size
    return shares


for line in sys.stdin:
    asked = json.loads(line)
    shares = allocate(asked["members"], asked["queues"])
    print(json.dumps({"queues": shares[asked["member"]]}), flush=True)
