"""Fault rules in a file: TOML with `[[faults]]`, or JSON of the same shape."""

from __future__ import annotations

from pathlib import Path

import msgspec

from pocketmq.operation.faults.rule import FaultRule, WrongFaultError
from pocketmq.runtime.errors import ConfigError


class _File(msgspec.Struct, forbid_unknown_fields=True):
    faults: list[FaultRule] = []


def read_rules(path: Path) -> list[FaultRule]:
    """The rules of a file, checked and numbered r1, r2, ...

    Raises:
        ConfigError: It cannot be read, or a rule contradicts itself.
    """
    try:
        content = path.read_bytes()
        decode = msgspec.json.decode if path.suffix == ".json" else msgspec.toml.decode
        found = decode(content, type=_File).faults
        return [
            # Rules without an id get a number, so that firings can name them.
            msgspec.structs.replace(each.checked(), id=each.id or f"r{number}")
            for number, each in enumerate(found, start=1)
        ]
    except (OSError, ValueError, msgspec.DecodeError, WrongFaultError) as exc:
        raise ConfigError("rules", f"{path}: {exc}") from exc
