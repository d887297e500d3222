"""What a batch of 32 small messages costs a broker: one process, no sockets.

    .venv/bin/python benchmarks/batches.py [--batches 8000] [--per-read 8]
    .venv/bin/python benchmarks/batches.py --packages OTHER_CHECKOUT

Batches as RocketMQ's Java client writes them, JSON headers and all, go into a broker through one
channel, whose answers are counted. The processor time of each read is measured by itself: on a
machine that does other work the tenth part that took least tells more than the median. Every read
of 8 batches has its share of index entries written.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

BATCH = 32
BODY = bytes(128)
STORED = b'"code":0,'
_ENTRY = struct.Struct(">iiiii")
_WORDS = struct.Struct(">iI")


def batches() -> Iterator[bytes]:
    """Frames of SEND_BATCH_MESSAGE (320); keys count on, and their clock runs."""
    number = 0
    while True:
        parts: list[bytes] = []
        for at in range(BATCH):
            counter = (number * BATCH + at) & 0xFFFF
            key = f"7F00000100A21B2A139A{number // 3:08X}{counter:04X}"
            text = f"UNIQ_KEY\x01{key}\x02WAIT\x01true\x02TAGS\x01TagA\x02".encode()
            total = _ENTRY.size + len(BODY) + 2 + len(text)
            head = _ENTRY.pack(total, 0, 0, 0, len(BODY))
            parts += (head, BODY, struct.pack(">h", len(text)), text)
        fields = {"a": "load", "b": "load", "c": "TBW102", "d": "4", "e": str(number % 4)}
        fields |= {"f": "0", "g": str(1_732_380_000_000 + number), "h": "0", "j": "0", "k": "false"}
        fields |= {"i": "WAIT\x01true\x02", "m": "true", "n": "broker-a"}
        header = {"code": 320, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": number}
        header |= {"serializeTypeCurrentRPC": "JSON", "version": 479}
        encoded, body = json.dumps(header, separators=(",", ":")).encode(), b"".join(parts)
        yield _WORDS.pack(4 + len(encoded) + len(body), len(encoded)) + encoded + body
        number += 1


async def measured(batches_wanted: int, per_read: int) -> list[float]:
    """Processor time of a batch in us, of each read, in ascending order."""
    from many_reads import Answers, Listening

    from pocketmq.broker.config import BrokerConfig
    from pocketmq.broker.server import Broker
    from pocketmq.runtime.clock import SystemClock

    class JsonAnswers(Answers):
        def write(self, data: object) -> None:
            self.stored += bytes(data).count(STORED)  # type: ignore[call-overload]
            self.first.set()

    took: list[float] = []
    network = Listening()
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as folder:
        config = replace(
            BrokerConfig(), data=Path(folder), host="127.0.0.1", port=0, nameservers=()
        )
        broker = Broker(config, SystemClock(), network)
        await broker.start()
        channel = network.listeners[0].channels.accept()
        answers = JsonAnswers(0, channel)
        channel.connection_made(answers)
        frames = batches()
        channel.data_received(next(frames))
        await answers.first.wait()  # that made the topic
        for _ in range(batches_wanted // per_read):
            read = b"".join([next(frames) for _ in range(per_read)])
            before, began_ns = answers.stored, time.thread_time_ns()
            channel.data_received(read)
            await asyncio.sleep(0)
            took.append((time.thread_time_ns() - began_ns) / per_read / 1000)
            await asyncio.sleep(0)
            if answers.stored - before != per_read:
                raise RuntimeError(f"{answers.stored - before} of {per_read} batches were stored")
        await broker.stop()
    return sorted(took[len(took) // 8 :])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", type=int, default=8_000)
    parser.add_argument("--per-read", type=int, default=8)
    parser.add_argument("--packages", type=Path, help="checkout whose broker is measured")
    options = parser.parse_args()
    if options.packages is not None:
        sys.path[:0] = [str(each.parent) for each in options.packages.glob("*/pocketmq")]
    import structlog
    import uvloop

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    took = uvloop.run(measured(options.batches, options.per_read))
    parts = {"a tenth under": len(took) // 10, "half under": len(took) // 2}
    print(json.dumps({name: round(took[at], 1) for name, at in parts.items()}))


if __name__ == "__main__":
    main()
