"""Reads seed files: topics and messages that are created when a cluster starts."""

from __future__ import annotations

from pathlib import Path

import msgspec

from pocketmq.cluster.control_address.declarations import NewMessage, Seed
from pocketmq.runtime.errors import ConfigError


def read_seed(path: Path) -> Seed:
    """Read a TOML, JSON or JSONL file; a line of the last is a message.

        [[topics]]
        name = "orders"
        queues = 8

        [[messages]]
        topic = "orders"
        body = "hello"
        tag = "new"

    Raises:
        ConfigError: It cannot be read, or is no seed.
    """
    try:
        content = path.read_bytes()
        if path.suffix == ".json":
            return msgspec.json.decode(content, type=Seed)
        if path.suffix == ".jsonl":
            # A JSON line does not say what it is, so all lines are messages.
            return Seed(messages=msgspec.json.Decoder(NewMessage).decode_lines(content))
        return msgspec.toml.decode(content, type=Seed)
    except OSError as exc:
        raise ConfigError("seed", f"{path}: {exc.strerror or exc}") from exc
    except (msgspec.DecodeError, ValueError) as exc:
        advice = "see docs/control.md for what a seed may hold"
        if path.suffix == ".jsonl":
            advice += "; what `message export` wrote is for `pocketmq message import`"
        raise ConfigError("seed", f"{path}: {exc}", advice=advice) from exc
