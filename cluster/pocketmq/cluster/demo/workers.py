"""Shared by producer and consumer processes: options, and reports to the director.

A worker reports events as JSON lines on standard output: `{"event": "sent", "count": 1200}`. Times
are epoch milliseconds of the machine's clock, which all processes share.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypedDict, TypeVar

from pocketmq.cluster.demo.modes import ModeName
from pocketmq.operation.control.processor import event_log
from pocketmq.operation.events.sink import NO_EVENTS, EventSink, SinkMaker
from pocketmq.runtime.clock import Clock, SystemClock
from pocketmq.runtime.configuration.options import option
from pocketmq.runtime.process import RoleOptions, load_all

TOPIC = "flights"
PRODUCER_GROUP = "flights-producers"
CONSUMER_GROUP = "flights-consumers"
CLIENT_IP = "127.0.0.1"

_real_time = SystemClock()

OptionsT = TypeVar("OptionsT")


@dataclass(frozen=True, kw_only=True)
class ProducerOptions:
    """Options of a producer process."""

    section: ClassVar[str] = "demo.producer"

    name: str = option("producer-1", help="Name of this process.")
    nameservers: str = option("", help="Nameservers, separated by ';'.")
    part: int = option(
        0,
        help=(
            "Number of this producer, counted from 0. The number decides which flights the "
            "producer sends."
        ),
    )
    parts: int = option(1, help="Number of producers.")
    flights: int = option(
        0, help="Number of flights (rows) to take from the CSV file. 0: all rows."
    )
    rate: float = option(0.0, help="Maximum flights per second; 0 for no limit.")
    goes_on: bool = option(
        False,
        help="If no broker answers a send, repeat the send. A flight may then be stored twice.",
    )
    lanes: int = option(
        128,
        help=(
            "Number of sends at the same time. The flights of one aircraft are always sent "
            "one after the other."
        ),
    )


@dataclass(frozen=True, kw_only=True)
class ConsumerOptions:
    """Options of a consumer process."""

    section: ClassVar[str] = "demo.consumer"

    name: str = option("consumer-1", help="Name of this process.")
    nameservers: str = option("", help="Nameservers, separated by ';'.")
    records: Path = option(Path("records.csv"), help="File to which consumed messages are added.")
    mode: ModeName = option("shared", help="How to consume.")
    failure_rate: float = option(
        0.0, help="Only in the mode failures: share of deliveries that fail, from 0 to 1."
    )
    seed: int = option(2013, help="Decides which deliveries fail.")


def load_options(
    config_class: type[OptionsT], description: str, arguments: Sequence[str] | None
) -> tuple[RoleOptions, OptionsT]:
    """Load a worker's options from its command line.

    Raises:
        ConfigError: A value is wrong.
    """
    parser = argparse.ArgumentParser(description=description)
    role, own = load_all(parser, [RoleOptions, config_class], arguments)
    return role.config, own.config


def client_events(name: str, clock: Clock, *, is_on: bool) -> EventSink:
    """Keeps the events of this process's client from its start on, for who records the demo."""
    return event_log(f"{CLIENT_IP}@{name}", clock, always=True) if is_on else NO_EVENTS


class Identity(TypedDict):
    """Options that every client of the demo is given."""

    client_ip: str
    instance_name: str
    events: SinkMaker


def identity(name: str, events: EventSink) -> Identity:
    """The options by which this process's client is known under the process's name."""
    return {
        "client_ip": CLIENT_IP,
        "instance_name": name,
        # The same log whatever the client is called: recordings show the process's name.
        "events": lambda _by, _now_ms: events,
    }


def tell(event: str, **facts: object) -> None:
    """Report an event to the director."""
    # Flushed: otherwise a pipe would keep the lines until its buffer is full.
    print(json.dumps({"event": event, **facts}), flush=True)


def now_ms() -> int:
    """Epoch milliseconds on the real clock."""
    return _real_time.time_ms()
