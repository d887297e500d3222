"""Lab 1: where does a message lie."""

import json
import os
import struct
import sys
from pathlib import Path

STORE = Path(os.environ["LAB_STORE"])
TOPIC = os.environ["LAB_TOPIC"]
ENTRY = struct.Struct(">qiq")


def read(path: Path, at: int, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(at)
        return file.read(size)


def raw_entry(queue: int, offset: int) -> tuple[int, int, int]:
    path = STORE / "consumequeue" / TOPIC / str(queue) / f"{0:020}"
    return ENTRY.unpack(read(path, ENTRY.size * offset, ENTRY.size))


def entry(queue: int, offset: int) -> dict[str, object]:
    physical_offset, size, tag_hash = raw_entry(queue, offset)
    if size == 0:
        return {"found": False}
    return {"physical_offset": physical_offset, "size": size, "tag_hash": tag_hash}


def raw_record(queue: int, offset: int) -> bytes:
    physical_offset, size, _ = raw_entry(queue, offset)
    log = STORE / "commitlog"
    file_size = (log / f"{0:020}").stat().st_size
    begins = physical_offset // file_size * file_size
    return read(log / f"{begins:020}", physical_offset - begins, size)


def parts(raw: bytes) -> tuple[int, int, bytes, bytes, bytes]:
    queue_id, _flag, queue_offset = struct.unpack_from(">iiq", raw, 12)
    at = 84
    body_size = int.from_bytes(raw[at : at + 4])
    body = raw[at + 4 : at + 4 + body_size]
    at += 4 + body_size
    topic = raw[at + 1 : at + 1 + raw[at]]
    at += 1 + raw[at]
    size = int.from_bytes(raw[at : at + 2])
    return queue_id, queue_offset, body, topic, raw[at + 2 : at + 2 + size]


def record(queue: int, offset: int) -> dict[str, object]:
    queue_id, queue_offset, body, topic, _ = parts(raw_record(queue, offset))
    return {
        "topic": topic.decode(),
        "queue": queue_id,
        "offset": queue_offset,
        "body": body.decode(),
    }


def properties(queue: int, offset: int) -> dict[str, object]:
    text = parts(raw_record(queue, offset))[4].decode()
    found = dict(pair.split("\x01") for pair in text.split("\x02") if pair)
    return {"tag": found.get("TAGS", ""), "keys": found.get("KEYS", "")}


ANSWERS = {"entry": entry, "record": record, "properties": properties}

for line in sys.stdin:
    question = json.loads(line)
    answer = ANSWERS[question["ask"]](question["queue"], question["offset"])
    print(json.dumps(answer), flush=True)
