"""The judge finds what may not be, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from pocketmq.simulation.histories import Anomaly, Judge, Judgement, Recorder
from pocketmq.simulation.histories.files import judge_files, lines_of
from pocketmq.simulation.histories.judge import HistoryError, Word
from support.cost import cost_s, unit_s

PAGE = Path(__file__).resolve().parents[3] / "docs" / "histories.md"
EXAMPLES = re.findall(
    r"```json\n(.*?)```\n```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S
)

Line = tuple[Word, ...]


def judged(lines: Iterator[Line] | list[Line]) -> Judgement:
    judge = Judge()
    for line in lines:
        judge.take(line)
    return judge.judgement()


@pytest.mark.parametrize(("history", "said"), EXAMPLES)
def test_the_examples_of_the_page_are_judged_as_it_says(history: str, said: str) -> None:
    judgement = judged([tuple(json.loads(line)) for line in history.splitlines()])
    _, *words = str(judgement).splitlines()
    if said == "no anomaly\n":
        assert words == ["no anomaly"]
    else:
        found = [example for examples in judgement.examples.values() for example in examples]
        assert sorted(found) == sorted(said.splitlines())


def test_the_page_has_an_example_of_every_anomaly() -> None:
    said = "".join(text for _, text in EXAMPLES)
    assert {kind for kind in Anomaly if f"{kind}: " in said} == set(Anomaly)


def clean(messages: int, chance: Random | None = None) -> Iterator[Line]:
    """A history without fault: keys, two groups, retries whose first try was stored, commits."""
    chance = chance or Random(7)
    ends: dict[str, int] = {}
    at = 0
    yield ("orderly", at, "orderly")
    for number in range(messages):
        key = f"k{number % 50}"
        queue = f"broker-{'ab'[number % 2]}/orders/{number % 8 // 2}"
        message = f"{key}/{number // 50}"
        yield ("send", at, key, message)
        if chance.random() < 0.01:  # the answer got lost
            ends[queue] = ends.get(queue, 0) + 1
            for group in ("readers", "orderly"):
                yield ("receive", at + 1, group, queue, ends[queue] - 1, message)
            yield ("send", at + 2, key, message)
        offset = ends.get(queue, 0)
        ends[queue] = offset + 1
        yield ("ack", at + 3, message, queue, offset)
        for group in ("readers", "orderly"):
            yield ("receive", at + 4, group, queue, offset, message)
        yield ("commit", at + 5, "readers", queue, offset + 1)
        yield ("committed", at + 7, "readers", queue, offset + 1, at + 6)
        at += 10


def test_a_history_without_fault_is_clean() -> None:
    judgement = judged(clean(5_000))
    assert judgement.is_clean, judgement
    assert judgement.sent == judgement.acknowledged == 5_000
    assert judgement.redelivered == 0
    assert judgement.commits == 5_000


@pytest.mark.parametrize("seed", range(5))
def test_each_planted_anomaly_is_found_wherever_it_is(seed: int) -> None:
    chance = Random(seed)
    lines = list(clean(1_000))
    acks = [at for at, line in enumerate(lines) if line[0] == "ack"]
    at = chance.choice(acks[100:-100])
    ack = lines[at]
    _, moment, message, queue, offset = ack
    assert isinstance(offset, int)

    def without(group: str) -> list[Line]:
        return [
            line
            for line in lines
            if line[:1] != ("receive",) or line[2:] != (group, queue, offset, message)
        ]

    def planted(*more: Line) -> list[Line]:
        return [*lines[: at + 1], *more, *lines[at + 1 :]]

    tries = sum(1 for line in lines if line[0] == "send" and line[3] == message)
    copies = [
        ("receive", moment, "readers", "broker-c/orders/0", number, message)
        for number in range(tries)
    ]
    later = without("orderly")
    later.append(("receive", 10**9, "orderly", queue, offset, message))
    back = ("committed", 10**9, "readers", queue, offset, 10**9)
    for history, kind in (
        (without("readers"), Anomaly.LOST),
        (planted(*copies), Anomaly.DUPLICATED),
        (later, Anomaly.REORDERED),
        ([*lines, back], Anomaly.REGRESSED),
        (planted(("receive", moment, "readers", queue, offset, "other")), Anomaly.CONFLICT),
        (planted(("fail", moment, message)), Anomaly.PHANTOM),
        (planted(("send", moment, "k", "new"), ("ack", moment, "new", queue, 10**6)), None),
    ):
        found = judged(history).counts
        assert found[kind or Anomaly.UNOBSERVED] >= 1, (kind, found)


def test_a_read_that_was_asked_for_before_another_answer_came_is_no_regression() -> None:
    lines: list[Line] = [
        ("committed", 5, "g", "a/t/0", 9, 1),
        ("committed", 6, "g", "a/t/0", 7, 2),  # its question left before the first answer came
        ("committed", 8, "g", "a/t/0", 9, 7),
    ]
    assert judged(lines).is_clean


@pytest.mark.parametrize("line", [["sent", 1], ["ack", 1], ["send", 1, "k", "m", 1], [], [1, 2]])
def test_what_is_no_line_of_a_history_is_refused(line: list[Word]) -> None:
    with pytest.raises(HistoryError, match="not a line of a history"):
        Judge().take(line)


def test_files_of_several_processes_are_put_in_order(tmp_path: Path) -> None:
    with Recorder(tmp_path / "p.jsonl") as producer, Recorder(tmp_path / "c.jsonl") as consumer:
        producer.send("k", "k/1")
        producer.ack("k/1", "a/t/0", 0)
        consumer.receive("g", "a/t/0", 0, "k/1")
        asked = consumer.now_us
        consumer.committed("g", "a/t/0", 1, asked)
        producer.send("k", "k/2")
        producer.ack("k/2", "a/t/0", 1)
        consumer.receive("g", "a/t/0", 1, "k/2")
    with (tmp_path / "c.jsonl").open("ab") as torn:
        torn.write(b'["receive",5')  # its process was killed
    judgement = judge_files(sorted(tmp_path.iterdir()))
    assert judgement.is_clean
    assert judgement.operations == 7
    with (tmp_path / "c.jsonl").open("ab") as torn:
        torn.write(b"\n")
    with pytest.raises(HistoryError, match=r"c\.jsonl, line 4"):
        list(lines_of(tmp_path / "c.jsonl"))


def test_operations_are_judged_five_hundred_in_a_unit_of_work() -> None:
    # A million in ten seconds, half of them for reading, where a unit takes 2.7 ms.
    lines = list(clean(4_000))
    assert cost_s(lambda: judged(iter(lines))) < len(lines) / 500 * unit_s()
    assert judged(iter(lines)).is_clean
