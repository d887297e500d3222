"""Looks at the committed offsets of a running cluster, for `latency`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pocketmq.pipeline.installed import check_arrow


def sample(
    path: str | Path,
    *,
    nameservers: str,
    every_s: float,
    rounds: int,
    on_round: Callable[[int], None] | None = None,
) -> int:
    """Look at the committed offsets of all brokers, and append what has changed to a file.

    Args:
        path: JSON lines; several runs may append to one file.
        nameservers: Of the cluster.
        every_s: Seconds between two looks: that is how exact `latency` will be.
        rounds: How many looks.
        on_round: Told how many are done.

    Returns:
        Lines written.

    Raises:
        OptionError: No name server answers.
        MissingToolError: PyArrow or NumPy is not installed.
    """
    check_arrow("looking at committed offsets")
    from pocketmq.pipeline.topics.settings import access_of_text
    from pocketmq.pipeline.workers.loop import shared_loop

    client = access_of_text("latency", nameservers).client()
    last: dict[str, dict[str, dict[int, int]]] = {}
    written = 0
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("a") as file:
        for number in range(rounds):
            # No wait before the first look, and none after the last.
            if number:
                shared_loop().result(client.clock.sleep(every_s))
            for broker, table in sorted(shared_loop().result(client.offset_tables()).items()):
                # The time is taken after the answer: a commit is reported late rather than early.
                now = client.clock.time_ms()
                changed = _changed(last.get(broker, {}), table)
                # Also without changes: the sample then says that nothing was committed up to this
                # time.
                row: dict[str, Any] = {"timeMs": now, "broker": broker, "offsets": changed}
                file.write(json.dumps(row) + "\n")
                last[broker] = table
                written += 1
            file.flush()
            # On the disk at once: a lost sample cannot be taken again.
            os.fsync(file.fileno())
            if on_round is not None:
                on_round(number + 1)
    return written


def _changed(
    old: Mapping[str, Mapping[int, int]], new: Mapping[str, Mapping[int, int]]
) -> dict[str, dict[int, int]]:
    found = {
        name: {
            queue: offset
            for queue, offset in offsets.items()
            if old.get(name, {}).get(queue) != offset
        }
        for name, offsets in new.items()
    }
    return {name: offsets for name, offsets in found.items() if offsets}
