"""Lab 3: rendezvous hashing with places: whoever draws highest takes the queue, until full."""

import hashlib
import json
import sys
from functools import cache


@cache
def draw(member: str, queue: str) -> bytes:
    return hashlib.md5(f"{member} {queue}".encode(), usedforsecurity=False).digest()


def allocate(members: list[str], queues: list[str]) -> dict[str, list[str]]:
    places, larger = divmod(len(queues), len(members))
    shares: dict[str, list[str]] = {member: [] for member in members}
    left = set(queues)
    pairs = sorted((draw(member, queue), member, queue) for member in members for queue in queues)
    for _, member, queue in pairs:
        size = len(shares[member])
        if queue not in left or size > places or (size == places and not larger):
            continue
        larger -= size == places
        shares[member].append(queue)
        left.remove(queue)
    return {member: sorted(mine) for member, mine in shares.items()}


for line in sys.stdin:
    asked = json.loads(line)
    shares = allocate(asked["members"], asked["queues"])
    print(json.dumps({"queues": shares[asked["member"]]}), flush=True)
