"""Finds brokers that run on the same store under another name, so that nothing is read twice.

A stream knows a queue by its broker's name. Where that broker is away, and another one that the
stream does not know has the very messages that were read before the queues' offsets, it is the same
store: the stream goes on there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from pocketmq.pipeline.progress.checkpoint import Checkpoint, Mark
from pocketmq.pipeline.progress.marks import read_marks
from pocketmq.pipeline.topics.cluster_client import ClusterClient
from pocketmq.pipeline.workers.worker_log import log
from pocketmq.protocol.messages.message import MessageQueue


async def find_renamed(
    client: ClusterClient, group: str, stand: Checkpoint, present: Collection[MessageQueue]
) -> dict[str, str]:
    """New names of brokers, by the names that the stream knows.

    Args:
        client: Asks.
        group: Group to pull as.
        stand: Where the stream stands.
        present: The queues that there are.
    """
    known = {queue.broker_name for queue in stand.offsets}
    strangers = {queue.broker_name for queue in present} - known
    missing = {queue.broker_name for queue in stand.offsets.keys() - set(present)}
    # Nearly always the case, and then no broker is asked.
    if not strangers or not missing:
        return {}
    found: dict[str, str] = {}
    # A broker that runs but lacks a queue was not renamed.
    for name in sorted(missing - await client.brokers()):
        for stranger in sorted(strangers):
            if await _is_same(client, group, stand, name, stranger, set(present)):
                found[name] = stranger
                # A store has only one name.
                strangers.discard(stranger)
                log.warning("broker.renamed", broker=stranger, was=name)
                break
    return found


async def _is_same(
    client: ClusterClient,
    group: str,
    stand: Checkpoint,
    name: str,
    stranger: str,
    present: Collection[MessageQueue],
) -> bool:
    """Whether a broker has the messages that were read of another one: all that it stores."""
    wanted: dict[MessageQueue, Mark] = {}
    for queue, mark in stand.marks.items():
        its = msgspec.structs.replace(queue, broker_name=stranger)
        if queue.broker_name == name and its in present:
            wanted[its] = mark
    places = {
        queue: stand.offsets[msgspec.structs.replace(queue, broker_name=name)] - 1
        for queue in wanted
    }
    now = await read_marks(client, group, places)
    # All stored marks must be the same: a single other message means another store.
    return bool(now) and all(wanted[queue] == mark for queue, mark in now.items())


def under_names(stand: Checkpoint, names: Mapping[str, str]) -> Checkpoint:
    """A stand whose queues are those of the renamed brokers; these have no partition number yet."""
    if not names:
        return stand

    def new(queue: MessageQueue) -> MessageQueue:
        name = names.get(queue.broker_name)
        return queue if name is None else msgspec.structs.replace(queue, broker_name=name)

    return Checkpoint(
        {new(queue): at for queue, at in stand.offsets.items()},
        {new(queue): mark for queue, mark in stand.marks.items()},
        early={new(queue): early for queue, early in stand.early.items()},
        partitions={
            queue: number
            for queue, number in stand.partitions.items()
            if queue.broker_name not in names
        },
        renamed=names,
    )
