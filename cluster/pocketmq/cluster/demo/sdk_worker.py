"""A producer or consumer with RocketMQ's Python SDK: `python -P sdk_worker.py send|receive`.

The Python that has the SDK runs it as a file, so it imports nothing of PocketMQ. It speaks to the
director as the demo's other workers do: a ready line, then events as JSON lines.

A consumer writes a message down before it acknowledges it, and a producer repeats what was not
acknowledged, so nothing is lost; what is stored or consumed twice has the same number.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, Final

NUMBER: Final = "number"
"""Property that tells a flight from all others, also when it is stored twice."""

LANES: Final = 8
"""Sends, or acknowledgements, that a process has under way at once."""
RECEIVERS: Final = 16
"""Receives at once. The SDK asks brokers in turn, and one that has nothing keeps a receive for 5 s
(G-81): of a backlog at one of two brokers, 2 receives brought 640 messages in 45 s, 16 in 7 s."""
BATCH: Final = 32
REQUEST_LIMIT_S: Final = 10
AWAIT_S: Final = 2
REPORT_EVERY: Final = 500
PAUSE_S: Final = 0.1
LOOK_S: Final = 0.2

_now_s = time.monotonic  # noqa: TID251 - PocketMQ's clock is not there


class Worker:
    """What producer and consumer share: when to stop, and who hears what.

    Args:
        options: Of the command line.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.sdk: Any = importlib.import_module("rocketmq")
        """Imported here: whoever reads this module may have none."""
        self.where = self.sdk.ClientConfiguration(
            options.endpoints, self.sdk.Credentials(), request_timeout=REQUEST_LIMIT_S
        )
        self.stop = threading.Event()
        self._parent = os.getppid()
        self._lock = threading.Lock()

    def tell(self, event: str, **facts: object) -> None:
        """Report an event to the director."""
        # Lanes report from several threads, and their lines must not mix.
        with self._lock:
            print(json.dumps({"event": event, **facts}), flush=True)

    def run(self, work: Sequence[Callable[[], None]]) -> None:
        """Work until asked to stop, or until the director has ended."""
        for each in work:
            # Daemon threads: calls of the SDK may hang at the end, and must not delay it.
            threading.Thread(target=each, daemon=True).start()
        print(f"READY role=client name={self.options.name} pid={os.getpid()}", flush=True)
        while not self.stop.wait(LOOK_S):
            # If the director dies, this process gets another parent.
            if os.getppid() != self._parent:
                self.stop.set()


class Sender:
    """Sends one producer's part of the flights.

    Args:
        worker: Whose they are.
        producer: The SDK's, started.
        flights: Lines of key, carrier and body, with tabs between them.
    """

    def __init__(self, worker: Worker, producer: Any, flights: BinaryIO) -> None:
        self._worker = worker
        self._producer = producer
        self._flights = enumerate(flights)
        self._lock = threading.Lock()
        self._began_s = self._acked_s = _now_s()
        self._silence_s = 0.0
        self.sent = self.repeated = 0

    def send_all(self) -> None:
        """Return when each is acknowledged."""
        with ThreadPoolExecutor(LANES) as lanes:
            for lane in [lanes.submit(self._lane) for _ in range(LANES)]:
                lane.result()
        self._worker.tell(
            "done",
            count=self.sent,
            silence_ms=round(self._silence_s * 1000),
            repeated=self.repeated,
        )

    def _lane(self) -> None:
        while not self._worker.stop.is_set():
            # Only reading the line is serialized; the sends run in parallel.
            with self._lock:
                number, line = next(self._flights, (0, b""))
            if not line:
                return
            ahead_s = number / self._worker.options.rate - (_now_s() - self._began_s)
            if ahead_s > 0:
                self._worker.stop.wait(ahead_s)
            self._send(f"{self._worker.options.name}-{number}", *line.rstrip(b"\n").split(b"\t", 2))

    def _send(self, number: str, key: bytes, carrier: bytes, body: bytes) -> None:
        while not self._worker.stop.is_set():
            message = self._worker.sdk.Message()
            message.topic, message.body = self._worker.options.topic, body
            message.tag, message.keys = carrier.decode(), key.decode()
            message.add_property(NUMBER, number)
            try:
                self._producer.send(message)
            except Exception as exc:  # noqa: BLE001 - the SDK raises whatever it comes upon
                with self._lock:
                    self.repeated += 1
                self._worker.tell("repeats", reason=f"{type(exc).__name__}: {exc}"[:200])
                self._worker.stop.wait(PAUSE_S)
                continue
            with self._lock:
                self.sent += 1
                now = _now_s()
                self._silence_s = max(self._silence_s, now - self._acked_s)
                self._acked_s = now
                if self.sent % REPORT_EVERY == 0:
                    self._worker.tell("sent", count=self.sent)
            return


class Receiver:
    """Receives, writes down, acknowledges.

    Args:
        worker: Whose messages they are.
        consumer: The SDK's, started.
        records: Descriptor of the file for the lines of `tally.py`.
    """

    def __init__(self, worker: Worker, consumer: Any, records: int) -> None:
        self._worker = worker
        self._consumer = consumer
        self._records = records
        self._lanes = ThreadPoolExecutor(LANES)

    def receive_all(self) -> None:
        """Until the process ends."""
        while not self._worker.stop.is_set():
            try:
                # Long polling: without messages the call returns nothing after a while, and is
                # repeated.
                messages = self._consumer.receive(BATCH, self._worker.options.invisible_s) or []
            except Exception:  # noqa: BLE001 - the proxy is away, or the broker: ask again
                self._worker.stop.wait(PAUSE_S)
                continue
            # Before the acknowledgement, as an acknowledged message never comes again.
            os.write(self._records, b"".join(map(_record, messages)))
            # All acknowledgements are sent before any is awaited, which saves round trips.
            for ack in [self._lanes.submit(self._consumer.ack, each) for each in messages]:
                ack.exception()  # one that is not acknowledged comes again, and is counted


def _record(message: Any) -> bytes:
    flight = json.loads(message.body)
    # Empty for a cancelled flight, as in the other workers' lines.
    delay = flight.get("dep_delay", "")
    [key] = message.keys
    number = message.properties[NUMBER]
    return f"-,0,0,{key},{flight['carrier']},{delay},{number}\n".encode()


def main(words: Sequence[str] | None = None) -> None:
    """Send or receive until told to stop."""
    parser = argparse.ArgumentParser(description="Carries flights over gRPC.")
    parser.add_argument("does", choices=("send", "receive"))
    for name in ("--name", "--endpoints", "--topic", "--group", "--flights", "--records"):
        parser.add_argument(name, default="")
    parser.add_argument("--rate", type=float, default=float("inf"))
    parser.add_argument("--invisible-s", type=int, default=10)
    # The supervisor adds flags for PocketMQ's roles, which are ignored here.
    options, _of_supervisor = parser.parse_known_args(words)
    worker = Worker(options)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop.set())
    if options.does == "send":
        producer = worker.sdk.Producer(worker.where, (options.topic,))
        producer.startup()
        with Path(options.flights).open("rb") as flights:
            worker.run([Sender(worker, producer, flights).send_all])
        producer.shutdown()
    else:
        subscription = {options.topic: worker.sdk.FilterExpression()}
        consumer = worker.sdk.SimpleConsumer(worker.where, options.group, subscription, AWAIT_S)
        consumer.startup()
        records = os.open(options.records, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        worker.run([Receiver(worker, consumer, records).receive_all] * RECEIVERS)
        consumer.shutdown()
    os._exit(0)  # threads of the SDK that wait for an answer keep nobody waiting


if __name__ == "__main__":
    main()
