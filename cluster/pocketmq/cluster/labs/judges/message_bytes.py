"""Lab 1: the program reads the files of a running broker; the judge asks the broker itself."""

from __future__ import annotations

from typing import Final, NamedTuple

from pocketmq.client import Message, Producer
from pocketmq.cluster.labs.program import Program
from pocketmq.cluster.labs.trial import Trial
from pocketmq.protocol.java import java_hash
from pocketmq.runtime.words import counted

COUNT: Final = 90
QUEUES: Final = 2
LOG_FILE_BYTES: Final = 65_536

ENTRY_WHY = (
    "an entry has 20 bytes: 8 of the physical offset, 4 of the size, 8 of the tag's hash; "
    "entry N begins at byte 20 N (S-30)"
)
RECORD_WHY = "the fields of a record stand in the order of the page's table, big-endian (S-5)"


class Fact(NamedTuple):
    """What the broker says of one message."""

    queue: int
    offset: int
    physical_offset: int
    size: int
    body: str
    tag: str
    keys: str


async def judge(trial: Trial) -> None:
    """See the lab's page."""
    record = trial.record
    topic = await trial.topic("letters", QUEUES)
    facts = await _sent(trial, topic)
    store = trial.cluster.roles.data / "broker-a"
    # Messages of one file come first; the second file is a stage of its own.
    first, later = _two_files(facts)
    async with trial.program(LAB_STORE=str(store), LAB_TOPIC=topic) as program:
        record.stage()
        record.note(f"{COUNT} messages lie in {QUEUES} queues of {topic}")
        for fact in trial.random.sample(first, 5):
            answer = await _ask(program, "entry", fact)
            wanted = {
                "physical_offset": fact.physical_offset,
                "size": fact.size,
                # A message without a tag has the hash 0.
                "tag_hash": java_hash(fact.tag) if fact.tag else 0,
            }
            record.expect(
                f"queue {fact.queue}, offset {fact.offset}: its entry, tag {fact.tag or 'none'}",
                wanted=wanted, found=answer, why=ENTRY_WHY,
            )  # fmt: skip
        record.stage()
        for fact in trial.random.sample(first, 5):
            await _record(trial, program, fact, topic)
        record.stage()
        for fact in trial.random.sample(first, 5):
            record.expect(
                f"queue {fact.queue}, offset {fact.offset}: its tag and keys",
                wanted={"tag": fact.tag, "keys": fact.keys},
                found=await _ask(program, "properties", fact),
                why="properties are one text: name, byte 1, value, byte 2, and so on; the tag is "
                "TAGS, the keys are KEYS (S-6)",
            )
        record.stage()
        record.note(
            f"another file of the log, of {LOG_FILE_BYTES} bytes, has "
            f"{counted(len(later), 'message')}"
        )
        for fact in trial.random.sample(later, 5):
            await _record(trial, program, fact, topic)
        record.stage()
        for queue in range(QUEUES):
            beyond = sum(fact.queue == queue for fact in facts)
            record.expect(
                f"queue {queue} has {counted(beyond, 'message')}: the entry of offset {beyond}",
                wanted={"found": False},
                found=await program.ask(
                    {"ask": "entry", "queue": queue, "offset": beyond}, "the answer"
                ),
                why="the file is longer than what was written: what follows the last entry is "
                "zeros, and no message has the size 0",
            )


def _two_files(facts: list[Fact]) -> tuple[list[Fact], list[Fact]]:
    """The messages of the two log files that have most of them, in the order of the log."""
    files: dict[int, list[Fact]] = {}
    for fact in facts:
        files.setdefault(fact.physical_offset // LOG_FILE_BYTES, []).append(fact)
    # The two with the most: on a used cluster the first and the last file may have few of them.
    fullest = sorted(files, key=lambda file: len(files[file]))[-2:]
    return files[min(fullest)], files[max(fullest)]


async def _record(trial: Trial, program: Program, fact: Fact, topic: str) -> None:
    trial.record.expect(
        f"queue {fact.queue}, offset {fact.offset}: its record at byte {fact.physical_offset}",
        wanted={"topic": topic, "queue": fact.queue, "offset": fact.offset, "body": fact.body},
        found=await _ask(program, "record", fact),
        why=RECORD_WHY
        if fact.physical_offset < LOG_FILE_BYTES
        else "a log file is named after the physical offset of its first byte, in 20 digits (S-1)",
    )


async def _ask(program: Program, ask: str, fact: Fact) -> dict[str, object]:
    question = {"ask": ask, "queue": fact.queue, "offset": fact.offset}
    return await program.ask(question, f"the {ask} of queue {fact.queue}, offset {fact.offset}")


async def _sent(trial: Trial, topic: str) -> list[Fact]:
    """Send messages of various sizes; what the broker says of each."""
    random = trial.random
    async with Producer(
        trial.name("judge"), nameservers=trial.cluster.nameservers, clock=trial.clock
    ) as producer:
        for number in range(COUNT):
            # Of various lengths, so that a program with a fixed record size fails.
            body = f"letter {number} " + "x" * random.randrange(500, 1500)
            tag = random.choice(("", "new", "changed", "order-cancelled"))
            await producer.send(Message(topic, body.encode(), tags=tag, keys=f"key-{number}"))
    return [
        Fact(
            queue, each.queue_offset, each.commit_log_offset, each.store_size,
            each.body.decode(), each.tags or "", each.keys or "",
        )
        for queue in range(QUEUES)
        for each in await trial.messages(topic, queue)
    ]  # fmt: skip
