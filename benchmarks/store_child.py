"""A store alone in a process: filled, loaded or verified. Used by `store.py`.

    python store_child.py fill --data DIR --bytes N      fills, says READY, waits for SIGTERM
    python store_child.py load --data DIR [--kill]       loads it; --kill ends without closing it
    python store_child.py verify --data DIR [--workers]

The last two print one JSON line, with the cost of `zlib.crc32` over the same bytes beside it.
Seconds are wall time; `cpu_s` is this process's own processor time, which others cannot lengthen.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from zlib import crc32

from pocketmq.broker.store import MessageStore, OsDisk, StoreConfig, StoredMessage
from pocketmq.broker.store.tools.stopped_store import Row
from pocketmq.broker.store.tools.verify import verify_store
from pocketmq.protocol.messages.properties import encode_properties
from pocketmq.protocol.messages.subscription import tags_code
from pocketmq.runtime import logs
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.profile import PROFILE_5_X

BATCH = 64
BODY = b"x" * 1024
HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
PER_TOPIC = 4


def messages(queues: int, *, keyed: bool = False) -> Iterator[list[StoredMessage]]:
    """Batches without end: bodies of 1 KiB, a tag and a unique key, over all queues in turn."""
    number = 0
    while True:
        batch = []
        for _ in range(BATCH):
            properties = {"UNIQ_KEY": f"7F00000100002A139A5500{number:010X}", "WAIT": "true"}
            if keyed:
                properties["KEYS"] = f"order-{number:08d}"
            properties["TAGS"] = "TagA"
            topic, queue_id = divmod(number % queues, PER_TOPIC)
            batch.append(
                StoredMessage(
                    topic=f"bench-{topic}",
                    queue_id=queue_id,
                    body=BODY,
                    properties=encode_properties(properties).encode(),
                    flag=0,
                    sys_flag=0,
                    born_timestamp_ms=1_700_000_000_000,
                    born_host=HOST,
                    store_host=HOST,
                    tags_code=tags_code("TagA"),
                    uniq_key=properties["UNIQ_KEY"],
                    keys=properties.get("KEYS"),
                )
            )
            number += 1
        yield batch


def open_store(root: str, **options: Any) -> MessageStore:
    """A store with RocketMQ's sizes, not loaded yet."""
    config = replace(StoreConfig(store_path_root_dir=root), **options)
    return MessageStore(config, OsDisk(), SystemClock(), PROFILE_5_X.broker)


async def fill(options: argparse.Namespace) -> None:
    """Put until the log is so long, as a broker would; then stay."""
    never = 1 << 60
    rarely = {"confirm_distance_bytes": never, "flush_consume_queue_thorough_interval_ms": never}
    store = open_store(options.data, **(rarely if options.unconfirmed else {}))
    store.load()
    store.start()
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    for batch in messages(options.queues, keyed=options.keyed):
        store.put_messages(batch)
        await asyncio.sleep(0)
        if store.commit_log.max_offset >= options.bytes:
            break
    print("READY port=0", flush=True)  # what `processes.Process` waits for
    await ended.wait()
    await store.close()


def measured(work: Callable[[], object]) -> dict[str, float]:
    """Wall and processor seconds of a call."""
    began, cpu = time.perf_counter(), time.process_time()
    work()
    return {"seconds": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}


def crc_of(root: str, start: int, end: int) -> dict[str, float]:
    """What `crc32` of a stretch of the log costs, file by file, in mappings of its own."""

    def run() -> None:
        for file in Row(OsDisk(), os.path.join(root, "commitlog")).files:
            first, last = max(start, file.start), min(end, file.end)
            if first < last:
                crc32(file.view()[first - file.start : last - file.start])

    return measured(run)


def load(options: argparse.Namespace) -> None:
    """Load once, as a restart does."""
    store = open_store(options.data)
    result = measured(store.load)
    end = store.commit_log.max_offset
    start = store.checkpoint.durable_offset  # a load leaves there where it began to read
    crc = crc_of(options.data, start, end)
    print(json.dumps({**result, "bytes": end - start, "crc": crc}), flush=True)
    if options.kill:
        os._exit(0)  # as a kill leaves it
    store.close_files()


def verify(options: argparse.Namespace) -> None:
    """Verify once; with more than one worker `cpu_s` is not all of it."""
    crc = crc_of(options.data, 0, options.bytes)
    disk = OsDisk()
    result = measured(lambda: verify_store(disk, options.data, workers=options.workers))
    print(json.dumps({**result, "crc": crc}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["fill", "load", "verify"])
    parser.add_argument("--data", required=True, help="the store's directory")
    parser.add_argument("--bytes", type=int, default=0, help="length of the log")
    parser.add_argument("--queues", type=int, default=4, help="fill: how many, four to a topic")
    parser.add_argument("--keyed", action="store_true", help="fill: each message has KEYS too")
    parser.add_argument("--unconfirmed", action="store_true", help="fill: leave the checkpoint")
    parser.add_argument("--kill", action="store_true", help="load: end without closing")
    parser.add_argument("--workers", type=int, default=1, help="verify: processes")
    options = parser.parse_args()
    logs.configure("warning")
    if options.command == "fill":
        asyncio.run(fill(options))
    else:
        {"load": load, "verify": verify}[options.command](options)


if __name__ == "__main__":
    main()
