"""Solutions of the labs, and wrong answers that are made of them by one change each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pocketmq.cluster.labs.catalog import lab_of

SOLUTIONS = Path(__file__).parent / "solutions"


@dataclass(frozen=True)
class Wrong:
    """A solution with a mistake, and what the judge must say of it."""

    old: str
    new: str
    stage: str
    """Title of the stage that fails."""
    step: str
    """Words of the first wrong step."""


WRONG: dict[int, list[Wrong]] = {
    1: [
        Wrong("ENTRY.size * offset", "ENTRY.size * offset + 20", "the entry", "its entry"),
        Wrong("size == 0", "size < 0", "where nothing lies", "the entry of offset"),
        Wrong("physical_offset // file_size * file_size", "0", "the record", "record"),
        Wrong('found.get("KEYS", "")', 'found.get("TAGS", "")', "tag and keys", "tag and keys"),
    ],
    2: [
        Wrong("registered_s + at_s <= 120", "at_s <= 120", "frozen", "gone from the route"),
        Wrong("at_s += 5", "at_s += 1", "frozen", "122 s after the stop"),
        Wrong('how != "frozen"', 'how == "stopped"', "killed", "no time has passed"),
    ],
    3: [
        Wrong("size > places or", "size > places + 9 or", "balance", "group"),
        Wrong("left.remove(queue)", "pass", "one owner each", "group"),
        Wrong("draw(member, queue), member", "hash((member, queue)), member",
              "the same everywhere", "asked in another process"),
        Wrong("draw(member, queue), member",
              'draw(str(members.index(member)), queue), member', "movement", "changes of one"),
    ],
    4: [
        Wrong("PRIMARY KEY", "", "sent twice", "p-3"),
        Wrong("    enter(found", '    enter(message.msg_id + " " + found', "sent twice", "p-1"),
        Wrong('    say("got", found["payment"])\n    enter(found["payment"], found["amount"])\n',
              '    BOOK.execute("CREATE TABLE IF NOT EXISTS known (id TEXT)")\n'
              '    sql = "SELECT 1 FROM known WHERE id = ?"\n'
              '    if BOOK.execute(sql, [message.keys]).fetchone():\n'
              '        return say("done", found["payment"])\n'
              '    BOOK.execute("INSERT INTO known VALUES (?)", [message.keys]); BOOK.commit()\n'
              '    say("got", found["payment"])\n    enter(found["payment"], found["amount"])\n',
              "killed before anything", "p-15"),
    ],
    5: [
        Wrong(", orderly=True", "", "busy", "the next request"),
        Wrong("message.queue_offset)", "__import__('time').time_ns())", "the answer is lost",
              "is applied after"),
        Wrong('answer == "busy"', 'answer != "ok"', "the answer is lost", "comes again"),
    ],
    6: [
        Wrong("[10, 30, 60, 120]", "[10, 30, 30, 120]", "the budget", "it comes again"),
        Wrong('["LAB_ATTEMPTS"]) - 1', '["LAB_ATTEMPTS"])', "the budget", "attempt 5 of 5"),
        Wrong("next_consume = -1", "next_consume = 0", "poison", "no JSON"),
        Wrong('LEVELS.get(answer.get("again_after_s"), 0)', "0", "hours", "closed"),
    ],
    7: [
        Wrong('Path(os.environ["LAB_STATE"]) / "book.db"', '":memory:"', "two orders", "the book"),
        Wrong("            state = TransactionState.ROLLBACK\n",
              "            state = TransactionState.COMMIT\n", "dies before", "asks for o-3"),
        Wrong("elif order in self.running:", "elif False:", "asked too early", "asks for o-5"),
    ],
    8: [
        Wrong('(in_sync, living) if unclean else (in_sync,)', '(living,)', "in sync", "master 1"),
        Wrong('-replica["epoch"], ', "", "in sync", "master 1"),
        Wrong('(in_sync, living) if unclean', '(living,) if unclean', "unclean", "master 1"),
        Wrong('found = {"master": master, "epoch": event["epoch"], "in_sync": [master]}',
              'found |= {"master": master, "epoch": event["epoch"]}', "read an election",
              "who is master"),
    ],
}  # fmt: skip
"""For each lab, mistakes that learners make."""


def solution(number: int) -> str:
    """The text of a lab's solution."""
    return (SOLUTIONS / f"lab{number}.py").read_text()


def starting_file(number: int) -> str:
    """The text of a lab's starting file."""
    return (lab_of(number).folder / "lab.py").read_text()
