"""Golden files: frames as commented hex, stores as compressed archives."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
HEX_LINE_BYTES = 32

STORE_SIZES = {
    "mappedFileSizeCommitLog": 128 * 1024,
    "mappedFileSizeConsumeQueue": 100 * 20,
    "maxHashSlotNum": 400,
    "maxIndexNum": 1600,
    "maxMessageSize": 64 * 1024,
}
"""File sizes of the golden stores, under RocketMQ's names. A broker must open them with these."""


def codes_of_java() -> dict[str, dict[str, int]]:
    """Our class's name -> name -> number of each constant in RocketMQ's own class."""
    codes: dict[str, dict[str, int]] = json.loads((GOLDEN / "declared/codes.json").read_text())
    return codes


def read_hex(path: Path) -> bytes:
    """The bytes of a hex file; what follows `#` on a line is a comment."""
    lines = path.read_text().splitlines()
    return bytes.fromhex("".join(line.partition("#")[0] for line in lines))


def write_hex(path: Path, data: bytes, comment: str) -> None:
    """Write `data` as hex lines under one comment line."""
    lines = [data[at : at + HEX_LINE_BYTES].hex() for at in range(0, len(data), HEX_LINE_BYTES)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([f"# {comment}", *lines, ""]))


def wire_frames(encoding: str) -> Iterator[tuple[str, bytes]]:
    """Name and frame of each recorded exchange half; encoding `json` or `rocketmq`."""
    for path in sorted((GOLDEN / "wire" / encoding).glob("*.hex")):
        yield path.stem, read_hex(path)


def unpack_store(name: str, target: Path) -> Path:
    """Unpack the golden store `name` (`clean` or `killed`) below `target`.

    Returns:
        The folder with `store/` and `expected.jsonl`. Its files are as old as this call: retention
        goes by their age.
    """
    with tarfile.open(GOLDEN / "store" / f"{name}.tar.xz") as archive:
        archive.extractall(target, filter="data")
    for path in (target / name).rglob("*"):
        os.utime(path)
    return target / name
