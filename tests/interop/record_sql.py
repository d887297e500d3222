"""Recipe of `tests/golden/sql92/answers.json`: RocketMQ's own filter judges generated messages.

python tests/interop/record_sql.py [SEED [EXPRESSIONS [MESSAGES]]]
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.golden import GOLDEN
from support.java import run_java
from support.sql_cases import SqlCases


def judged(messages: list[dict[str, str]], expressions: list[str]) -> list[str]:
    """For each expression `refused`, or a digit for each message."""
    cases = {"messages": messages, "expressions": expressions}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(cases, file)
        file.flush()
        lines = run_java("JudgeSql", file.name).stdout.splitlines()
    assert len(lines) == len(expressions)
    return lines


def drawn(seed: int, expressions: int, messages: int) -> dict[str, Any]:
    """Cases of a seed with RocketMQ's answers."""
    cases = SqlCases(seed)
    made, texts = cases.messages(messages), cases.expressions(expressions)
    answers = judged(made, texts)
    return {"messages": made, "answers": dict(zip(texts, answers, strict=True))}


def main() -> None:
    """Write the golden file."""
    numbers = [int(text) for text in sys.argv[1:]]
    found = drawn(*[*numbers, *[2025, 2000, 24][len(numbers) :]])
    path = GOLDEN / "sql92" / "answers.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(found, indent=0) + "\n")
    print(path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
